"""Functions of two operands: angles and lengths, logarithms of sums, factors, neighbours.

The four operations are in `arithmetic.py` and `division.py`, powers in `powers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType

import numpy as np

from maquette.aten.common.elementary_functions import elementary
from maquette.aten.common.formula_helpers import Value, conj, plus, times, zero_for
from maquette.aten.common.fresh_writes import unless_wrapped, zeros_beside
from maquette.aten.common.half_steps import of_arrays
from maquette.aten.common.large_arrays import SMALL, loops_of_pairs
from maquette.aten.common.operators import aten
from maquette.aten.common.type_promotion import in_result_type
from maquette.aten.elementwise.pointwise import (
    BOTH,
    FLOATING,
    INTS,
    POINTWISE,
    REAL_FLOATS,
    Array,
    Operand,
    binary,
    check_category,
    common_type,
    computed,
    elementwise_cost,
    promoted,
    special,
)
from maquette.aten.elementwise.where import where
from maquette.core.device_rules import check_one_device
from maquette.core.dtype import float32, int32
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.scalar_types import is_complex_type
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, describe
from maquette.tensor.tensor import Tensor

_INTS = frozenset((INTS,))

# --- angles, lengths, signs -----------------------------------------------------------

atan2 = binary(
    "atan2",
    lambda xp, a, b: xp.arctan2(a, b),
    floats=True,
    takes=REAL_FLOATS,
    tags=(Tag.core, Tag.pointwise),
)
atan2.describe(
    "The angle of the point with the ordinate `self` and the abscissa `other`, in radians."
)
atan2.autocast(cuda="promote")


def over_square(self: Tensor, other: Tensor) -> Tensor:
    """1 / (self**2 + other**2), and 0 at the origin."""
    first = other * other
    square = self * self + first
    return aten.reciprocal(square).masked_fill(square == 0, 0)


@atan2.derivative("self", "other")
def atan2_grad(
    grad: Tensor, self: Tensor, other: Tensor, needs: list[bool]
) -> tuple[Tensor | None, Tensor | None]:
    factor = over_square(self, other)
    return (
        grad * other * factor if needs[0] else None,
        grad * -self * factor if needs[1] else None,
    )


@atan2.tangent
def atan2_tangent(self: Tensor, self_t: Tensor, other: Tensor, other_t: Tensor) -> Tensor:
    factor = over_square(self, other)
    return (-self * other_t + other * self_t) * factor


def hypot_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    loops = loops_of_pairs(xp, a, b)
    if loops is not None:
        found: Array = loops.hypot(a, b)
        return found
    return xp.hypot(a, b)


hypot = binary("hypot", hypot_kernel, takes=REAL_FLOATS)
hypot.describe("The length ``sqrt(self**2 + other**2)``, without overflow on the way.")
hypot.derivative(
    self=lambda grad, self, result: grad * self / result,
    other=lambda grad, other, result: grad * other / result,
)

copysign = binary(
    "copysign",
    lambda xp, a, b: xp.copysign(a, b),
    overload="Tensor",
    floats=True,
    takes=REAL_FLOATS,
)
copysign.facts.on_halves = of_arrays("copysign")
copysign.describe("The magnitudes of `self` with the signs of `other`, in floating point.")
copysign_scalar = binary(
    "copysign",
    lambda xp, a, b: xp.copysign(a, b),
    overload="Scalar",
    arguments="Tensor self, Scalar other",
    floats=True,
    takes=REAL_FLOATS,
)
copysign_scalar.node_name("CopysignBackward1")


def copysign_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``copysign``: the sign that it turned, 0 at 0."""
    return grad * unless_wrapped("masked_fill", result / self, self == 0, 0)


copysign.derivative(self=copysign_grad)
copysign.flat(other=lambda grad, other_meta: zeros_beside(grad, other_meta.shape))
copysign_scalar.derivative(self=copysign_grad)


# --- neighbours and exponents ---------------------------------------------------------

nextafter = define(
    "aten::nextafter(Tensor self, Tensor other) -> Tensor", tags=POINTWISE, variants=BOTH
)
nextafter.describe("The next floating point number after each of `self` towards `other`.")


@nextafter.shape
def nextafter_shape(self: Operand, other: Operand) -> TensorMeta:
    check_one_device("nextafter", [t for t in (self, other) if isinstance(t, TensorMeta)])
    common = common_type((self, other))
    check_category("nextafter", common, REAL_FLOATS)
    return elementwise((self, other), common, common_dtype=common, op_name="nextafter")


@nextafter.kernel
def nextafter_kernel(xp: ModuleType, self: Array, other: Array) -> Array:
    if self.dtype is not other.dtype:
        self, other = in_result_type(xp, self, other)  # neighbours differ by type
    loops = loops_of_pairs(xp, self, other) if self.shape == other.shape else None
    found: Array = xp.nextafter(self, other) if loops is None else loops.nextafter(self, other)
    return found


nextafter.cost(elementwise_cost(1))
nextafter.derivative(
    self=lambda grad, self, other: where(self != other, grad, zero_for(grad)),
    other=lambda grad, other_meta: zeros_beside(grad, other_meta.shape),
)

ldexp = define(
    "aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
    tags=POINTWISE,
    variants=("ldexp_", Variant.OUT),
)
ldexp.describe("The product ``self * 2**other``.")


@ldexp.shape
def ldexp_shape(self: TensorMeta, other: TensorMeta) -> TensorMeta:
    common = common_type((self, other), floats=True)
    # As PyTorch 2.13 lays it out: where it makes the power first, that one is contiguous.
    whole_self, whole_other = (kind.category < 2 for kind in (self.dtype, other.dtype))
    if whole_self or (self.dtype is float32 and not whole_other):
        other = other.fresh(other.shape, common)
    return elementwise((self, other), common, common_dtype=common, op_name="ldexp")


@ldexp.kernel
def ldexp_kernel(xp: ModuleType, self: Array, other: Array) -> Array:
    base, exponent = promoted(xp, self, other, floats=True)
    return base * xp.exp2(exponent)


ldexp.cost(elementwise_cost(2))
ldexp.derivative(
    self=lambda grad, other: grad * conj(aten.pow(2.0, other)),
    other=lambda grad, result: times(grad * conj(result), math.log(2)),
)

frexp = define(
    "aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    tags=POINTWISE,
    variants=[
        "aten::frexp.Tensor_out(Tensor self, *, Tensor(a!) mantissa, Tensor(b!) exponent) "
        "-> (Tensor(a!) mantissa, Tensor(b!) exponent)"
    ],
)
frexp.describe(
    "Each element as a mantissa between 0.5 and 1 and a power of two: `mantissa` and `exponent`."
)


@frexp.shape
def frexp_shape(self: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    check(
        self.dtype.is_floating_point,
        lambda: f"frexp() only supports floating-point dtypes, got {self}",
    )
    return elementwise([self], self.dtype), elementwise([self], int32)


@frexp.kernel
def frexp_kernel(xp: ModuleType, self: Array) -> tuple[Array, Array]:
    mantissa, exponent = xp.frexp(computed(self))
    return mantissa, exponent


frexp.exact_out()
frexp.cost(elementwise_cost(1))
frexp.nondifferentiable(1)


@frexp.derivative("self")
def frexp_grad(grad: Tensor, result1: Tensor) -> tuple[Tensor]:
    return (grad / aten.exp2(result1),)


# --- logarithms of sums ---------------------------------------------------------------


def _log_of_sum(a: Array, b: Array, power: Callable[[Array], Array], scale: float) -> Array:
    """The larger of two plus ``scale * log1p(power(-distance))`` (NumPy's own: 17 to 3 ms)."""
    high: Array = np.maximum(a, b)
    distance = np.abs(a - b)
    np.negative(distance, out=distance)
    np.copyto(distance, 0, where=a == b)  # also of two infinities
    rest = elementary(np, "log1p", power(distance))
    high += rest if scale == 1.0 else rest * high.dtype.type(scale)
    return high


def logaddexp_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    if not is_complex_type(a.dtype):
        if xp is np and max(a.size, b.size) >= SMALL:
            return _log_of_sum(a, b, np.exp, 1.0)
        return xp.logaddexp(a, b)
    swap = xp.real(a) < xp.real(b)
    high, low = xp.where(swap, b, a), xp.where(swap, a, b)
    return xp.where(a == b, a + math.log(2), high + xp.log1p(xp.exp(low - high)))


logaddexp = binary("logaddexp", logaddexp_kernel, takes=FLOATING, variants=[Variant.OUT])
logaddexp.describe("The logarithm of ``exp(self) + exp(other)``, without overflow on the way.")
logaddexp.derivative(
    # By `sigmoid`, where PyTorch writes 1 + exp: its derivative is no NaN where that overflows.
    self=lambda grad, self, other: grad * conj(aten.sigmoid(self - other)),
    other=lambda grad, self, other: grad * conj(aten.sigmoid(other - self)),
)


def logaddexp2_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    if xp is np and max(a.size, b.size) >= SMALL:
        return _log_of_sum(a, b, partial(elementary, np, "exp2"), 1 / math.log(2))
    return xp.logaddexp2(a, b)


logaddexp2 = binary("logaddexp2", logaddexp2_kernel, takes=REAL_FLOATS, variants=[Variant.OUT])
logaddexp2.describe(
    "The logarithm to base 2 of ``2**self + 2**other``, without overflow on the way."
)
logaddexp2.derivative(
    self=lambda grad, self, other: grad / plus(aten.pow(2, other - self), 1),
    other=lambda grad, self, other: grad / plus(aten.pow(2, self - other), 1),
)


# --- products with logarithms ---------------------------------------------------------


def _log_product(
    name: str, function: str, names: tuple[tuple[str, str, tuple[str, ...]], ...]
) -> list[OperatorPage]:
    """Define x * log(y) or x * log1p(y), 0 where x is; the overloads differ in their arguments."""
    return [
        binary(
            name,
            lambda xp, a, b: getattr(special(xp), function)(a, b),
            overload=overload,
            arguments=arguments,
            floats=True,
            takes=REAL_FLOATS,
            variants=variants,
        )
        for overload, arguments, variants in names
    ]


_TWO, _RIGHT, _LEFT = (
    "Tensor self, Tensor other", "Tensor self, Scalar other", "Scalar self, Tensor other"
)  # fmt: skip

xlogy, xlogy_number, xlogy_of_number = _log_product(
    "xlogy",
    "xlogy",
    (
        ("Tensor", _TWO, ("xlogy_.Tensor", "OutTensor")),
        ("Scalar_Other", _RIGHT, ("xlogy_.Scalar_Other", "OutScalar_Other")),
        ("Scalar_Self", _LEFT, ("OutScalar_Self",)),
    ),
)
xlogy_of_number.node_name("XlogyBackward1")
xlogy_number.node_name("XlogyBackward2")
describe("xlogy", "The product ``self * log(other)``, which is zero where `self` is zero.")
special_xlog1py, special_xlog1py_number, special_xlog1py_of_number = _log_product(
    "special_xlog1py",
    "xlog1py",
    (
        ("", _TWO, ("out",)),
        ("other_scalar", _RIGHT, ("other_scalar_out",)),
        ("self_scalar", _LEFT, ("self_scalar_out",)),
    ),
)
special_xlog1py_of_number.node_name("SpecialXlog1PyBackward1")
special_xlog1py_number.node_name("SpecialXlog1PyBackward2")
describe(
    "special_xlog1py",
    "The product ``self * log1p(other)``, which is zero where `self` is zero.",
)


def xlogy_grad(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """The gradient of ``xlogy`` by its first operand; 0 where that is 0 and it is undefined."""
    slope: Tensor = aten.xlogy(grad, other)
    undefined = other <= 0
    return slope.masked_fill((self == 0) & undefined, 0)


def xlog1py_grad(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """The same of ``xlog1py``."""
    slope: Tensor = special_xlog1py(grad, other)
    undefined = other <= -1
    return slope.masked_fill((self == 0) & undefined, 0)


def xlogy_by_number(grad: Tensor, self: Tensor, other: float) -> Tensor:
    """The gradient of ``xlogy`` by its first operand, for a number."""
    slope: Tensor = aten.xlogy(grad, other)
    return slope if other > 0 else slope.masked_fill(self == 0, 0)


def xlog1py_by_number(grad: Tensor, self: Tensor, other: float) -> Tensor:
    """The gradient of ``xlog1py`` by its first operand, for a number."""
    slope: Tensor = special_xlog1py_number(grad, other)
    return slope if other > -1 else slope.masked_fill(self == 0, 0)


def xlog1py_by_other(grad: Tensor, self: Value, other: Tensor) -> Tensor:
    """The gradient of ``xlog1py`` by its second operand."""
    divisor = plus(other, 1)
    return (grad * self if isinstance(self, Tensor) else times(grad, self)) / divisor


xlogy.derivative(self=xlogy_grad, other=lambda grad, self, other: grad * self / other)
xlogy_number.derivative(self=xlogy_by_number)
xlogy_of_number.derivative(other=lambda grad, self, other: times(grad, self) / other)
special_xlog1py.derivative(self=xlog1py_grad, other=xlog1py_by_other)
special_xlog1py_number.derivative(self=xlog1py_by_number)
special_xlog1py_of_number.derivative(other=xlog1py_by_other)


# --- factors --------------------------------------------------------------------------

gcd = binary("gcd", lambda xp, a, b: xp.gcd(a, b), takes=_INTS)
gcd.describe("The greatest common divisors of two tensors of integers.")


def lcm_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    """The least common multiples; those of short integers wrap after the sign is taken."""
    kind = a.dtype
    if kind.kind == "i" and kind.itemsize < 4:
        a, b = a.astype(xp.int32), b.astype(xp.int32)
    return xp.abs(xp.lcm(a, b)).astype(kind)


lcm = binary("lcm", lcm_kernel, takes=_INTS)
lcm.describe("The least common multiples of two tensors of integers.")
