"""Rounding, predicates on numbers, and the parts of numbers.

All of them are flat or linear almost everywhere, so most gradients are zeros. Integers are whole
already: the rounding operators give them back.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from maquette.aten.common.formula_helpers import conj, no_slope, times, zero_for
from maquette.aten.common.half_steps import of_arrays
from maquette.aten.common.large_arrays import loops_of_floats
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    ANY,
    BOTH,
    CORE_POINTWISE,
    ORDERED,
    POINTWISE,
    REAL_FLOATS,
    REALS,
    Array,
    Kernel,
    Takes,
    array_type,
    boolean,
    computed,
    elementwise_cost,
    floating,
    real,
    same,
    unary,
    widened,
)
from maquette.aten.elementwise.where import where
from maquette.core.dtype import dtype, finfo
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, set_shape_rule
from maquette.library.variants import out_shape
from maquette.tensor.tensor import Tensor

# --- rounding -------------------------------------------------------------------------


def rounding(name: str) -> OperatorPage:
    """Define an operator that rounds to whole numbers, by the namespace's function of that name."""

    def result(kind: dtype) -> dtype:
        check_not_implemented(
            not kind.is_complex, lambda: f"{name} is not supported for complex inputs"
        )
        return kind

    def kernel(xp: ModuleType, self: Array) -> Array:
        return self.copy() if self.dtype.kind in "iu" else getattr(xp, name)(self)

    op = unary(name, kernel, result=result, takes=REALS, label=f"{name}_vml", tags=CORE_POINTWISE)
    op.flat("self")
    op.facts.on_halves = of_arrays("rint" if name == "round" else name)
    return op.exact_out()


ceil = rounding("ceil")
ceil.describe("The smallest whole number that is no less than each element.")
floor = rounding("floor")
floor.describe("The largest whole number that is no more than each element.")
trunc = rounding("trunc")
trunc.describe("The whole part of each element, towards zero.")
round = rounding("round")
round.describe("Each element rounded to `decimals` digits, halves to the even neighbour.")


def round_decimals_kernel(xp: ModuleType, self: Array, decimals: int) -> Array:
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return xp.round(self / scale) * scale
    return xp.round(self * scale) / scale


round_decimals = unary(
    "round",
    round_decimals_kernel,
    overload="decimals",
    more="*, int decimals",
    result=same,
    takes=REAL_FLOATS,
)
round_decimals.node_name("RoundBackward1")
round_decimals.flat("self")
round_decimals.exact_out()


def frac_kernel(xp: ModuleType, self: Array) -> Array:
    whole = xp.trunc(self)
    if xp is np and self.ndim:
        return np.subtract(self, whole, out=whole)
    return self - whole


frac = unary("frac", frac_kernel, result=same, takes=REAL_FLOATS)
frac.describe("The part of each element after the point, with its sign.")
frac.derivative(self=lambda grad: grad)
frac.facts.on_halves = of_arrays("frac")
frac.exact_out()


# --- predicates -----------------------------------------------------------------------


def predicate(
    name: str,
    function: Kernel,
    *,
    takes: Takes = ANY,
    tags: tuple[Tag, ...] = POINTWISE,
    variants: tuple[Variant, ...] = (),
) -> OperatorPage:
    """Define an operator that asks a question of each number."""
    return unary(name, function, result=boolean, takes=takes, tags=tags, variants=variants)


_OUT = (Variant.OUT,)


def _never(xp: ModuleType, self: Array) -> Array:
    return xp.zeros(self.shape, bool)


def _of_floats(function: Kernel) -> Kernel:
    """A question that no integer answers with yes."""
    return lambda xp, self: function(xp, self) if self.dtype.kind in "fc" else _never(xp, self)


isnan = predicate("isnan", _of_floats(lambda xp, self: xp.isnan(self)), tags=CORE_POINTWISE)
isnan.describe("Where elements are NaN: a bool tensor.")
isinf = predicate("isinf", _of_floats(lambda xp, self: xp.isinf(self)), tags=CORE_POINTWISE)
isinf.describe("Where elements are infinite: a bool tensor.")


def _infinite(name: str, infinity: float) -> OperatorPage:
    """Define the question whether a number is one of the infinities."""

    def result(kind: dtype) -> dtype:
        check(not kind.is_complex, lambda: f"{name} does not support complex inputs.")
        return boolean(kind)

    return unary(name, _of_floats(lambda xp, self: self == infinity), result=result, variants=_OUT)


isposinf = _infinite("isposinf", math.inf)
isposinf.describe("Where elements are plus infinity: a bool tensor.")
isneginf = _infinite("isneginf", -math.inf)
isneginf.describe("Where elements are minus infinity: a bool tensor.")


def signbit_kernel(xp: ModuleType, self: Array) -> Array:
    return _never(xp, self) if self.dtype.kind in "bu" else xp.signbit(self)


signbit = predicate("signbit", signbit_kernel, takes=ORDERED, variants=_OUT)
signbit.describe("Where the sign bit is set, as of -0.0: a bool tensor.")


def _check_boolean(name: str, result: dtype, target: dtype) -> None:
    check(
        target is result,
        lambda: f"{name} does not support non-boolean outputs, got out of dtype {target}",
    )


for _page in (isposinf, isneginf, signbit):
    (_out,) = _page.variants
    set_shape_rule(_out, out_shape(_page.op, 1, _check_boolean))

isfinite = define("aten::isfinite(Tensor self) -> Tensor", tags=POINTWISE)
isfinite.describe("Where elements are neither infinite nor NaN: a bool tensor.")


@isfinite.composite
def isfinite_by_parts(self: Tensor) -> Tensor:
    if self.dtype.category < 2:
        return aten.ones_like(self, dtype=boolean(self.dtype))
    finite = aten.abs(self) != math.inf
    return (self == self) * finite


isreal = define("aten::isreal(Tensor self) -> Tensor")
isreal.describe("Where the imaginary part is zero: a bool tensor.")


@isreal.composite
def isreal_by_parts(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return aten.ones_like(self, dtype=boolean(self.dtype))
    return aten.imag(self) == 0


# --- parts and repairs ----------------------------------------------------------------


angle = define("aten::angle(Tensor self) -> Tensor", tags=POINTWISE, variants=[Variant.OUT])
angle.describe("The angle of each complex number in radians; of negative real numbers pi.")


@angle.shape
def angle_shape(self: TensorMeta) -> TensorMeta:
    kind = real(floating(self.dtype))
    if self.dtype.is_complex:
        return self.fresh(self.shape, kind)
    return elementwise([self], kind, common_dtype=kind)


@angle.kernel
def angle_kernel(xp: ModuleType, self: Array) -> Array:
    x = widened(self)
    if x.dtype.kind == "c":
        return xp.angle(x)
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.angle(x)
        return found
    return xp.where(xp.isnan(x), x, xp.where(x < 0, math.pi, 0))


def angle_grad(grad: Tensor, self: Tensor) -> Tensor:
    """The gradient of ``angle``: flat on real numbers, 0 at 0."""
    if not self.meta.dtype.is_complex:
        return no_slope(grad)
    square = aten.abs(self).pow(2)
    turned = times(grad * self / square, 1j)
    zero = zero_for(turned)
    return where(self == 0, zero, turned)


angle.cost(elementwise_cost(1))
angle.derivative(self=angle_grad)


@angle.tangent
def angle_tangent(self: Tensor, self_t: Tensor) -> Tensor:
    """Flat on real numbers; elsewhere what of the tangent turns ``self``, over its magnitude."""
    if not self.meta.dtype.is_complex:
        return no_slope(self_t)
    size = aten.abs(self)
    turning = aten.imag(conj(self) * self_t) / (size * size)
    return turning.masked_fill(size == 0, 0)


nan_to_num = define(
    "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) "
    "-> Tensor",
    tags=POINTWISE,
    variants=BOTH,
)
nan_to_num.describe(
    "NaN and infinities replaced by `nan`, `posinf` and `neginf`, by default 0 and the extremes."
)


@nan_to_num.shape
def nan_to_num_shape(self: TensorMeta, *replacements: float | None) -> TensorMeta:
    return elementwise([self], self.dtype)


@nan_to_num.kernel
def nan_to_num_kernel(
    xp: ModuleType, self: Array, nan: float | None, posinf: float | None, neginf: float | None
) -> Array:
    kind = array_type(self)
    if kind.category < 2:
        return self.copy()
    if kind.is_complex:
        real, imag = (
            nan_to_num_kernel(xp, part, nan, posinf, neginf)
            for part in (xp.real(self), xp.imag(self))
        )
        return real + 1j * imag
    limits, x = finfo(kind), computed(self)
    number = 0.0 if nan is None else nan
    most = limits.max if posinf is None else posinf
    least = limits.min if neginf is None else neginf
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.nan_to_num(x, number, most, least)
        return found
    repaired = xp.where(xp.isnan(x), number, x)
    return xp.where(x == -math.inf, least, xp.where(x == math.inf, most, repaired))


nan_to_num.exact_out()
nan_to_num.cost(elementwise_cost(1))
nan_to_num.holomorphic(self=lambda grad, self: grad * aten.isfinite(self))
nan_to_num.real_derivative()
