"""Activations in straight pieces: ReLU and its relatives.

The exponential ones (ELU, SELU, CELU) are in `activations_exponential.py`, the smooth ones and GLU
in `activations_smooth.py`. Each backward is an operator of its own with PyTorch's name, and saves
what PyTorch's saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from maquette.aten.common.half_steps import between, with_numbers
from maquette.aten.common.large_arrays import (
    chosen,
    clipped,
    loops_for_alike,
    loops_of_floats,
)
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.arithmetic import mul
from maquette.aten.elementwise.pointwise import (
    BOTH,
    CORE_POINTWISE,
    POINTWISE,
    REAL_FLOATS,
    REALS,
    Array,
    Kernel,
    backward,
    cast,
    check_category,
    check_real_numbers,
    common_type,
    computed,
    elementwise_cost,
    in_place_derivative,
    promoted,
    same,
    unary,
)
from maquette.autograd.formulas import naming
from maquette.core.dtype import dtype, finfo
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_not_implemented, check_value
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS, operators


def loops_of_slopes(xp: ModuleType, grad: Array, x: Array) -> ModuleType | None:
    """The compiled loops for a large operand and its gradient, of one shape and type; or None."""
    return loops_of_floats(xp, x) if (grad.shape, grad.dtype) == (x.shape, x.dtype) else None


def linear_backward(
    name: str, kernel: Kernel, more: str, names: str, *, grad: str = "grad_output"
) -> OperatorPage:
    """Define the backward of a piecewise linear function: it passes a gradient on, or not.

    more, names: its further parameters, as the schema writes them and by name.
    """
    op = backward(name, kernel, more=more, grad=grad, tags=())
    needed = naming("grad", "self", *names.split(", ")[1:])
    op.linear(**{grad: needed(lambda *values: op(*values))})
    op.flat("self")
    return op


# --- relu, threshold ------------------------------------------------------------------


def relu_result(kind: dtype) -> dtype:
    """The type of a ReLU; RuntimeError for bool, NotImplementedError for complex."""
    check(kind.category != 0, lambda: "Boolean inputs not supported for relu")
    check_not_implemented(not kind.is_complex, lambda: "clamp is not supported for complex types")
    return kind


relu = unary(
    "relu",
    lambda xp, self: clipped(xp, self, xp.asarray(0, self.dtype), None),
    result=relu_result,
    tags=CORE_POINTWISE,
    variants=[Variant.INPLACE],
)
relu.facts.on_halves = lambda self: between(self, 0)
relu.describe("Each element, but zero where it is negative.")
relu.derivative(self=lambda grad, result: threshold_backward(grad, result, 0))

# PyTorch's kernel does both in one pass; the result is the same.
_SUMMED = (("Tensor", "*, "), ("Scalar", ""))
for _other, _star in _SUMMED:
    _rest = f"{_other} other, {_star}Scalar alpha=1) -> Tensor"
    define(f"aten::_add_relu.{_other}(Tensor self, {_rest}").composite(
        lambda self, other, alpha: relu(self.add(other, alpha=alpha))
    )
    define(f"aten::_add_relu_.{_other}(Tensor(a!) self, {_rest}(a!)", tags=[Tag.inplace]).composite(
        lambda self, other, alpha: self.add_(other, alpha=alpha).relu_()
    )
define(
    "aten::_add_relu.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) "
    "-> Tensor(a!)",
    tags=[Tag.out],
).composite(lambda self, other, alpha, out: aten.add.out(self, other, alpha=alpha, out=out).relu_())

threshold = define(
    "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    tags=POINTWISE,
    variants=BOTH,
)
threshold.node_name(in_place="ThresholdBackward1")
threshold.describe("Each element, but `value` where it is at most `threshold`.")


@threshold.shape
def threshold_shape(self: TensorMeta, threshold: float, value: float) -> TensorMeta:
    check_category("threshold", self.dtype, REALS)
    check_fits(threshold, self.dtype)
    check_fits(value, self.dtype)
    return elementwise([self], self.dtype)


@threshold.kernel
def threshold_kernel(xp: ModuleType, self: Array, threshold: float, value: float) -> Array:
    x = computed(self)
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.threshold(x, threshold, value)
        return found
    limit, low = cast(xp, threshold, x.dtype), cast(xp, value, x.dtype)
    return chosen(xp, ~(x <= limit), x, low)


threshold.cost(elementwise_cost(1))
threshold.derivative(self=lambda grad, self, threshold: threshold_backward(grad, self, threshold))

threshold_backward: OperatorPage = define(
    "aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    tags=POINTWISE,
)


@threshold_backward.shape
def threshold_backward_shape(
    grad_output: TensorMeta, self: TensorMeta, threshold: float
) -> TensorMeta:
    common = common_type((self, grad_output))
    check_category("threshold", common, REALS)
    return elementwise((self, grad_output), common, common_dtype=common)


@threshold_backward.kernel
def threshold_backward_kernel(
    xp: ModuleType, grad_output: Array, self: Array, threshold: float
) -> Array:
    grad, x = promoted(xp, grad_output, self)
    loops = loops_for_alike(xp, x, grad)
    if loops is not None:
        found: Array = loops.threshold_backward(grad, x, threshold)
        return found
    return chosen(xp, ~(x <= cast(xp, threshold, x.dtype)), grad, cast(xp, 0, grad.dtype))


threshold_backward.facts.on_halves = with_numbers("threshold_slope", 2)
threshold_backward.cost(elementwise_cost(1))
threshold_backward.linear(
    grad_output=lambda grad, self, threshold: threshold_backward(grad, self, threshold)
)
threshold_backward.flat("self")


# --- hardtanh, relu6 ------------------------------------------------------------------

hardtanh = define(
    "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
)
hardtanh.describe("Each element brought between `min_val` and `max_val`.")


@hardtanh.shape
def hardtanh_shape(self: TensorMeta, min_val: float, max_val: float) -> TensorMeta:
    check_real_numbers("hardtanh", min_val, max_val)
    kind = self.dtype
    check(kind.category != 0, lambda: "Bool inputs not supported for hardtanh")
    check(
        kind.is_signed or (min_val >= 0 and max_val >= 0),
        lambda: "cannot do hardtanh on an unsigned type with negative limits",
    )
    check_not_implemented(not kind.is_complex, lambda: "clamp is not supported for complex types")
    check_value(min_val <= max_val, lambda: "min_val cannot be greater than max_val")
    for bound in (min_val, max_val):
        check_fits(bound, kind)
    return elementwise([self], kind)


@hardtanh.kernel
def hardtanh_kernel(xp: ModuleType, self: Array, min_val: float, max_val: float) -> Array:
    x = computed(self)
    return clipped(xp, x, cast(xp, min_val, x.dtype), cast(xp, max_val, x.dtype))


hardtanh.facts.on_halves = with_numbers("clip")
hardtanh.cost(elementwise_cost(2))
hardtanh.derivative(
    self=lambda grad, self, min_val, max_val: hardtanh_backward(grad, self, min_val, max_val)
)
hardtanh.batching(BROADCASTS)
hardtanh_backward: OperatorPage = linear_backward(
    "hardtanh_backward",
    lambda xp, grad, x, low, high: chosen(xp, (x > low) & (x < high), grad, cast(xp, 0, x.dtype)),
    ", Scalar min_val, Scalar max_val",
    ", min_val, max_val",
)
hardtanh_backward.facts.on_halves = with_numbers("clip_slope", 2)
hardtanh_backward.batching(BROADCASTS)

relu6 = define("aten::relu6(Tensor self) -> Tensor", tags=POINTWISE)
relu6.describe("Each element brought between 0 and 6.")
relu6.composite(lambda self: hardtanh(self, 0, 6))
define("aten::relu6_(Tensor(a!) self) -> Tensor(a!)", tags=[Tag.inplace]).composite(
    lambda self: operators.hardtanh_(self, 0, 6)
)


# --- leaky_relu, prelu ----------------------------------------------------------------


def leaky_relu_kernel(xp: ModuleType, self: Array, slope: float) -> Array:
    loops = loops_of_floats(xp, self)
    if loops is not None:
        found: Array = loops.leaky_relu(self, slope)
        return found
    if 0 < slope <= 1:
        return xp.maximum(self, self * slope)
    return chosen(xp, self > 0, self, self * slope)


leaky_relu = unary(
    "leaky_relu",
    leaky_relu_kernel,
    more="Scalar negative_slope=0.01",
    result=same,
    takes=REAL_FLOATS,
    tags=CORE_POINTWISE,
)
leaky_relu.facts.on_halves = with_numbers("leaky")
leaky_relu.node_name(in_place="LeakyReluBackward1")
leaky_relu.describe("Each element, times `negative_slope` where it is negative.")
leaky_relu.derivative(
    self=lambda grad, self, negative_slope: leaky_relu_backward(grad, self, negative_slope, False)
)
in_place_derivative(
    leaky_relu,
    lambda grad, result, negative_slope: leaky_relu_backward(grad, result, negative_slope, True),
)


def leaky_relu_backward_kernel(
    xp: ModuleType, grad: Array, x: Array, negative_slope: float, self_is_result: bool
) -> Array:
    loops = loops_of_slopes(xp, grad, x)
    if loops is not None:
        found: Array = loops.leaky_relu_backward(grad, x, negative_slope)
        return found
    return chosen(xp, x > 0, grad, grad * negative_slope)


leaky_relu_backward: OperatorPage = linear_backward(
    "leaky_relu_backward",
    leaky_relu_backward_kernel,
    ", Scalar negative_slope, bool self_is_result",
    ", negative_slope, self_is_result",
)


def checked_leaky_relu_backward(
    grad_output: TensorMeta, self: TensorMeta, negative_slope: float, self_is_result: bool
) -> TensorMeta:
    """The shape rule; it refuses a result whose sign a negative slope may have turned."""
    check(
        not self_is_result or negative_slope >= 0,
        lambda: (
            f"In-place leakyReLu backward calculation is triggered with a negative slope "
            f"({negative_slope}) which is not supported. This is caused by calling in-place "
            f"forward function with a negative slope, please call out-of-place version instead."
        ),
    )
    common = common_type((grad_output, self))
    check_category("leaky_relu_backward", common, REAL_FLOATS)
    # The memory is laid out as the operand's, as in PyTorch, and not as the gradient's.
    return elementwise((self, grad_output), common, common_dtype=common)


leaky_relu_backward.shape(checked_leaky_relu_backward)
leaky_relu_backward.facts.on_halves = lambda grad, x, slope, _: with_numbers("leaky_slope", 2)(
    grad, x, slope
)
leaky_relu_backward.batching(BROADCASTS)

prelu = define("aten::prelu(Tensor self, Tensor weight) -> Tensor")
prelu.describe(
    "Each element, times `weight` where it is negative: one number, or one for each channel."
)
prelu.autocast("lower")


@prelu.composite
def prelu_by_parts(self: Tensor, weight: Tensor) -> Tensor:
    check(
        self.dtype is weight.dtype,
        lambda: (
            f"prelu: Type promoting not supported. Got {self.dtype.scalar_name} and "
            f"{weight.dtype.scalar_name}"
        ),
    )
    count = weight.numel()
    if count != 1:
        check(self.ndim > 0, lambda: "Not allow zero-dim input tensor.")
        channels = self.shape[1] if self.ndim > 1 else 1
        check(
            channels == count,
            lambda: (
                "Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {count} and channel size = {channels}."
            ),
        )
    check(
        weight.ndim <= 1,
        lambda: (
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        ),
    )
    if self.ndim != weight.ndim:
        shape = [1] * self.ndim
        if self.ndim > 1:
            shape[1] = count
        weight = weight.reshape(shape)
    return _prelu_kernel(self, weight)


_prelu_kernel = define("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor")


@_prelu_kernel.shape
def prelu_kernel_shape(self: TensorMeta, weight: TensorMeta) -> TensorMeta:
    check_category("prelu", self.dtype, REAL_FLOATS)
    return elementwise((self, weight), self.dtype, op_name="prelu")


@_prelu_kernel.kernel
def prelu_kernel(xp: ModuleType, self: Array, weight: Array) -> Array:
    x, w = promoted(xp, self, weight)
    loops = loops_of_floats(xp, x)
    if loops is not None and w.size == 1:
        looped: Array = loops.leaky_relu(x, w.item())
        return looped
    if loops is not None and w.ndim > 1 and w.size == w.shape[1] == x.shape[1]:
        by_channel: Array = loops.leaky_channels(x.reshape(*x.shape[:2], -1), w.reshape(-1))
        return by_channel.reshape(x.shape)
    return chosen(xp, x > 0, x, x * w)


_prelu_kernel.cost(elementwise_cost(1))
_prelu_kernel.facts.by_element = True


@_prelu_kernel.derivative("self", "weight")
def prelu_grad(grad: Tensor, self: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return _prelu_kernel_backward(grad, self, weight)


_prelu_kernel.batching(BROADCASTS)


_prelu_kernel_backward = define(
    "aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) "
    "-> (Tensor, Tensor)"
)


@_prelu_kernel_backward.shape
def prelu_backward_shape(
    grad_output: TensorMeta, self: TensorMeta, weight: TensorMeta
) -> tuple[TensorMeta, TensorMeta]:
    result = elementwise((self, weight, grad_output), self.dtype, op_name="prelu")
    return result, result


@_prelu_kernel_backward.kernel
def prelu_backward_kernel(
    xp: ModuleType, grad_output: Array, self: Array, weight: Array
) -> tuple[Array, Array]:
    grad, x, w = xp.broadcast_arrays(*promoted(xp, grad_output, self, weight))
    positive = x > 0
    by_weight = chosen(xp, ~positive, x * grad, cast(xp, 0, x.dtype))
    return chosen(xp, positive, grad, w * grad), by_weight


_prelu_kernel_backward.cost(elementwise_cost(2))


@_prelu_kernel_backward.derivative("grad_output", "self", "weight")
def prelu_double_grad(
    grads: Sequence[Tensor | None], grad_output: Tensor, self: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    by_self, by_weight = (aten.zeros_like(self) if g is None else g for g in grads)
    positive = self > 0
    mixed = (by_self * grad_output).masked_fill(positive, 0)
    return (
        aten.where(positive, by_self, by_self * weight + by_weight * self),
        (by_weight * grad_output).masked_fill(positive, 0),
        mixed,
    )


_prelu_kernel_backward.batching(BROADCASTS)


# --- hardswish, hardsigmoid -----------------------------------------------------------


def hardsigmoid_kernel(xp: ModuleType, x: Array) -> Array:
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.hardsigmoid(x)
        return found
    return clipped(xp, x + 3, xp.asarray(0, x.dtype), xp.asarray(6, x.dtype)) / 6


hardsigmoid = unary("hardsigmoid", hardsigmoid_kernel, result=same, takes=REAL_FLOATS, flops=3)
hardsigmoid.describe("``(x + 3) / 6`` brought between 0 and 1.")
hardsigmoid.derivative(self=lambda grad, self: hardsigmoid_backward(grad, self))


def hardsigmoid_backward_kernel(xp: ModuleType, grad: Array, x: Array) -> Array:
    loops = loops_of_slopes(xp, grad, x)
    if loops is not None:
        found: Array = loops.hardsigmoid_backward(grad, x)
        return found
    return chosen(xp, (x > -3) & (x < 3), grad / 6, cast(xp, 0, x.dtype))


hardsigmoid_backward: OperatorPage = linear_backward(
    "hardsigmoid_backward", hardsigmoid_backward_kernel, "", ""
)
hardsigmoid_backward.batching(BROADCASTS)


def hardswish_kernel(xp: ModuleType, x: Array) -> Array:
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.hardswish(x)
        return found
    return x * hardsigmoid_kernel(xp, x)


hardswish = unary(
    "hardswish",
    hardswish_kernel,
    result=same,
    takes=REAL_FLOATS,
    tags=(),
    flops=4,
)
hardswish.describe("``x * hardsigmoid(x)``.")
hardswish.derivative(self=lambda grad, self: hardswish_backward(grad, self))
hardswish.batching(BROADCASTS)


def hardswish_backward_kernel(xp: ModuleType, grad: Array, x: Array) -> Array:
    loops = loops_of_slopes(xp, grad, x)
    if loops is not None:
        found: Array = loops.hardswish_backward(grad, x)
        return found
    above = chosen(xp, x >= 3, grad, grad * (x / 3 + 0.5))
    return chosen(xp, ~(x <= -3), above, cast(xp, 0, x.dtype))


hardswish_backward: OperatorPage = backward(
    "hardswish_backward", hardswish_backward_kernel, tags=()
)
hardswish_backward.derivative(
    grad_output=lambda grad, self: hardswish_backward(grad, self),
    self=lambda grad, grad_output, self: aten.where(
        (self > -3).logical_and(self < 3), mul(grad, grad_output) / 3, aten.zeros_like(grad)
    ),
)
hardswish_backward.batching(BROADCASTS)


# --- hardshrink, softshrink -----------------------------------------------------------


def hardshrink_kernel(xp: ModuleType, x: Array, lambd: float) -> Array:
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.hardshrink(x, lambd)
        return found
    return chosen(xp, ~((x >= -lambd) & (x <= lambd)), x, cast(xp, 0, x.dtype))


hardshrink = unary(
    "hardshrink",
    hardshrink_kernel,
    more="Scalar lambd=0.5",
    result=same,
    takes=REAL_FLOATS,
    variants=[Variant.OUT],
)
hardshrink.describe("Each element, but zero where its magnitude is at most `lambd`.")
hardshrink.exact_out()
hardshrink.derivative(self=lambda grad, self, lambd: hardshrink_backward(grad, self, lambd))


def shrunk_grad_kernel(xp: ModuleType, grad: Array, x: Array, lambd: float) -> Array:
    loops = loops_of_floats(xp, x) if grad.shape == x.shape and grad.dtype == x.dtype else None
    if loops is not None:
        found: Array = loops.shrunk_backward(grad, x, lambd)
        return found
    return chosen(xp, (x < -lambd) | (x > lambd), grad, cast(xp, 0, grad.dtype))


hardshrink_backward: OperatorPage = linear_backward(
    "hardshrink_backward", shrunk_grad_kernel, ", Scalar lambd", ", lambd", grad="grad_out"
)
hardshrink_backward.batching(BROADCASTS)

softshrink = define(
    "aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    tags=POINTWISE,
    variants=[Variant.OUT],
)
softshrink.describe(
    "Each element moved towards zero by `lambd`, and zero where its magnitude is at most that."
)


@softshrink.shape
def softshrink_shape(self: TensorMeta, lambd: float) -> TensorMeta:
    check_real_numbers("softshrink", lambd)
    check_category("softshrink", self.dtype, REAL_FLOATS)
    check(
        lambd >= 0,
        lambda: (
            f"lambda must be in range [0, {finfo(self.dtype).max:g}] for input dtype "
            f"{self.dtype.scalar_name}, but found {lambd:g}"
        ),
    )
    return elementwise([self], self.dtype)


@softshrink.kernel
def softshrink_kernel(xp: ModuleType, self: Array, lambd: float) -> Array:
    x = computed(self)
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.softshrink(x, lambd)
        return found
    return chosen(xp, x > lambd, x - lambd, chosen(xp, x < -lambd, x + lambd, x * 0))


softshrink.exact_out()
softshrink.cost(elementwise_cost(1))
softshrink.derivative(self=lambda grad, self, lambd: softshrink_backward(grad, self, lambd))
softshrink_backward: OperatorPage = linear_backward(
    "softshrink_backward", shrunk_grad_kernel, ", Scalar lambd", ", lambd"
)
softshrink_backward.batching(BROADCASTS)
