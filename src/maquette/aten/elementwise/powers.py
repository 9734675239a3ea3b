"""Powers: `pow` of tensors and numbers, `float_power`.

Small whole exponents are multiplied out, as PyTorch does. Integers to negative powers are refused
when the exponent is a number; within a tensor they give what rounds to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.formula_helpers import Value, conj, minus, no_slope, times, zero_for
from maquette.aten.common.half_steps import of_power
from maquette.aten.common.large_arrays import reciprocal
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    CORE_POINTWISE,
    INTS,
    NUMERIC,
    POINTWISE,
    Array,
    Number,
    array_type,
    binary,
    check_category,
    common_type,
    computed,
    elementwise_cost,
    promoted,
)
from maquette.aten.elementwise.where import where
from maquette.core.dtype import complex128, float64
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define, describe
from maquette.tensor.tensor import Tensor

# --- kernels --------------------------------------------------------------------------


def power(xp: ModuleType, base: Array, exponent: Array) -> Array:
    """Powers of arrays of one type.

    Complex ones are C's ``cpow``, an exponential. NumPy multiplies whole exponents out: a root of
    unity comes back to exactly -1 there, and ``1 + root`` divides by zero where PyTorch's does not.
    """
    if base.dtype.kind == "c":
        whole = (exponent.imag == 0) & (exponent.real == xp.floor(exponent.real))
        return xp.where(whole, xp.exp(exponent * xp.log(base)), xp.power(base, exponent))
    if base.dtype.kind != "i":
        return xp.power(base, exponent)
    # NumPy refuses negative exponents of integers; PyTorch rounds 1/base**n to zero.
    negative = exponent < 0
    raised = xp.power(base, xp.where(negative, 0, exponent))
    odd = (exponent % 2) != 0
    inverse = xp.where(base == 1, 1, xp.where(base == -1, xp.where(odd, -1, 1), 0))
    return xp.where(negative, inverse, raised).astype(base.dtype)


_MULTIPLIED = {
    2: lambda xp, x: x * x,
    3: lambda xp, x: x * x * x,
    0.5: lambda xp, x: xp.sqrt(x),
    -0.5: lambda xp, x: 1 / xp.sqrt(x),
    -1: reciprocal,
    -2: lambda xp, x: reciprocal(xp, x * x),
}
_WHOLE = (2, 3)  # of integers, which NumPy raises one by one (4.7 to 0.5 ms)


def by_products(self: Array, exponent: Number) -> Callable[..., Array] | None:
    """A power as products and roots, if it is; of float16, PyTorch's roots are powers."""
    if isinstance(exponent, complex) or (self.dtype == np.float16 and abs(exponent) == 0.5):
        return None
    return _MULTIPLIED.get(exponent)


def pow_number_kernel(xp: ModuleType, self: Array, exponent: Number) -> Array:
    multiplied = by_products(self, exponent)
    if multiplied is not None and array_type(self).category > INTS:
        return multiplied(xp, computed(self))
    if self.dtype.kind == "c" and exponent in (0, 1):
        return xp.array(self) if exponent else xp.ones_like(self)
    if type(exponent) is int and exponent in _WHOLE and self.dtype.kind in "iu":
        return _MULTIPLIED[exponent](xp, self)
    base, raised = promoted(xp, self, exponent)
    if base.dtype.kind == "b":
        return base if exponent else xp.ones_like(base)
    return power(xp, base, raised)


# --- pages ----------------------------------------------------------------------------

pow = binary(
    "pow",
    power,
    overload="Tensor_Tensor",
    arguments="Tensor self, Tensor exponent",
    label="pow",
    takes=NUMERIC,
    tags=CORE_POINTWISE,
    variants=("pow_.Tensor", "Tensor_Tensor_out"),
)
pow.node_name("PowBackward1")
pow.describe("`self` to the power of `exponent`; integers to a negative number are refused.")
pow.autocast(cuda="float32")
pow_number = define(
    "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    tags=CORE_POINTWISE,
    variants=("pow_.Scalar", "Tensor_Scalar_out"),
)
pow_number.autocast(cuda="float32")
pow_of_number = define(
    "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    tags=CORE_POINTWISE,
    variants=(Variant.OUT,),
)
pow_of_number.node_name("PowBackward2")
pow_of_number.autocast(cuda="float32")


@pow_number.shape
def pow_number_shape(self: TensorMeta, exponent: Number) -> TensorMeta:
    common = common_type((self, exponent))
    if exponent not in (0, 1):  # powers that are copies or ones take bools too
        check_category("pow", common, NUMERIC)
    check(
        self.dtype.category > INTS or not isinstance(exponent, int) or exponent >= 0,
        lambda: "Integers to negative integer powers are not allowed.",
    )
    return elementwise((self,), common, common_dtype=common, op_name="pow")


@pow_of_number.shape
def pow_of_number_shape(self: Number, exponent: TensorMeta) -> TensorMeta:
    common = common_type((self, exponent))
    check_category("pow", common, NUMERIC)
    return exponent.fresh(exponent.shape, common)  # contiguous, whatever the exponent is


def pow_of_number_kernel(xp: ModuleType, self: Number, exponent: Array) -> Array:
    return power(xp, *promoted(xp, self, exponent))


pow_number.kernel(pow_number_kernel)
pow_number.facts.on_halves = lambda self, exponent: (
    of_power(self, exponent) if by_products(self, exponent) else None
)
pow_number.cost(elementwise_cost(1))
pow_of_number.kernel(pow_of_number_kernel)
pow_of_number.cost(elementwise_cost(1))


# --- derivatives ----------------------------------------------------------------------


def power_grad(grad: Tensor, self: Tensor, exponent: Number) -> Tensor:
    """The gradient of ``self ** exponent`` by its base; 0 for the power 0."""
    if exponent == 0:
        return no_slope(grad)
    power = self.pow(exponent - 1)  # named: it lives as long as PyTorch's, and so peaks are equal
    return grad * conj(times(power, exponent))


def powers_grad(grad: Tensor, self: Tensor, exponent: Tensor) -> Tensor:
    """The gradient by the base, for a tensor of exponents."""
    power = self.pow(minus(exponent, 1))
    slope = grad * conj(exponent * power)
    zero = zero_for(slope)
    return where(exponent == 0, zero, slope)


def _is_nonnegative(exponent: Tensor) -> Tensor:
    """Where 0 raised to the exponent is flat in it; of complex ones, where they are real."""
    if not exponent.meta.dtype.is_complex:
        return exponent >= 0
    least = aten.real(exponent) >= 0
    return least.logical_and(aten.imag(exponent) == 0)


def exponent_grad(grad: Tensor, self: Tensor, exponent: Tensor, result: Tensor) -> Tensor:
    """The gradient by the exponent: ``result * log(self)``, 0 where 0 is raised to 0 or more."""
    nonnegative = _is_nonnegative(exponent)
    if exponent.meta.dtype.is_complex:
        flat = nonnegative.logical_and(self == 0)
    else:
        flat = (self == 0).logical_and(nonnegative)
    # A negative number has a logarithm where the power is complex.
    base = self.to(result.meta.dtype) if result.meta.dtype.is_complex else self
    slope = conj(result * base.log())
    return grad * where(flat, zero_for(slope), slope)


def exponent_of_number_grad(grad: Tensor, self: Number, exponent: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``number ** exponent``."""
    if self == 0:
        slope = conj(times(result, -math.inf))
        zero = zero_for(slope)
        return grad * where(_is_nonnegative(exponent), zero, slope)
    negative = not isinstance(self, complex) and self < 0
    factor = math.nan if negative and not result.meta.dtype.is_complex else _log(self)
    return grad * conj(times(result, factor))


def _log(value: Number) -> Number:
    if isinstance(value, complex) or value < 0:
        return complex(math.log(abs(value)), math.atan2(complex(value).imag, complex(value).real))
    return math.log(value)


pow_number.derivative(self=power_grad)
pow.derivative(self=powers_grad, exponent=exponent_grad)
pow_of_number.derivative(exponent=exponent_of_number_grad)


# --- float_power ----------------------------------------------------------------------


def _double(value: Value) -> Value:
    """A real tensor or number in double precision."""
    return value.to(float64) if isinstance(value, Tensor) else float(value.real)


def _is_complex(value: Value) -> bool:
    return value.dtype.is_complex if isinstance(value, Tensor) else isinstance(value, complex)


def float_power_by_parts(self: Value, exponent: Value) -> Tensor:
    """A power in double precision."""
    if _is_complex(self) or _is_complex(exponent):
        self = self.to(complex128) if isinstance(self, Tensor) else complex(self)
        exponent = exponent.to(complex128) if isinstance(exponent, Tensor) else complex(exponent)
        return aten.pow(self, exponent)
    return aten.pow(_double(self), _double(exponent))


def check_double(target: Tensor, *operands: Value) -> None:
    """Refuse to write a double precision result to another type."""
    wanted = complex128 if any(map(_is_complex, operands)) else float64
    check(
        target.dtype is wanted,
        lambda: (
            f"the output given to float_power has dtype {target.dtype.scalar_name} but the "
            f"operation's result requires dtype {wanted.scalar_name}"
        ),
    )


def float_power_out(self: Value, exponent: Value, out: Tensor) -> Tensor:
    """`float_power` into a tensor of double precision."""
    check_double(out, self, exponent)
    wanted = out.dtype
    base = self.to(wanted) if isinstance(self, Tensor) else self
    power = exponent.to(wanted) if isinstance(exponent, Tensor) else exponent
    return aten.pow(base, power, out=out)


def float_power_in_place(self: Tensor, exponent: Value) -> Tensor:
    """`float_power` of a tensor of double precision, in its place."""
    check_double(self, self, exponent)
    return self.pow_(exponent.to(self.dtype) if isinstance(exponent, Tensor) else exponent)


for _overload, _arguments in (
    ("Tensor_Tensor", "Tensor self, Tensor exponent"),
    ("Scalar", "Scalar self, Tensor exponent"),
    ("Tensor_Scalar", "Tensor self, Scalar exponent"),
):
    define(f"aten::float_power.{_overload}({_arguments}) -> Tensor", tags=POINTWISE).composite(
        float_power_by_parts
    )
    define(
        f"aten::float_power.{_overload}_out({_arguments}, *, Tensor(a!) out) -> Tensor(a!)",
        tags=[*POINTWISE, Tag.out],
    ).composite(float_power_out)
describe("float_power", "`self` to the power of `exponent`, computed in float64 or complex128.")
for _kind in ("Scalar", "Tensor"):
    define(
        f"aten::float_power_.{_kind}(Tensor(a!) self, {_kind} exponent) -> Tensor(a!)",
        tags=[*POINTWISE, Tag.inplace],
    ).composite(float_power_in_place)
