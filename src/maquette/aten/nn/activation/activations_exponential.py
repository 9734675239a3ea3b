"""Activations that are linear above zero and exponential below: ELU, SELU, CELU.

All three are one function of three scales, with one backward.
"""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.large_arrays import chosen, loops_of_floats
from maquette.aten.elementwise.pointwise import (
    CORE_POINTWISE,
    POINTWISE,
    REAL_FLOATS,
    Array,
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
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS, operators

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def elu_kernel(xp: ModuleType, x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.elu(x, alpha * scale, scale, input_scale)
        return found
    low = xp.expm1(xp.minimum(x, 0) * input_scale) * (alpha * scale)
    return chosen(xp, x < 0, low, x * scale)


elu = unary(
    "elu",
    elu_kernel,
    more="Scalar alpha=1, Scalar scale=1, Scalar input_scale=1",
    result=same,
    takes=REAL_FLOATS,
    tags=CORE_POINTWISE,
    flops=3,
)
elu.node_name(in_place="EluBackward1")
elu.describe(
    "``scale * x`` where that is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."
)
elu.derivative(
    self=lambda grad, alpha, scale, input_scale, self: elu_backward(
        grad, alpha, scale, input_scale, False, self
    )
)
in_place_derivative(
    elu,
    lambda grad, alpha, scale, input_scale, result: elu_backward(
        grad, alpha, scale, input_scale, True, result
    ),
)

elu_backward: OperatorPage = define(
    "aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, "
    "bool is_result, Tensor self_or_result) -> Tensor"
)
elu_backward.facts.by_element = True


@elu_backward.shape
def elu_backward_shape(
    grad_output: TensorMeta,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: TensorMeta,
) -> TensorMeta:
    check(
        not is_result or alpha >= 0,
        lambda: (
            f"In-place elu backward calculation is triggered with a negative slope ({alpha}) "
            f"which is not supported. This is caused by calling in-place forward function with a "
            f"negative slope, please call out-of-place version instead."
        ),
    )
    common = common_type((grad_output, self_or_result))
    check_category("elu_backward", common, REAL_FLOATS)
    return elementwise((grad_output, self_or_result), common, common_dtype=common)


@elu_backward.kernel
def elu_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Array,
) -> Array:
    grad, x = promoted(xp, grad_output, self_or_result)
    low = x + alpha * scale if is_result else xp.exp(x * input_scale) * (alpha * scale)
    return chosen(xp, x > 0, grad * scale, grad * input_scale * low)


elu_backward.cost(elementwise_cost(3))


def elu_backward_by_input(
    grad: Tensor,
    grad_output: Tensor,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    """The gradient of ``elu_backward`` by what it was saved: it bends below zero only."""
    x, slope = self_or_result, grad * grad_output * input_scale
    if not is_result:
        slope = slope * (x * input_scale).exp() * (alpha * scale * input_scale)
    return slope.masked_fill(x >= 0, 0)


elu_backward.derivative(
    grad_output=lambda grad, alpha, scale, input_scale, is_result, self_or_result: elu_backward(
        grad, alpha, scale, input_scale, is_result, self_or_result
    ),
    self_or_result=elu_backward_by_input,
)
elu_backward.batching(BROADCASTS)

selu = define("aten::selu(Tensor self) -> Tensor", tags=POINTWISE)
selu.describe("`elu` with the two constants that keep mean and variance.")
selu.composite(lambda self: elu(self, _SELU_ALPHA, _SELU_SCALE))
define("aten::selu_(Tensor(a!) self) -> Tensor(a!)", tags=[*POINTWISE, Tag.inplace]).composite(
    lambda self: operators.elu_(self, _SELU_ALPHA, _SELU_SCALE)
)


def celu_kernel(xp: ModuleType, x: Array, alpha: float) -> Array:
    return elu_kernel(xp, x, alpha, 1, 1 / alpha)


celu = define(
    "aten::celu(Tensor self, Scalar alpha=1.) -> Tensor",
    tags=POINTWISE,
    variants=[Variant.INPLACE],
)
celu.node_name(in_place="CeluBackward1")
celu.describe("``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``.")


@celu.shape
def celu_shape(self: TensorMeta, alpha: float) -> TensorMeta:
    check_real_numbers("celu", alpha)
    check(alpha != 0, lambda: "ZeroDivisionError: alpha cannot be 0 for CELU")
    check_category("elu", self.dtype, REAL_FLOATS)
    return elementwise([self], self.dtype)


celu.kernel(lambda xp, self, alpha: celu_kernel(xp, computed(self), alpha))
celu.cost(elementwise_cost(3))
celu.derivative(
    self=lambda grad, alpha, self: elu_backward(grad, alpha, 1, 1.0 / alpha, False, self)
)
in_place_derivative(
    celu, lambda grad, alpha, result: elu_backward(grad, alpha, 1, 1.0 / alpha, True, result)
)
