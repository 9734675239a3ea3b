"""Binary cross entropy, of probabilities and of logits."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import data_says
from maquette.aten.common.axes import Array
from maquette.aten.common.backward_checks import check_floats_only, check_sizes
from maquette.aten.common.elementary_functions import elementary
from maquette.aten.common.formula_helpers import over, plus, times
from maquette.aten.common.operators import aten
from maquette.aten.nn.loss.elementwise_losses import (
    check_floats,
    divisor,
    loss_cost,
    reduced_if_known,
)
from maquette.aten.nn.loss.likelihood import MEAN, SUM
from maquette.aten.nn.loss.loss_batching import reduced, reduced_backward
from maquette.core.dtype import result_type_of
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, of_data
from maquette.core.meta import TensorMeta
from maquette.library.page import define
from maquette.library.variants import check_castable
from maquette.tensor.tensor import Tensor

Maybe = TensorMeta | None
Grad = Tensor | None

_BINARY = "Tensor self, Tensor target, Tensor? weight=None, "
_LEAST_LOG = -100  # the logarithm of 0 counts as this, so that a loss stays finite

binary_cross_entropy = define(
    f"aten::binary_cross_entropy({_BINARY}int reduction=1) -> Tensor", variants=["out"]
)
binary_cross_entropy.describe(
    "The cross entropy of probabilities and targets between 0 and 1, averaged by default."
)
binary_cross_entropy.autocast(cpu="float32", cuda="refused")
binary_cross_entropy_backward = define(
    f"aten::binary_cross_entropy_backward(Tensor grad_output, {_BINARY}int reduction=1) -> Tensor",
    variants=[
        f"aten::binary_cross_entropy_backward.grad_input(Tensor grad_output, {_BINARY}"
        f"int reduction=1, *, Tensor(a!) grad_input) -> Tensor(a!)"
    ],
)


@binary_cross_entropy.shape
def binary_cross_entropy_shape(
    self: TensorMeta, target: TensorMeta, weight: Maybe, reduction: int
) -> TensorMeta:
    operands = [m for m in (self, target, weight) if m is not None]
    both = elementwise(operands, self.dtype, op_name="binary_cross_entropy")
    losses = elementwise(operands[:2], self.dtype, op_name="binary_cross_entropy").shape
    check(
        both.shape == losses,
        lambda: (
            f"output with shape {list(losses)} doesn't match the broadcast shape "
            f"{list(both.shape)}: binary_cross_entropy multiplies losses by a weight that "
            f"broadcasts to them; got weight {weight}"
        ),
    )
    for other in operands[1:]:
        check(
            other.dtype is self.dtype,
            lambda: f"Found dtype {target.dtype.scalar_name} but expected {self.dtype.scalar_name}",
        )
    check_floats("binary_cross_entropy", self.dtype)
    if reduction in (MEAN, SUM):
        return both.fresh(())
    return self.like() if both.shape == self.shape else both


@binary_cross_entropy.kernel
def binary_cross_entropy_kernel(
    xp: ModuleType, self: Array, target: Array, weight: Array | None, reduction: int
) -> Array:
    p, t = wide(self), wide(target)
    _check_probabilities("input", p)
    _check_probabilities("target", t)
    with np.errstate(divide="ignore"):
        yes, no = xp.maximum(xp.log(p), _LEAST_LOG), xp.maximum(xp.log1p(-p), _LEAST_LOG)
    losses = (t - 1) * no - t * yes
    return reduced_if_known(xp, losses if weight is None else losses * wide(weight), reduction)


def _check_probabilities(name: str, values: Array) -> None:
    if data_says(lambda: not ((values >= 0) & (values <= 1)).all()):
        raise of_data(RuntimeError(f"all elements of {name} should be between 0 and 1"))


binary_cross_entropy.derivative(
    self=lambda grad, self, target, weight, reduction: binary_cross_entropy_backward(
        grad, self, target, weight, reduction
    ),
    target=lambda grad, self, target, weight, reduction: _target_share(
        self.logit().neg_() * grad, weight, reduction
    ),
)
binary_cross_entropy.cost(loss_cost)
binary_cross_entropy.batching(reduced)


def _target_share(share: Tensor, weight: Grad, reduction: int) -> Tensor:
    """Weighted, and divided among the elements if the loss is a mean."""
    if weight is not None:
        share = share * weight
    if reduction != MEAN:
        return share
    shared: Tensor = aten.div_.Scalar(share, share.meta.numel)
    return shared


@binary_cross_entropy_backward.shape
def binary_cross_entropy_backward_shape(
    grad_output: TensorMeta, self: TensorMeta, target: TensorMeta, weight: Maybe, reduction: int
) -> TensorMeta:
    check(
        target.dtype is self.dtype and grad_output.dtype is self.dtype,
        lambda: (
            f"Found dtype {grad_output.dtype.scalar_name} but expected {self.dtype.scalar_name}"
        ),
    )
    check_floats_only("binary_cross_entropy_backward", self)
    given = [m for m in (grad_output, self, target, weight) if m is not None]
    both = elementwise(given, self.dtype)
    check_sizes("binary_cross_entropy_backward", "an input", self, both.shape)
    return self.like()


@binary_cross_entropy_backward.kernel
def binary_cross_entropy_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
) -> Array:
    p, t = wide(self), wide(target)
    found: Array = wide(grad_output) * (p - t) / xp.maximum((1 - p) * p, p.dtype.type(1e-12))
    if weight is not None:
        found = found * wide(weight)
    return found / p.dtype.type(divisor(self, reduction))


@binary_cross_entropy_backward.derivative("grad_output", "self", "target")
def binary_cross_entropy_backward_grad(
    grad: Tensor,
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Grad,
    reduction: int,
) -> tuple[Tensor, Tensor, Tensor]:
    scale = grad if weight is None else grad * weight
    if reduction == MEAN:
        scale = over(scale, self.meta.numel)
    spread = plus((1 - self) * self, 1e-12)
    by_out = scale * (self - target) / spread
    curvature = (self * self - times(self, 2) * target + target) / (spread * spread)
    by_out = by_out.sum() if reduction in (MEAN, SUM) else by_out
    return by_out, scale * grad_output * curvature, -(scale * grad_output) / spread


binary_cross_entropy_backward.batching(reduced_backward)


binary_cross_entropy_with_logits = define(
    "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
    "Tensor? pos_weight=None, int reduction=1) -> Tensor"
)
binary_cross_entropy_with_logits.describe(
    "The cross entropy of sigmoids and targets between 0 and 1, averaged by default."
)
binary_cross_entropy_with_logits.autocast("float32")


@binary_cross_entropy_with_logits.shape
def binary_cross_entropy_with_logits_shape(
    self: TensorMeta, target: TensorMeta, weight: Maybe, pos_weight: Maybe, reduction: int
) -> TensorMeta:
    check_floats("log_sigmoid_cpu", self.dtype)
    losses = target.like()
    for other in (self, pos_weight, weight):
        if other is not None:
            losses = _multiplied(losses, other)
    return losses.fresh(()) if reduction in (MEAN, SUM) else losses


def _multiplied(losses: TensorMeta, other: TensorMeta) -> TensorMeta:
    """The losses after a multiplication in place, which neither broadcasts nor promotes them."""
    kind = result_type_of((losses, other))
    check_castable("binary_cross_entropy_with_logits", kind, losses.dtype)
    both = elementwise((losses, other), losses.dtype)
    check(
        both.shape == losses.shape,
        lambda: (
            f"output with shape {list(losses.shape)} doesn't match the broadcast shape "
            f"{list(both.shape)}"
        ),
    )
    return losses


@binary_cross_entropy_with_logits.kernel
def binary_cross_entropy_with_logits_kernel(
    xp: ModuleType,
    self: Array,
    target: Array,
    weight: Array | None,
    pos_weight: Array | None,
    reduction: int,
) -> Array:
    x, t = wide(self), wide(target)
    log_yes = xp.minimum(x, 0) - elementary(xp, "log1p", xp.exp(-xp.abs(x)))
    if pos_weight is not None:
        log_yes = log_yes * ((wide(pos_weight) - 1) * t + 1)
    losses = (1 - t) * x - log_yes
    return reduced_if_known(xp, losses if weight is None else losses * wide(weight), reduction)


def _by_logits(
    grad: Tensor, self: Tensor, target: Tensor, weight: Grad, pos_weight: Grad, reduction: int
) -> Tensor:
    if pos_weight is None:
        share = (self.sigmoid() - target) * grad
    else:
        yes = pos_weight * target
        share = ((plus(yes, 1) - target) * self.sigmoid() - yes) * grad
    return _target_share(share, weight, reduction)


def _by_target(
    grad: Tensor, self: Tensor, weight: Grad, pos_weight: Grad, reduction: int
) -> Tensor:
    if pos_weight is None:
        return _target_share(-self * grad, weight, reduction)
    gain = aten.log_sigmoid(-self) - aten.log_sigmoid(self) * pos_weight
    return _target_share(gain * grad, weight, reduction)


binary_cross_entropy_with_logits.derivative(
    self=lambda grad, self, target, weight, pos_weight, reduction: _by_logits(
        grad, self, target, weight, pos_weight, reduction
    ),
    target=lambda grad, self, weight, pos_weight, reduction: _by_target(
        grad, self, weight, pos_weight, reduction
    ),
)
binary_cross_entropy_with_logits.cost(loss_cost)
binary_cross_entropy_with_logits.batching(reduced)
