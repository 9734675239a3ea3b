"""Margin losses over classes: one class a row, or several.

Each compares the score of a right class with those of the others and asks for a distance between.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import assigned_at, combined_at, data_says, running
from maquette.aten.common.axes import Array
from maquette.aten.common.backward_checks import check_count, check_floats_only
from maquette.aten.common.element_types import check_no_halves_on_cpu
from maquette.aten.nn.loss.elementwise_losses import reduced_array
from maquette.aten.nn.loss.likelihood import MEAN, NONE
from maquette.aten.nn.loss.loss_batching import (
    multi_margin_loss_batching,
    multilabel_margin_loss_batching,
)
from maquette.core.dtype import int64
from maquette.core.errors import check, of_data
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.core.symbols import is_true
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

Maybe = TensorMeta | None
MaybeArray = Array | None


def _check_rows(self: TensorMeta) -> tuple[int, int]:
    """The number of rows and of classes; RuntimeError for no classes or more dimensions."""
    check(
        self.ndim <= 2 and not (self.ndim and is_true(self.shape[-1] == 0)),
        lambda: (
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self.shape)}"
        ),
    )
    rows = self.shape[0] if self.ndim == 2 else 1
    return rows, self.shape[-1] if self.ndim else 1


def _check_long(target: TensorMeta) -> None:
    check(
        target.dtype is int64,
        lambda: f"expected scalar type Long but found {target.dtype.scalar_name}",
    )


def _matrix(x: Array) -> Array:
    return wide(x).reshape(-1, x.shape[-1] if x.ndim else 1)


# --- one class a row -----------------------------------------------------------------

_MULTI = "Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1"
_MULTI_BARE = "Scalar p, Scalar margin, Tensor? weight=None, int reduction=1"
multi_margin_loss = define(
    f"aten::multi_margin_loss(Tensor self, Tensor target, {_MULTI}) -> Tensor", variants=["out"]
)
multi_margin_loss.describe(
    "The margin by which other classes come near the target's score, averaged by default."
)
multi_margin_loss.autocast("float32")
multi_margin_loss_backward = define(
    f"aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, "
    f"{_MULTI_BARE}) -> Tensor",
    variants=[
        f"aten::multi_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, "
        f"Tensor target, {_MULTI_BARE}, *, Tensor(a!) grad_input) -> Tensor(a!)"
    ],
)


@multi_margin_loss.shape
def multi_margin_loss_shape(
    self: TensorMeta,
    target: TensorMeta,
    p: Number,
    margin: Number,
    weight: Maybe,
    reduction: int,
) -> TensorMeta:
    check(p in (1, 2), lambda: f"only p == 1 and p == 2 supported; got p={p}")
    check_floats_only("multi_margin_loss", self)
    check_no_halves_on_cpu("multi_margin_loss_cpu_kernel", self)
    rows, classes = _check_rows(self)
    check(
        target.ndim <= 1 and target.numel == rows,
        lambda: (
            f"multi_margin_loss: target tensor should be 1-D with size equal to the number of "
            f"input samples (batch size). Expected target size [{rows}], but got "
            f"{list(target.shape)}. Input has shape {list(self.shape)}."
        ),
    )
    check(
        weight is None or weight.shape == (classes,),
        lambda: (
            f"inconsistent weight size, expected {classes} but got "
            f"{list(weight.shape) if weight else []}"
        ),
    )
    _check_long(target)
    return self.fresh(target.shape if reduction == NONE else ())


def _excess(
    xp: ModuleType, self: Array, target: Array, margin: Number
) -> tuple[Array, Array, Array]:
    """How far each wrong class comes within the margin; the rows as a matrix; the targets."""
    x, t = _matrix(self), target.reshape(-1)
    classes = x.shape[1]
    if data_says(lambda: ((t < 0) | (t >= classes)).any()):
        raise of_data(RuntimeError(f"target out of range: classes are 0 to {classes - 1}"))
    right = xp.take_along_axis(x, t[:, None], 1)
    excess = xp.maximum(x - right + x.dtype.type(float(margin.real)), 0)
    return assigned_at(xp, excess, (xp.arange(len(t)), t), 0), x, t


@multi_margin_loss.kernel
def multi_margin_loss_kernel(
    xp: ModuleType,
    self: Array,
    target: Array,
    p: Number,
    margin: Number,
    weight: MaybeArray,
    reduction: int,
) -> Array:
    excess, x, t = _excess(xp, self, target, margin)
    powers = excess if p == 1 else excess * excess
    if weight is not None:
        powers = powers * wide(weight)[t][:, None]
    losses = powers.sum(axis=1) / x.dtype.type(x.shape[1])
    return reduced_array(
        xp, losses.reshape(target.shape) if reduction == NONE else losses, reduction
    )


@multi_margin_loss_backward.shape
def multi_margin_loss_backward_shape(
    grad_output: TensorMeta,
    self: TensorMeta,
    target: TensorMeta,
    p: Number,
    margin: Number,
    weight: Maybe,
    reduction: int,
) -> TensorMeta:
    output = multi_margin_loss_shape(self, target, p, margin, weight, reduction)
    check_count("multi_margin_loss_backward", "a gradient", grad_output, output.numel)
    return self.fresh(self.shape)


@multi_margin_loss_backward.kernel
def multi_margin_loss_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    self: Array,
    target: Array,
    p: Number,
    margin: Number,
    weight: MaybeArray,
    reduction: int,
) -> Array:
    excess, x, t = _excess(xp, self, target, margin)
    slope = (excess > 0).astype(x.dtype) if p == 1 else 2 * excess
    if weight is not None:
        slope = slope * wide(weight)[t][:, None]
    slope = assigned_at(xp, slope, (xp.arange(len(t)), t), -slope.sum(axis=1))
    rows = len(x) if reduction == MEAN else 1
    scaled: Array = slope / x.dtype.type(max(x.shape[1] * rows, 1)) * _by_row(grad_output)
    return scaled.reshape(self.shape)


def _by_row(grad_output: Array) -> Array:
    return wide(grad_output).reshape(-1, 1)


multi_margin_loss.derivative(
    self=lambda grad, self, target, p, margin, weight, reduction: multi_margin_loss_backward(
        grad, self, target, p, margin, weight, reduction
    )
)
multi_margin_loss.cost(lambda self, *rest: Cost(flops=3 * self.numel))
multi_margin_loss.batching_decomposition(multi_margin_loss_batching)


# --- several classes a row -----------------------------------------------------------

multilabel_margin_loss_forward = define(
    "aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) "
    "-> (Tensor output, Tensor is_target)",
    variants=[
        "aten::multilabel_margin_loss_forward.output(Tensor self, Tensor target, int reduction, "
        "*, Tensor(a!) output, Tensor(b!) is_target) -> (Tensor(a!), Tensor(b!))"
    ],
)
multilabel_margin_loss_forward.node_name("MultilabelMarginLossBackward0")
multilabel_margin_loss_forward.describe("`multilabel_margin_loss`, and what its backward needs.")
multilabel_margin_loss_forward.autocast(cpu="float32")
multilabel_margin_loss_backward = define(
    "aten::multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, "
    "int reduction, Tensor is_target) -> Tensor",
    variants=[
        "aten::multilabel_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, "
        "Tensor target, int reduction, Tensor is_target, *, Tensor(a!) grad_input) -> Tensor(a!)"
    ],
)
multilabel_margin_loss = define(
    "aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"
)
multilabel_margin_loss.describe(
    "The margin by which other classes come near those of the targets, averaged by default."
)
multilabel_margin_loss.autocast("float32")


@multilabel_margin_loss_forward.shape
def multilabel_margin_loss_forward_shape(
    self: TensorMeta, target: TensorMeta, reduction: int
) -> tuple[TensorMeta, TensorMeta]:
    check_floats_only("multilabel_margin_loss", self)
    check_no_halves_on_cpu("multilabel_margin_loss_forward_out_frame", self)
    _check_rows(self)
    check(
        target.numel == 1 if not self.ndim else target.shape == self.shape,
        lambda: (
            f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}"
        ),
    )
    _check_long(target)
    rows = self.shape[:1] if self.ndim == 2 and reduction == NONE else ()
    return self.fresh(rows), self.fresh(target.shape)


def _named(xp: ModuleType, target: Array, classes: int) -> tuple[Array, Array]:
    """Which positions name a class (those before the first -1), and the classes as a mask."""
    t = target.reshape(-1, target.shape[-1] if target.ndim else 1)
    if data_says(lambda: ((t < -1) | (t >= classes)).any()):
        raise of_data(
            RuntimeError(f"argument #2 'target' is out of range: classes are 0 to {classes - 1}")
        )
    counted = running(xp, "minimum", (t >= 0).astype(xp.int8), 1) > 0
    if xp is not np:  # without sizes that depend on values
        pairs = counted[:, :, None] & (t[:, :, None] == xp.arange(t.shape[1]))
        return counted, pairs.any(axis=1)
    mask = np.zeros(t.shape, bool)
    mask[np.nonzero(counted)[0], t[counted]] = True
    return counted, mask


_AT_ONCE = 1 << 20  # pairs of classes


def _parts(x: Array) -> list[slice]:
    """Slices of rows whose pairs of classes are few enough to be held at once."""
    step = max(1, _AT_ONCE // max(x.shape[1] ** 2, 1))
    return [slice(start, start + step) for start in range(0, max(len(x), 1), step)]


def _pairs(xp: ModuleType, self: Array, target: Array) -> tuple[Array, Array, Array, Array]:
    """For each row, named class and other class: how far within the margin 1."""
    x = _matrix(self)
    counted, mask = _named(xp, target, x.shape[1])
    t = xp.where(counted, target.reshape(x.shape), 0)
    # What does not count is so far away that it is not within the margin.
    right = xp.where(counted, xp.take_along_axis(x, t, 1), xp.inf)
    excess = (1 - right)[:, :, None] + xp.where(mask, -xp.inf, x)[:, None, :]
    if xp is np:
        return np.maximum(excess, 0, out=excess), x, t, mask
    return xp.maximum(excess, 0), x, t, mask


@multilabel_margin_loss_forward.kernel
def multilabel_margin_loss_forward_kernel(
    xp: ModuleType, self: Array, target: Array, reduction: int
) -> tuple[Array, Array]:
    x, sums, masks = _matrix(self), [], []
    for rows in _parts(x):
        excess, _, _, mask = _pairs(xp, x[rows], target.reshape(x.shape)[rows])
        sums.append(excess.sum(axis=(1, 2)))
        masks.append(mask)
    mask, losses = xp.concatenate(masks), xp.concatenate(sums) / x.dtype.type(x.shape[1])
    if reduction == NONE and self.ndim < 2:
        losses = losses.reshape(())
    return reduced_array(xp, losses, reduction), mask.reshape(target.shape).astype(x.dtype)


@multilabel_margin_loss_backward.shape
def multilabel_margin_loss_backward_shape(
    grad_output: TensorMeta,
    self: TensorMeta,
    target: TensorMeta,
    reduction: int,
    is_target: TensorMeta,
) -> TensorMeta:
    multilabel_margin_loss_forward_shape(self, target, reduction)
    rows = self.shape[0] if self.ndim == 2 and reduction == NONE else 1
    check_count("multilabel_margin_loss_backward", "a gradient", grad_output, rows)
    check(
        is_target.shape == target.shape,
        lambda: (
            f"inconsistent is_target size: {list(is_target.shape)} for target of size: "
            f"{list(target.shape)}"
        ),
    )
    return self.fresh(self.shape)


@multilabel_margin_loss_backward.kernel
def multilabel_margin_loss_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    self: Array,
    target: Array,
    reduction: int,
    is_target: Array,
) -> Array:
    x, parts = _matrix(self), []
    for rows in _parts(x):
        excess, part, t, _ = _pairs(xp, x[rows], target.reshape(x.shape)[rows])
        within = (excess > 0).astype(x.dtype)
        lines = xp.arange(len(part))[:, None]
        pushed = combined_at(xp, "add", within.sum(axis=1), (lines, t), -within.sum(axis=2))
        parts.append(pushed)
    found = xp.concatenate(parts)
    count = len(x) if reduction == MEAN else 1
    scaled: Array = found / x.dtype.type(max(x.shape[1] * count, 1)) * _by_row(grad_output)
    return scaled.reshape(self.shape)


multilabel_margin_loss_forward.derivative(
    self=lambda grad, self, target, reduction, result1: multilabel_margin_loss_backward(
        grad, self, target, reduction, result1
    )
)
multilabel_margin_loss_forward.nondifferentiable(1)
multilabel_margin_loss_forward.cost(lambda self, *rest: Cost(flops=3 * self.numel))
multilabel_margin_loss_forward.batching_decomposition(multilabel_margin_loss_batching)


@multilabel_margin_loss.composite
def multilabel_margin_loss_composite(self: Tensor, target: Tensor, reduction: int) -> object:
    results = multilabel_margin_loss_forward(self, target, reduction)
    assert isinstance(results, tuple)
    return results[0]
