"""Negative log likelihood and cross entropy: losses whose target names a class.

`nll_loss_forward` serves one row or a batch of rows, `nll_loss2d_forward` a class a pixel; every
other shape is brought to these two. Losses of two numbers are in `elementwise_losses.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import is_narrow, wide
from maquette.aten.common.array_libraries import assigned_at, data_says
from maquette.aten.common.axes import Array
from maquette.aten.common.backward_checks import check_count, check_floats_only
from maquette.aten.common.formula_helpers import over, plus, times
from maquette.aten.common.large_arrays import loops_for_floats
from maquette.aten.common.narrow_floats import converted
from maquette.aten.indexing.scattering import positions_along
from maquette.aten.nn.activation.softmax import log_softmax
from maquette.aten.nn.loss.loss_batching import nll_loss_backward_batching, nll_loss_batching
from maquette.core.dtype import int64, uint8
from maquette.core.errors import check, check_value, of_data
from maquette.core.meta import TensorMeta
from maquette.library.page import Cost, OperatorPage, define, describe
from maquette.tensor.backend import backend_for
from maquette.tensor.tensor import Tensor

NONE, MEAN, SUM = 0, 1, 2
Maybe = TensorMeta | None
Grad = Tensor | None


# --- shape rules ---------------------------------------------------------------------


def _check_classes(name: str, self: TensorMeta, weight: Maybe, classes: int) -> None:
    if not self.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{name}_out_frame\" not implemented for '{self.dtype.scalar_name}'"
        )
    check(
        weight is None or weight.shape == (classes,),
        lambda: (
            f"weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape) if weight else []}"
        ),
    )
    check(
        weight is None or weight.dtype is self.dtype,
        lambda: (
            f"expected scalar type {self.dtype.scalar_name} but found "
            f"{weight.dtype.scalar_name if weight else ''}"
        ),
    )


def _check_target(target: TensorMeta) -> None:
    check(
        target.dtype in (int64, uint8),
        lambda: (
            f"expected scalar type Long or Byte for the target of class numbers, but found "
            f"{target.dtype.scalar_name}; convert it with target.long()"
        ),
    )


def _mismatch(self: TensorMeta, target: TensorMeta) -> str:
    return f"size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})"


def _nll_metas(
    self: TensorMeta, target: TensorMeta, weight: Maybe, reduction: int, ignore_index: int
) -> tuple[TensorMeta, TensorMeta]:
    check(0 < self.ndim <= 2, lambda: f"input tensor should be 1D or 2D, got {self}")
    check(
        target.ndim <= 1,
        lambda: f"0D or 1D target tensor expected, multi-target not supported; got {target}",
    )
    check_value(
        self.ndim == 2 or target.ndim == 0 or target.shape[0] == 1,
        lambda: f"For 1D input, 1D target must have size 1; got input {self}, target {target}",
    )
    check(
        target.shape == self.shape[:1] if self.ndim == 2 else target.numel == 1,
        lambda: _mismatch(self, target),
    )
    _check_classes("nll_loss", self, weight, self.shape[-1])
    _check_target(target)
    rows = self.shape[:1] if self.ndim == 2 and reduction == NONE else ()
    return self.fresh(rows), self.fresh(())


def _nll2d_metas(
    self: TensorMeta, target: TensorMeta, weight: Maybe, reduction: int, ignore_index: int
) -> tuple[TensorMeta, TensorMeta]:
    check(
        target.ndim == 3,
        lambda: (
            f"only batches of spatial targets supported (3D tensors) but got targets of "
            f"dimension: {target.ndim}"
        ),
    )
    check(
        self.ndim == 4,
        lambda: (
            f"only batches of spatial inputs supported (4D tensors), but got input of "
            f"dimension: {self.ndim}"
        ),
    )
    check((self.shape[0], *self.shape[2:]) == target.shape, lambda: _mismatch(self, target))
    _check_classes("nll_loss2d", self, weight, self.shape[1])
    _check_target(target)
    return self.fresh(target.shape if reduction == NONE else ()), self.fresh(())


# --- kernels -------------------------------------------------------------------------


def _class_axis(self: Array) -> int:
    return 0 if self.ndim == 1 else 1


def _counted(
    xp: ModuleType, self: Array, target: Array, weight: Array | None, ignore_index: int
) -> tuple[Array, Array]:
    """The classes, 0 where ignored, and the weight of each target, 0 where ignored.

    IndexError for a class that does not exist.
    """
    classes = self.shape[_class_axis(self)]
    kept = target != ignore_index
    index = xp.where(kept, target, 0).astype(xp.int64)
    bad = (index < 0) | (index >= classes)
    if data_says(bad.any):
        raise of_data(IndexError(f"Target {index[bad].reshape(-1)[0]} is out of bounds."))
    scale = kept.astype(wide(self).dtype)
    return index, scale if weight is None else scale * wide(weight)[index]


def _summed(
    xp: ModuleType, self: Array, target: Array, weight: Array | None, ignore_index: int
) -> tuple[Any, Any] | None:
    """The summed losses and weights, by a compiled loop or of rows that all count; else None."""
    if xp is not np or self.ndim < 2 or not target.size:
        return None
    loops = loops_for_floats(xp, self, weight)
    if loops is None:
        if weight is not None or self.ndim > 2 or wide(self[:0]).dtype.kind != "f":
            return None
        if not is_narrow(self):
            loops = backend_for(xp).loops_if_worth(5)
        if loops is None:
            return _summed_rows(self, target, ignore_index)
    lines = (self.shape[0], self.shape[1], -1)
    places = target.reshape(self.shape[0], -1)
    summed, weights, bad = loops.class_losses(self.reshape(lines), places, weight, ignore_index)
    if bad >= 0:
        raise of_data(IndexError(f"Target {places.reshape(-1)[bad]} is out of bounds."))
    return summed, weights


def _summed_rows(self: Array, target: Array, ignore_index: int) -> tuple[Any, Any] | None:
    """The summed losses of rows none of which is ignored, and their count; else None."""
    picked = _picked_rows(self, target, ignore_index)
    if picked is None:
        return None
    one_by_one = np.add.accumulate(picked, dtype=np.float64)  # as a loop adds them
    return 0.0 - one_by_one[-1], len(self)


def _picked_rows(self: Array, target: Array, ignore_index: int) -> Array | None:
    """The element of its class of each row; None where one may be ignored or has no class."""
    classes = self.shape[1]
    if 0 <= ignore_index < classes:
        return None
    unsigned = target.view(np.uint64) if target.itemsize == 8 else target  # below zero: large
    if np.maximum.reduce(unsigned) >= classes:
        return None
    return wide(self[np.arange(len(self)), target])


def _nll_arrays(
    xp: ModuleType,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
) -> tuple[Array, Array]:
    summed_by_loop = None if reduction == NONE else _summed(xp, self, target, weight, ignore_index)
    if summed_by_loop is not None:
        summed, weights = summed_by_loop
        loss = np.float64(summed) / weights if reduction == MEAN else summed
        kind = self.dtype.type
        return kind(loss), kind(weights)
    if xp is np and reduction == NONE and self.ndim == 2 and weight is None and target.size:
        plain = _picked_rows(self, target, ignore_index)
        if plain is not None:
            return -plain, plain.dtype.type(0)
    axis = _class_axis(self)
    target = target.reshape(self.shape[:axis] + self.shape[axis + 1 :])
    index, scale = _counted(xp, self, target, weight, ignore_index)
    picked = xp.take_along_axis(self, xp.expand_dims(index, axis), axis)
    # An ignored element counts as zero even where the input is infinite there.
    losses = xp.where(scale != 0, -wide(picked.reshape(index.shape)) * scale, 0)
    if reduction == NONE and self.ndim > 1:
        return losses, scale.dtype.type(0)
    weights = scale.sum(dtype=xp.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        summed = losses.sum(dtype=xp.float64)
        return (summed / weights if reduction == MEAN else summed), weights


def _nll_backward_array(
    xp: ModuleType,
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    axis = _class_axis(self)
    target = target.reshape(self.shape[:axis] + self.shape[axis + 1 :])
    index, scale = _counted(xp, self, target, weight, ignore_index)
    grad = wide(grad_output)
    if reduction == MEAN:
        with np.errstate(invalid="ignore", divide="ignore"):
            grad = grad / wide(total_weight)
    values = xp.where(scale != 0, -scale * grad.reshape(grad.shape if grad.ndim else ()), 0)
    values = converted(values, self.dtype) if is_narrow(self) else values
    result: Array = xp.zeros(self.shape, values.dtype)
    at = positions_along(xp, xp.expand_dims(index, axis), axis)
    return assigned_at(xp, result, at, xp.expand_dims(values, axis))


# --- pages ---------------------------------------------------------------------------

_FORWARD = "Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index"
_BACKWARD = "Tensor grad_output, " + _FORWARD + ", Tensor total_weight"


def _pages(name: str) -> tuple[OperatorPage, OperatorPage, OperatorPage]:
    """The forward page, the backward page and the function that users call."""
    forward = define(
        f"aten::{name}_forward({_FORWARD}) -> (Tensor output, Tensor total_weight)",
        variants=[
            f"aten::{name}_forward.output({_FORWARD}, *, Tensor(a!) output, "
            f"Tensor(b!) total_weight) -> (Tensor(a!), Tensor(b!))"
        ],
    )
    backward = define(
        f"aten::{name}_backward({_BACKWARD}) -> Tensor",
        variants=[
            f"aten::{name}_backward.grad_input({_BACKWARD}, *, Tensor(a!) grad_input) -> Tensor(a!)"
        ],
    )
    function = define(
        f"aten::{name}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
        f"SymInt ignore_index=-100) -> Tensor"
    )

    rules: dict[str, Callable[..., tuple[TensorMeta, TensorMeta]]]
    rules = {"nll_loss": _nll_metas, "nll_loss2d": _nll2d_metas}
    metas = rules[name]

    def backward_shape(grad_output: TensorMeta, self: TensorMeta, *rest: object) -> TensorMeta:
        output, _ = metas(self, *rest[:-1])
        total_weight = rest[-1]
        assert isinstance(total_weight, TensorMeta)
        check(
            grad_output.shape == output.shape or grad_output.numel == output.numel == 1,
            lambda: (
                f"{name}_backward: expected a grad_output of shape {list(output.shape)}, got "
                f"{grad_output}"
            ),
        )
        check_floats_only(name, grad_output, total_weight)
        check_count(f"{name}_backward", "total_weight", total_weight, 1)
        return self.fresh(self.shape)

    def composite(*args: object) -> object:
        results = forward(*args)
        assert isinstance(results, tuple)
        return results[0]

    forward.shape(metas)
    forward.kernel(_nll_arrays)
    backward.shape(backward_shape)
    backward.kernel(_nll_backward_array)
    function.composite(composite)
    forward.derivative(
        self=lambda grad, self, target, weight, reduction, ignore_index, result1: backward(
            grad, self, target, weight, reduction, ignore_index, result1
        )
    )
    forward.nondifferentiable(1)
    backward.linear(
        grad_output=lambda grad, target, weight, reduction, ignore_index: function(
            grad, target, weight, reduction, ignore_index
        ),
    )
    backward.flat("self")
    forward.batching_decomposition(nll_loss_batching)
    backward.batching_decomposition(nll_loss_backward_batching)
    forward.cost(lambda self, target, *rest: Cost(flops=target.numel))
    backward.cost(lambda grad_output, self, target, *rest: Cost(flops=target.numel))
    return forward, backward, function


nll_loss_forward, nll_loss_backward, nll_loss = _pages("nll_loss")
nll_loss_forward.node_name("NllLossBackward0")
describe("nll_loss_forward", "`nll_loss`, and the sum of the weights of its targets.")
describe("nll_loss", "Minus the log-probability [N, C] of each target class, averaged by default.")
nll_loss.autocast("float32")
nll_loss2d_forward, nll_loss2d_backward, nll_loss2d = _pages("nll_loss2d")
nll_loss2d_forward.node_name("NllLoss2DBackward0")
describe("nll_loss2d_forward", "`nll_loss2d`, and the sum of the weights of its targets.")
describe(
    "nll_loss2d",
    "Minus the log-probability [N, C, H, W] of each target class, averaged by default.",
)
nll_loss2d.autocast("float32")


nll_loss_nd = define(
    "aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100) -> Tensor"
)
nll_loss_nd.describe(
    "Minus the log-probability [N, C, ...] of each target class, averaged by default."
)


@nll_loss_nd.composite
def nll_loss_nd_composite(
    self: Tensor, target: Tensor, weight: Grad, reduction: int, ignore_index: int
) -> object:
    """Any number of dimensions after the classes, brought to the 1-D or the 2-D form."""
    shape, wanted = self.meta.shape, target.meta.shape
    check_value(len(shape) >= 1, lambda: f"Expected 1 or more dimensions (got {len(shape)})")
    check_value(
        len(shape) == 1 or (len(wanted) > 0 and shape[0] == wanted[0]),
        lambda: (
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({wanted[0] if wanted else 0})."
        ),
    )
    if len(shape) <= 2:
        return nll_loss(self, target, weight, reduction, ignore_index)
    if len(shape) == 4:
        return nll_loss2d(self, target, weight, reduction, ignore_index)
    check(
        shape[2:] == wanted[1:],
        lambda: f"Expected target size {[shape[0], *shape[2:]]}, got {list(wanted)}",
    )
    rows, classes = shape[:2]
    if 0 in shape:
        flat, goal = self.view((rows, classes, 0, 0)), target.view((rows, 0, 0))
    else:
        flat = self.contiguous().view((rows, classes, 1, -1))
        goal = target.contiguous().view((rows, 1, -1))
    losses = nll_loss2d(flat, goal, weight, reduction, ignore_index)
    assert isinstance(losses, Tensor)
    return losses.view((rows, *shape[2:])) if reduction == NONE else losses


# --- cross entropy -------------------------------------------------------------------

cross_entropy_loss = define(
    "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor"
)
cross_entropy_loss.describe(
    "The cross entropy of logits [N, C, ...] and classes or probabilities, averaged by default."
)
cross_entropy_loss.autocast(cpu="float32")


@cross_entropy_loss.composite
def cross_entropy_loss_composite(
    self: Tensor,
    target: Tensor,
    weight: Grad,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> object:
    """Log softmax, then the likelihood of classes or of a distribution over classes."""
    class_dim = 0 if self.meta.ndim == 1 else 1
    # Ranks first: how many classes and how many targets there are may both be unknown.
    if self.meta.ndim == target.meta.ndim and self.meta.shape == target.meta.shape:
        _check_distribution(target, ignore_index)
        logs = log_softmax(self, class_dim, self.dtype)
        assert isinstance(logs, Tensor)
        return _distribution_loss(logs, target, weight, reduction, label_smoothing, class_dim)
    logs = log_softmax(self, class_dim, self.dtype)
    assert isinstance(logs, Tensor)
    if label_smoothing > 0:
        return _smoothed_loss(
            logs, target, weight, reduction, ignore_index, label_smoothing, class_dim
        )
    return nll_loss_nd(logs, target, weight, reduction, ignore_index)


def _check_distribution(target: Tensor, ignore_index: int) -> None:
    check(
        target.is_floating_point(),
        lambda: (
            f"Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_name}"
        ),
    )
    check(ignore_index < 0, lambda: "ignore_index is not supported for floating point target")


def _check_smoothing(label_smoothing: float, weight: Grad, classes: int) -> None:
    check(
        weight is None or weight.meta.shape == (classes,),
        lambda: (
            f"cross_entropy: weight tensor should be defined either for all {classes} "
            f"classes or no classes but got weight tensor of shape: "
            f"{list(weight.meta.shape) if weight is not None else []}"
        ),
    )
    check(
        0 <= label_smoothing <= 1,
        lambda: f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}",
    )


def _per_class(weight: Tensor, ndim: int, class_dim: int) -> Tensor:
    shape = [1] * ndim
    shape[class_dim] = weight.meta.shape[0]
    return weight.view(tuple(shape))


def _distribution_loss(
    logs: Tensor,
    target: Tensor,
    weight: Grad,
    reduction: int,
    label_smoothing: float,
    class_dim: int,
) -> Tensor:
    classes = logs.meta.shape[class_dim]
    _check_smoothing(label_smoothing, weight, classes)
    if label_smoothing > 0:
        target = plus(times(target, 1 - label_smoothing), label_smoothing / classes)
    shares = None if weight is None else _per_class(weight, logs.meta.ndim, class_dim)
    product = logs * target
    if shares is not None:
        product = product * shares
    if reduction == NONE:
        return -product.sum(class_dim)
    summed = -product.sum()
    if reduction == SUM:
        return summed
    # Nothing to take a mean of: NaN.
    return over(summed, logs.meta.numel // classes if logs.meta.numel else 0)


def _smoothed_loss(
    logs: Tensor,
    target: Tensor,
    weight: Grad,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    class_dim: int,
) -> Tensor:
    """A share of the loss spread evenly over all classes."""
    classes = logs.meta.shape[class_dim]
    _check_smoothing(label_smoothing, weight, classes)
    hard = nll_loss_nd(logs, target, weight, reduction, ignore_index)
    assert isinstance(hard, Tensor)
    if weight is not None:
        logs = logs * _per_class(weight, logs.meta.ndim, class_dim)
    smooth = -logs.sum(class_dim)
    ignored = target == ignore_index
    smooth.masked_fill_(ignored, 0.0)
    if reduction == MEAN:
        counted = _weight_of(target, ignored, weight)
        smooth = smooth.sum() / counted
    elif reduction == SUM:
        smooth = smooth.sum()
    spread = times(smooth, label_smoothing / classes)
    return times(hard, 1 - label_smoothing) + spread


def _weight_of(target: Tensor, ignored: Tensor, weight: Grad) -> Tensor:
    """The weights of all targets that count."""
    if weight is None:
        return (~ignored).sum()
    classes = target.masked_fill(ignored, 0).flatten()
    return weight.gather(0, classes).masked_fill_(ignored.flatten(), 0).sum()
