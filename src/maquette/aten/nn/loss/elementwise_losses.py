"""Losses between numbers: squared, absolute and in between, soft margin.

Losses of a difference share one factory: the loss, its slope and its curvature as functions of
``self - target`` say everything. Binary cross entropy is in `binary_losses.py`, losses
that name a class are in `likelihood.py`, those with a margin in `margin_losses.py`, those that are
made of other operators alone in `loss_composites.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, total
from maquette.aten.common.backward_checks import check_numbers
from maquette.aten.common.large_arrays import chosen, loops_of_floats
from maquette.aten.common.narrow_floats import converted
from maquette.aten.nn.loss.likelihood import MEAN, NONE, SUM
from maquette.aten.nn.loss.loss_batching import reduced, reduced_backward
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import dtype, get_default_dtype, result_type_of
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.library.page import Cost, OperatorPage, define, describe
from maquette.library.variants import check_castable
from maquette.tensor.tensor import Tensor

Maybe = TensorMeta | None
Grad = Tensor | None


# --- reducing ------------------------------------------------------------------------


def reduced_array(xp: ModuleType, losses: Array, reduction: int) -> Array:
    """The losses, their mean (NaN for none) or, for any other number, their sum."""
    if reduction == NONE:
        return losses
    summed = total(xp, losses, tuple(range(losses.ndim)))
    if reduction != MEAN:
        return summed
    with np.errstate(divide="ignore", invalid="ignore"):
        mean: Array = summed / summed.dtype.type(losses.size)
    return mean


def reduced_if_known(xp: ModuleType, losses: Array, reduction: int) -> Array:
    """The same where a reduction of another number than these reduces nothing, as in PyTorch."""
    return reduced_array(xp, losses, reduction) if reduction in (MEAN, SUM) else losses


def reduced_tensor(losses: Tensor, reduction: int) -> Tensor:
    """The same for tensors."""
    if reduction == MEAN:
        return losses.mean()
    return losses.sum() if reduction == SUM else losses


def check_floats(kernel: str, kind: dtype) -> None:
    """Refuse what PyTorch's kernel of this name has no code for."""
    if not kind.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


def loss_cost(self: TensorMeta, target: TensorMeta, *rest: object) -> Cost:
    """A few operations for each element."""
    return Cost(flops=3 * self.numel)


# --- losses of a difference ----------------------------------------------------------

Curve = Callable[[ModuleType, Array, float], Array]


def _difference_shape(name: str, kernel: str, own_dtype: bool) -> Callable[..., TensorMeta]:
    """The rule of ``name``; own_dtype: the result has the first operand's dtype."""

    def rule(
        self: TensorMeta, target: TensorMeta, reduction: int, parameter: float = 1.0
    ) -> TensorMeta:
        _check_parameter(name, parameter)
        check(
            name == "huber_loss" or reduction in (NONE, MEAN, SUM),
            lambda: f"{name}: expected reduction 0 (none), 1 (mean) or 2 (sum), got {reduction}",
        )
        common = result_type_of((self, target))
        check_floats(kernel, common)
        kind = self.dtype if own_dtype else common
        both = elementwise((self, target), kind, common_dtype=common, op_name=name)
        return both.fresh(()) if reduction in (MEAN, SUM) else both

    return rule


def _check_parameter(name: str, parameter: float) -> None:
    check(
        name != "huber_loss" or parameter > 0,
        lambda: "huber_loss does not support non-positive values for delta.",
    )
    check(
        name != "smooth_l1_loss" or parameter >= 0,
        lambda: "smooth_l1_loss does not support negative values for beta.",
    )


def _difference_backward_shape(
    grad_output: TensorMeta,
    self: TensorMeta,
    target: TensorMeta,
    reduction: int,
    parameter: float = 1.0,
) -> TensorMeta:
    """The gradient by ``self``: contiguous, unless the operands broadcast over it."""
    common = result_type_of((grad_output, self, target))
    check_castable("loss_backward", common, self.dtype)
    check_numbers("loss_backward", self.with_dtype(result_type_of((self, target))))
    check_not_implemented(
        not common.is_complex,
        lambda: f"\"loss_backward\" not implemented for '{common.scalar_name}'",
    )
    both = elementwise((grad_output, self, target), self.dtype)
    return self.fresh(self.shape) if both.shape == self.shape else both


def _difference_loss(
    name: str,
    kernel: str,
    curve: Curve,
    slope: Curve,
    parameter: str = "",
    out: str = "grad_input",
    own_dtype: bool = False,
) -> tuple[OperatorPage, OperatorPage]:
    """The pages of ``curve(self - target)`` and of its backward.

    parameter: the schema's text of a further parameter, with its default.
    """
    given = f", {parameter}" if parameter else ""
    arguments = f"Tensor self, Tensor target, int reduction{given.partition('=')[0]}"
    page = define(
        f"aten::{name}(Tensor self, Tensor target, int reduction=1{given}) -> Tensor",
        variants=["out"],
    )
    backward = define(
        f"aten::{name}_backward(Tensor grad_output, {arguments}) -> Tensor",
        variants=[
            f"aten::{name}_backward.{out}(Tensor grad_output, {arguments}, *, "
            f"Tensor(a!) grad_input) -> Tensor(a!)"
        ],
    )

    def kernel_of(
        xp: ModuleType, self: Array, target: Array, reduction: int, parameter: float = 0.0
    ) -> Array:
        return reduced_if_known(xp, curve(xp, _difference(self, target), parameter), reduction)

    def backward_kernel(
        xp: ModuleType,
        grad_output: Array,
        self: Array,
        target: Array,
        reduction: int,
        parameter: float = 0.0,
    ) -> Array:
        difference = _difference(self, target)
        scale = wide(grad_output) / difference.dtype.type(divisor(self, reduction))
        found: Array = scale * slope(xp, difference, parameter)
        return found

    page.shape(_difference_shape(name, kernel, own_dtype))
    page.kernel(kernel_of)
    page.cost(loss_cost)
    backward.shape(_difference_backward_shape)
    backward.kernel(backward_kernel)
    backward.cost(lambda grad_output, self, *rest: Cost(flops=3 * self.numel))
    return page, backward


def _difference(self: Array, target: Array) -> Array:
    first, second = wide(self), wide(target)
    if first.dtype.kind in "biu" and second.dtype.kind in "biu":
        first, second = first.astype(np.int64), second.astype(np.int64)
    if first.dtype.kind != "f":
        first = first.astype(second.dtype)
    if second.dtype.kind != "f":
        second = second.astype(first.dtype)
    found: Array = first - second
    return found


def divisor(self: Array, reduction: int) -> int:
    """What the gradient of each element is divided by."""
    return self.size if reduction == MEAN and self.size else 1


def _apart(self: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both at their common shape, for a gradient that is averaged over all elements of that.

    PyTorch 2.13 averages over those of `self` alone, a wrong gradient where it is broadcast.
    """
    if self.meta.ndim == target.meta.ndim and self.meta.shape == target.meta.shape:
        return self, target
    shape = broadcast_shapes(self.meta.shape, target.meta.shape)
    return self.expand(shape), target.expand(shape)


def _second(
    grad: Tensor,
    grad_output: Tensor,
    difference: Tensor,
    slope: Tensor,
    curvature: Tensor | float,
    reduction: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a backward by grad_output, self and target."""
    by_self = grad * grad_output * curvature
    if reduction == MEAN:
        by_self = by_self / difference.meta.numel
    return reduced_tensor(grad * slope, reduction), by_self, -by_self


mse_loss, mse_loss_backward = _difference_loss(
    "mse_loss",
    "mse_cpu",
    curve=lambda xp, d, _: d * d,
    slope=lambda xp, d, _: d + d,
)
describe("mse_loss", "The squared difference, averaged by default.")
mse_loss.autocast("float32")
mse_loss.derivative(
    self=lambda grad, self, target, reduction: mse_loss_backward(
        grad, *_apart(self, target), reduction
    ),
    target=lambda grad, self, target, reduction: mse_loss_backward(
        grad, *_apart(target, self), reduction
    ),
)
mse_loss.batching(reduced)


@mse_loss_backward.derivative("grad_output", "self", "target")
def mse_loss_backward_grad(
    grad: Tensor, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor, Tensor]:
    difference = self - target
    return _second(grad, grad_output, difference, difference * 2, 2, reduction)


mse_loss_backward.batching(reduced_backward)


def _smooth_slope(xp: ModuleType, d: Array, beta: float) -> Array:
    """From -1 to 1, steeper for a smaller beta; -1 at 0 where beta is 0, as in PyTorch."""
    if d.dtype.kind != "f":
        d = d.astype(np.float64)
    loops = loops_of_floats(xp, d)
    if loops is not None:
        found: Array = loops.smooth_l1_slope(d, beta)
        return found
    inner = d / d.dtype.type(beta or 1)
    one = xp.asarray(1, d.dtype)
    return chosen(xp, ~(d <= -beta), chosen(xp, ~(d >= beta), inner, one), -one)


def _smooth_curve(xp: ModuleType, d: Array, beta: float) -> Array:
    loops = loops_of_floats(xp, d)
    if loops is not None:
        found: Array = loops.smooth_l1(d, beta)
        return found
    size = xp.abs(d)
    half = d.dtype.type(0.5)
    inner = half * d * d / d.dtype.type(beta or 1)
    return chosen(xp, size < beta, inner, size - half * d.dtype.type(beta))


smooth_l1_loss, smooth_l1_loss_backward = _difference_loss(
    "smooth_l1_loss", "smooth_l1_cpu", _smooth_curve, _smooth_slope, "float beta=1."
)
describe(
    "smooth_l1_loss",
    "The magnitude of the difference, squared below `beta`, averaged by default.",
)
smooth_l1_loss.autocast("float32")
smooth_l1_loss.derivative(
    self=lambda grad, self, target, reduction, beta: smooth_l1_loss_backward(
        grad, *_apart(self, target), reduction, beta
    ),
    target=lambda grad, self, target, reduction, beta: smooth_l1_loss_backward(
        grad, *_apart(target, self), reduction, beta
    ),
)
smooth_l1_loss.batching(reduced)


@smooth_l1_loss_backward.derivative("grad_output", "self", "target")
def smooth_l1_loss_backward_grad(
    grad: Tensor,
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    reduction: int,
    beta: float,
) -> tuple[Tensor, Tensor, Tensor]:
    d = self - target
    slope = d.sign() if beta == 0 else (d / beta).clamp(-1, 1)
    curvature = (d.abs() < beta) / (beta or 1.0)
    return _second(grad, grad_output, d, slope, curvature, reduction)


smooth_l1_loss_backward.batching(reduced_backward)


def _huber_curve(xp: ModuleType, d: Array, delta: float) -> Array:
    loops = loops_of_floats(xp, d)
    if loops is not None:
        found: Array = loops.huber(d, delta)
        return found
    size, limit = xp.abs(d), d.dtype.type(delta)
    half = d.dtype.type(0.5)
    return chosen(xp, size <= limit, half * d * d, limit * (size - half * limit))


huber_loss, huber_loss_backward = _difference_loss(
    "huber_loss",
    "huber_cpu",
    _huber_curve,
    slope=lambda xp, d, delta: xp.clip(d, -delta, delta),
    parameter="float delta=1.",
    out="out",
    own_dtype=True,
)
describe("huber_loss", "Half the squared difference, linear from `delta` on, averaged by default.")
huber_loss.autocast("float32")
huber_loss.derivative(
    self=lambda grad, self, target, reduction, delta: huber_loss_backward(
        grad, *_apart(self, target), reduction, delta
    ),
    target=lambda grad, self, target, reduction, delta: huber_loss_backward(
        grad, *_apart(target, self), reduction, delta
    ),
)
huber_loss.batching(reduced)


@huber_loss_backward.derivative("grad_output", "self", "target")
def huber_loss_backward_grad(
    grad: Tensor,
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    reduction: int,
    delta: float,
) -> tuple[Tensor, Tensor, Tensor]:
    d = self - target
    curvature = d.abs() < delta  # flat from `delta` on, as in PyTorch
    return _second(grad, grad_output, d, d.clamp(-delta, delta), curvature, reduction)


huber_loss_backward.batching(reduced_backward)


# --- soft margin ---------------------------------------------------------------------

soft_margin_loss = define(
    "aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    variants=["out"],
)
soft_margin_loss.describe("``log(1 + exp(-target * self))``, averaged by default.")
soft_margin_loss.autocast("float32")
soft_margin_loss_backward = define(
    "aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, "
    "int reduction) -> Tensor",
    variants=[
        "aten::soft_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, "
        "Tensor target, int reduction, *, Tensor(a!) grad_input) -> Tensor(a!)"
    ],
)


@soft_margin_loss.shape
def soft_margin_loss_shape(self: TensorMeta, target: TensorMeta, reduction: int) -> TensorMeta:
    common = result_type_of((self, target))
    kind = common if common.category > 1 else get_default_dtype()
    check_castable("soft_margin_loss", kind, self.dtype)
    check_numbers("soft_margin_loss", target)
    both = elementwise((self, target), self.dtype, common_dtype=common)
    check(
        expect_alike(both.shape, self.shape),
        lambda: f"soft_margin_loss: expected a target that broadcasts to {self}, got {target}",
    )
    return both if reduction == NONE else both.fresh(())


@soft_margin_loss.kernel
def soft_margin_loss_kernel(xp: ModuleType, self: Array, target: Array, reduction: int) -> Array:
    with np.errstate(over="ignore"):
        # Each step is rounded to the operand's type, as PyTorch's operators do.
        powers = converted(xp.exp(-wide(target) * wide(self)), self.dtype)
        return reduced_array(xp, xp.log1p(wide(powers)), reduction)


soft_margin_loss.derivative(
    self=lambda grad, self, target, reduction: soft_margin_loss_backward(
        grad, *_apart(self, target), reduction
    )
)
soft_margin_loss.real_derivative()


@soft_margin_loss.tangent
def soft_margin_loss_tangent(
    self: Tensor, self_t: Tensor, target: Tensor, target_t: Tensor, reduction: int
) -> Tensor:
    """Of complex numbers, too, whose gradient is refused, and by the target.

    PyTorch conjugates the slope of complex numbers, and has zero by a real target.
    """
    falling = (-target * self).sigmoid()
    return reduced_tensor(-(target * self_t + self * target_t) * falling, reduction)


soft_margin_loss.cost(loss_cost)
soft_margin_loss.batching(reduced)


@soft_margin_loss_backward.shape
def soft_margin_loss_backward_shape(
    grad_output: TensorMeta, self: TensorMeta, target: TensorMeta, reduction: int
) -> TensorMeta:
    check_numbers("soft_margin_loss_backward", target)
    kind = self.dtype
    check(
        kind.is_floating_point or kind.is_complex,
        lambda: f"result type Float can't be cast to the desired output type {kind.scalar_name}",
    )
    return elementwise((target, self, grad_output), self.dtype)


@soft_margin_loss_backward.kernel
def soft_margin_loss_backward_kernel(
    xp: ModuleType, grad_output: Array, self: Array, target: Array, reduction: int
) -> Array:
    x, t = wide(self), wide(target)
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = -t / (1 + xp.exp(t * x)) * wide(grad_output)
    return found / x.dtype.type(divisor(self, reduction))


@soft_margin_loss_backward.derivative("grad_output", "self")
def soft_margin_loss_backward_grad(
    grad: Tensor, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    falling = (-target * self).sigmoid()
    curvature = target * target * falling * (1 - falling)
    by_out, by_self, _ = _second(grad, grad_output, self, -target * falling, curvature, reduction)
    return by_out, by_self


soft_margin_loss_backward.batching(reduced_backward)
