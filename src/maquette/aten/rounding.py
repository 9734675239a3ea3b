"""Rounding, predicates on numbers, and the parts of numbers.

All of them are flat or linear almost everywhere, so most gradients are zeros. Integers are whole
already: the rounding operators give them back.
"""

from __future__ import annotations

import math
from types import ModuleType

from maquette.aten import functions as aten
from maquette.aten.pointwise import (
    ANY,
    CORE_POINTWISE,
    POINTWISE,
    REAL_FLOATS,
    REALS,
    Array,
    Kernel,
    array_type,
    boolean,
    floating,
    real,
    same,
    unary,
)
from maquette.aten.slopes import no_slope, real_part
from maquette.core.dtype import dtype, finfo
from maquette.core.errors import check_not_implemented
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor


# --- rounding ----------------------------------------------------------------------------------


def rounding(name: str) -> OperatorPage:
    """Define an operator that rounds to whole numbers, by the namespace's function of that name."""

    def result(kind: dtype) -> dtype:
        check_not_implemented(
            not kind.is_complex, lambda: f"{name} is not supported for complex inputs"
        )
        return kind

    def kernel(xp: ModuleType, self: Array) -> Array:
        return self.copy() if self.dtype.kind in "iu" else getattr(xp, name)(self)

    op = unary(
        name, kernel, result=result, takes=REALS, label=f"{name}_vml", tags=CORE_POINTWISE
    )
    op.derivative(self=no_slope)
    return op


ceil = rounding("ceil")
floor = rounding("floor")
trunc = rounding("trunc")
round = rounding("round")


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
round_decimals.derivative(self=no_slope)

frac = unary(
    "frac", lambda xp, self: self - xp.trunc(self), result=same, takes=REAL_FLOATS
)
frac.derivative(self=lambda grad: grad)


# --- predicates -----------------------------------------------------------------------------------


def predicate(
    name: str, function: Kernel, *, takes: frozenset[int] = ANY, tags: tuple[Tag, ...] = POINTWISE,
    variants: tuple[str, ...] = (),
) -> OperatorPage:
    """Define an operator that asks a question of each number."""
    return unary(name, function, result=boolean, takes=takes, tags=tags, variants=variants)


def _never(xp: ModuleType, self: Array) -> Array:
    return xp.zeros(self.shape, bool)


def _of_floats(function: Kernel) -> Kernel:
    """A question that no integer answers with yes."""
    return lambda xp, self: function(xp, self) if self.dtype.kind in "fc" else _never(xp, self)


isnan = predicate("isnan", _of_floats(lambda xp, self: xp.isnan(self)), tags=CORE_POINTWISE)
isinf = predicate("isinf", _of_floats(lambda xp, self: xp.isinf(self)), tags=CORE_POINTWISE)
ORDERED = frozenset((0, 1, 2))
isposinf = predicate(
    "isposinf", _of_floats(lambda xp, self: self == math.inf), takes=ORDERED, variants=("out",)
)
isneginf = predicate(
    "isneginf", _of_floats(lambda xp, self: self == -math.inf), takes=ORDERED, variants=("out",)
)


def signbit_kernel(xp: ModuleType, self: Array) -> Array:
    return _never(xp, self) if self.dtype.kind in "bu" else xp.signbit(self)


signbit = predicate("signbit", signbit_kernel, takes=ORDERED, variants=("out",))

isfinite = define("aten::isfinite(Tensor self) -> Tensor", tags=POINTWISE)


@isfinite.composite
def isfinite_by_parts(self: Tensor) -> Tensor:
    if self.dtype.category < 2:
        return aten.ones_like(self, dtype=boolean(self.dtype))
    return (self == self).logical_and(aten.abs(self) != math.inf)


isreal = define("aten::isreal(Tensor self) -> Tensor")


@isreal.composite
def isreal_by_parts(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return aten.ones_like(self, dtype=boolean(self.dtype))
    return aten.imag(self) == 0


# --- parts and repairs ------------------------------------------------------------------------------


def angle_kernel(xp: ModuleType, self: Array) -> Array:
    if self.dtype.kind == "c":
        return xp.angle(self)
    return xp.where(xp.isnan(self), self, xp.where(self < 0, math.pi, 0).astype(self.dtype))


def angle_result(kind: dtype) -> dtype:
    """The angle's type: the parts' of a complex type, the default dtype for integers."""
    return real(floating(kind))


def angle_grad(grad: Tensor, self: Tensor) -> Tensor:
    """The gradient of ``angle``: flat on real numbers, 0 at 0."""
    if not self.meta.dtype.is_complex:
        return no_slope(grad)
    z, size = self, aten.abs(self)
    turned = aten.complex(-aten.imag(z), aten.real(z)) / (size * size)
    return (turned * grad).masked_fill(size == 0, 0)


angle = unary("angle", angle_kernel, result=angle_result, variants=("out",))
angle.derivative(self=angle_grad)


def nan_to_num_kernel(
    xp: ModuleType, self: Array, nan: float | None, posinf: float | None, neginf: float | None
) -> Array:
    if self.dtype.kind not in "fc":
        return self.copy()
    if self.dtype.kind == "c":
        parts = [
            nan_to_num_kernel(xp, part, nan, posinf, neginf)
            for part in (xp.real(self), xp.imag(self))
        ]
        return parts[0] + 1j * parts[1]
    limits = finfo(array_type(self))
    repaired = xp.where(xp.isnan(self), 0.0 if nan is None else nan, self)
    repaired = xp.where(self == math.inf, limits.max if posinf is None else posinf, repaired)
    return xp.where(self == -math.inf, limits.min if neginf is None else neginf, repaired)


nan_to_num = unary(
    "nan_to_num",
    nan_to_num_kernel,
    result=same,
    more="float? nan=None, float? posinf=None, float? neginf=None",
)
nan_to_num.derivative(
    self=lambda grad, self: grad * aten.isfinite(self)
)
