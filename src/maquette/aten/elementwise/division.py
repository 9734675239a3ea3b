"""Division, exact and rounded, and its remainders.

Integers divide exactly into the default dtype; rounded quotients and remainders keep their type and
refuse a divisor of zero, which only the kernel can see.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import data_says
from maquette.aten.common.formula_helpers import Value, conj, no_slope, over
from maquette.aten.common.half_steps import of_product
from maquette.aten.common.large_arrays import BLOCK, SMALL, floor_quotient
from maquette.aten.common.large_arrays import fmod as remainder_of_first
from maquette.aten.common.large_arrays import remainder as remainder_of
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.aten.common.type_promotion import factors, narrow_type, promoted
from maquette.aten.elementwise.pointwise import (
    BOTH,
    CORE_POINTWISE,
    REALS,
    Array,
    Operand,
    binary,
    check_category,
    common_type,
    direct,
    elementwise_cost,
    number_derivative,
    write_directly,
)
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_data
from maquette.core.meta import TensorMeta
from maquette.library.page import Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

# --- division -------------------------------------------------------------------------


def div_shape(self: Operand, other: Operand) -> TensorMeta:
    common = common_type((self, other), floats=True)
    return elementwise((self, other), common, common_dtype=common, op_name="div")


div_kernel = direct(operator.truediv, floats=True)


def quotient_slope(grad: Tensor, self: Value, other: Tensor) -> Tensor:
    """The gradient of ``self / other`` by ``other``."""
    slope = conj((self / other) / other)
    return -grad * slope


div = define(
    "aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
    takes_numbers=True,
)
div.describe('The quotient of `self` and `other`; rounding_mode "trunc" or "floor" makes it whole.')
div_scalar = define(
    "aten::div.Scalar(Tensor self, Scalar other) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
    like=div,
)
div_scalar.node_name("DivBackward1")
div.shape(div_shape)
div.kernel(div_kernel)
div.facts.on_halves = of_product("divide", "over")
div.cost(elementwise_cost(1))
div.derivative(self=lambda grad, other: grad / conj(other), other=quotient_slope)


@div.tangent
def div_tangent(self_t: Value, other: Value, other_t: Value, result: Tensor) -> Value:
    return (self_t - result * other_t) / other


number_derivative(div_scalar, lambda grad, other: over(grad, conj(other)))
for _page in (div, div_scalar):
    write_directly(_page, "true_divide")


def divided_shape(self: Operand, other: Operand, rounding_mode: str | None) -> TensorMeta:
    """The shape rule of a division that may round."""
    if rounding_mode is None:
        return div_shape(self, other)
    check(
        rounding_mode in ("trunc", "floor"),
        lambda: (
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        ),
    )
    common = common_type((self, other))
    check_category(f"div_{rounding_mode}", common, REALS)
    return elementwise((self, other), common, common_dtype=common, op_name="div")


def divided_kernel(xp: ModuleType, self: Array, other: Array, rounding_mode: str | None) -> Array:
    if rounding_mode is None:
        return div_kernel(xp, self, other)
    whole = rounding_mode == "floor"
    a, b = factors(xp, self, other) if whole else promoted(xp, self, other)
    if a.dtype.kind not in "iu":
        if whole:
            return floor_quotient(xp, a, b)
        quotient = xp.true_divide(a, b)
        narrow = narrow_type(self, other)
        # In 16 bits the quotient may round up to a whole number before it is cut.
        return xp.trunc(converted(converted(quotient, narrow), a.dtype) if narrow else quotient)
    check_divisor(xp, a, b)
    return xp.floor_divide(a, b) if whole else truncated_quotient(xp, a, b)


def check_divisor(xp: ModuleType, dividend: Array, divisor: Array) -> None:
    """Refuse an integer division by zero, which has no answer, unless nothing is divided."""
    refused = dividend.size and data_says(lambda: not xp.all(divisor))
    check_data(not refused, lambda: "ZeroDivisionError")


def truncated_quotient(xp: ModuleType, a: Array, b: Array) -> Array:
    """The quotient of integers, rounded to zero; NumPy's rounds down."""
    if xp is np and (a.dtype.itemsize < 8 or (a.size >= SMALL and _small(a) and _small(b))):
        return _cut_quotient(a, b)
    quotient = xp.floor_divide(a, b)
    inexact = xp.not_equal(xp.multiply(quotient, b), a)
    return xp.add(quotient, xp.logical_and(quotient < 0, inexact).astype(quotient.dtype))


def _small(x: Array) -> bool:
    """Whether quotients by it and of it are exact in double precision, but for their fraction."""
    return bool(x.size) and -(2**53) < int(x.min()) and int(x.max()) < 2**53


def _cut_quotient(a: Array, b: Array) -> Array:
    """Quotients in double precision without their fraction: of 10⁶ int64 9 to 3.5 ms.

    In blocks, which are converted in a core's cache.
    """
    if a.shape != b.shape or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return np.true_divide(a, b, dtype=np.float64).astype(a.dtype)
    out = np.empty(a.shape, a.dtype)
    tops, bottoms, cut = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    top, bottom = np.empty((2, min(BLOCK, max(1, a.size))))
    for start in range(0, a.size, BLOCK):
        count = min(BLOCK, a.size - start)
        top[:count], bottom[:count] = tops[start : start + count], bottoms[start : start + count]
        np.divide(top[:count], bottom[:count], out=top[:count])
        cut[start : start + count] = top[:count]  # which cuts
    return out


def rounded_quotient_grad(grad: Tensor, other: Value, rounding_mode: str | None) -> Tensor:
    """The gradient of ``div`` by its dividend: none once it rounds."""
    return grad / conj(other) if rounding_mode is None else no_slope(grad)


def rounded_divisor_grad(
    grad: Tensor, self: Value, other: Tensor, rounding_mode: str | None
) -> Tensor:
    """The gradient of ``div`` by its divisor: none once it rounds."""
    return quotient_slope(grad, self, other) if rounding_mode is None else no_slope(grad)


div_mode = define(
    "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    tags=CORE_POINTWISE,
    variants=(Variant.INPLACE, "out_mode"),
    takes_numbers=True,
)
div_mode.node_name("DivBackward2")
div_scalar_mode = define(
    "aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
    tags=CORE_POINTWISE,
    variants=(Variant.INPLACE,),
    like=div_mode,
)
div_scalar_mode.node_name("DivBackward3")
div_mode.shape(divided_shape)
div_mode.kernel(divided_kernel)
div_mode.cost(elementwise_cost(1))
div_mode.derivative(self=rounded_quotient_grad, other=rounded_divisor_grad)

floor_divide = binary(
    "floor_divide",
    lambda xp, a, b: divided_kernel(xp, a, b, "floor"),
    takes=REALS,
    label="div_floor",
    tags=(),
    variants=(Variant.OUT, "floor_divide_.Tensor"),
    takes_numbers=True,
)
# Of operands as they come: a single number on the right is not rounded to 16 bits.
floor_divide.kernel(lambda xp, self, other: divided_kernel(xp, self, other, "floor"))
floor_divide.describe("The quotient of `self` and `other` rounded down.")
floor_divide.batching(BROADCASTS)


# --- remainders -----------------------------------------------------------------------


def remainder_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        check_divisor(xp, a, b)
    return remainder_of(xp, a, b)


def fmod_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        check_divisor(xp, a, b)
    return remainder_of_first(xp, a, b)


remainder = binary(
    "remainder",
    remainder_kernel,
    overload="Tensor",
    takes=REALS,
    tags=CORE_POINTWISE,
    variants=(Variant.INPLACE, "Tensor_out"),
)
remainder.node_name("RemainderBackward1")
remainder.describe(
    "What is left of `self` divided by `other`, with the sign of `other`, as Python's ``%``."
)
remainder_scalar = binary(
    "remainder",
    remainder_kernel,
    overload="Scalar",
    arguments="Tensor self, Scalar other",
    takes=REALS,
    tags=CORE_POINTWISE,
)
remainder_of_scalar = binary(
    "remainder",
    remainder_kernel,
    overload="Scalar_Tensor",
    arguments="Scalar self, Tensor other",
    takes=REALS,
    variants=(),
)
fmod = binary(
    "fmod",
    fmod_kernel,
    overload="Tensor",
    takes=REALS,
    tags=CORE_POINTWISE,
    variants=(Variant.INPLACE, "Tensor_out"),
)
fmod.node_name("FmodBackward1")
fmod.describe("What is left of `self` divided by `other`, with the sign of `self`.")
fmod_scalar = binary(
    "fmod",
    fmod_kernel,
    overload="Scalar",
    arguments="Tensor self, Scalar other",
    takes=REALS,
    tags=CORE_POINTWISE,
)


def _times_quotient(mode: str) -> Callable[..., Tensor]:
    """The gradient of a remainder by its divisor: minus the quotient, rounded its way."""

    def formula(grad: Tensor, self: Value, other: Tensor) -> Tensor:
        quotient = aten.div(self, other, rounding_mode=mode)
        return -grad * quotient

    return formula


remainder.derivative(self=lambda grad: grad, other=_times_quotient("floor"))
remainder_scalar.derivative(self=lambda grad: grad)
remainder_of_scalar.derivative(other=_times_quotient("floor"))
fmod.derivative(self=lambda grad: grad, other=_times_quotient("trunc"))
fmod_scalar.derivative(self=lambda grad: grad)
