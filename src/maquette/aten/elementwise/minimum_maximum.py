"""The larger and the smaller of operands: `maximum`, `fmax`, `clamp` and others.

NaN wins in `maximum` and `clamp`, and loses in `fmax`. Extrema along a dimension are reductions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.formula_helpers import over, zero_for
from maquette.aten.common.half_steps import between, of_arrays
from maquette.aten.common.large_arrays import clipped
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    BOTH,
    CORE_POINTWISE,
    POINTWISE,
    REALS,
    Array,
    Kernel,
    Number,
    Operand,
    check_category,
    common_type,
    elementwise_cost,
    promoted,
)
from maquette.core.dtype import dtype
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, describe
from maquette.tensor.tensor import Tensor

# --- of two ---------------------------------------------------------------------------


def check_ordered(name: str, kind: dtype) -> None:
    """Refuse complex numbers, which have no order."""
    check(not kind.is_complex, lambda: f"{name} not implemented for complex tensors.")


def extremum(name: str, kernel: Kernel, *, tags: tuple[Tag, ...] = POINTWISE) -> OperatorPage:
    """Define the larger or smaller of two tensors."""
    op = define(
        f"aten::{name}(Tensor self, Tensor other) -> Tensor", tags=tags, variants=[Variant.OUT]
    )

    @op.shape
    def extremum_shape(self: Operand, other: Operand) -> TensorMeta:
        common = common_type((self, other))
        check_ordered(name, common)
        return elementwise((self, other), common, common_dtype=common, op_name=name)

    @op.kernel
    def extremum_kernel(xp: ModuleType, self: Array, other: Array) -> Array:
        a, b = promoted(xp, self, other)
        return kernel(xp, a, b)

    op.cost(elementwise_cost(1))
    return op


def shared_grad(
    grad: Tensor, self: Tensor, other: Tensor, loses: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The gradient of an operand where it wins; where both do, half of it to each."""
    half = over(grad, 2)
    shared: Tensor = aten.where(self == other, half, grad)
    return shared.masked_fill_(loses(self, other), 0)


def chosen_grad(grad: Tensor, wins: Tensor, other: Tensor) -> Tensor:
    """The gradient of what is chosen where it wins, or the other is NaN."""
    return grad.masked_fill(wins.logical_or_(other.isnan()).logical_not_(), 0)


def left_grad(grad: Tensor, wins: Tensor, other: Tensor) -> Tensor:
    """The gradient of ``other``, which is left where the first wins, or ``other`` is NaN."""
    return grad.masked_fill(wins.logical_or_(other.isnan()), 0)


maximum = extremum("maximum", lambda xp, a, b: xp.maximum(a, b), tags=CORE_POINTWISE)
maximum.ufunc("maximum")
maximum.facts.on_halves = of_arrays("maximum")
maximum.describe("The larger of two elements; NaN, where one of them is.")
maximum.derivative(
    self=lambda grad, self, other: shared_grad(grad, self, other, operator.lt),
    other=lambda grad, self, other: shared_grad(grad, self, other, operator.gt),
)
minimum = extremum("minimum", lambda xp, a, b: xp.minimum(a, b), tags=CORE_POINTWISE)
minimum.ufunc("minimum")
minimum.facts.on_halves = of_arrays("minimum")
minimum.describe("The smaller of two elements; NaN, where one of them is.")
minimum.derivative(
    self=lambda grad, self, other: shared_grad(grad, self, other, operator.gt),
    other=lambda grad, self, other: shared_grad(grad, self, other, operator.lt),
)
fmax = extremum("fmax", lambda xp, a, b: xp.fmax(a, b))
fmax.describe("The larger of two elements; a number, where one of them is NaN.")
fmax.derivative(
    self=lambda grad, self, other: chosen_grad(grad, self >= other, other),
    other=lambda grad, self, other: left_grad(grad, self >= other, other),
)
fmin = extremum("fmin", lambda xp, a, b: xp.fmin(a, b))
fmin.describe("The smaller of two elements; a number, where one of them is NaN.")
fmin.derivative(
    self=lambda grad, self, other: chosen_grad(grad, self <= other, other),
    other=lambda grad, self, other: left_grad(grad, self <= other, other),
)


# --- clamp by numbers -----------------------------------------------------------------


def clamped_shape(self: TensorMeta, low: Number | None, high: Number | None) -> TensorMeta:
    """The result of a clamp by numbers, which are not operands."""
    bounds = [bound for bound in (low, high) if bound is not None]
    check_bounds(bounds)
    common = common_type((self, *bounds))
    check_clampable(common)
    check_category("clamp_scalar", common, REALS)
    for bound in bounds:
        check_fits(bound, common)
    return elementwise((self,), common, common_dtype=common, op_name="clamp")


def clamped_by_tensors_shape(
    self: TensorMeta, low: TensorMeta | None, high: TensorMeta | None
) -> TensorMeta:
    """The result of a clamp by tensors, which broadcast."""
    operands = (self, *[bound for bound in (low, high) if bound is not None])
    check_bounds(operands[1:])
    common = common_type(operands)
    check_clampable(common)
    if len(operands) == 3:  # with one bound it is a maximum or minimum, which booleans have
        check_category("clamp_cpu", common, REALS)
    return elementwise(operands, common, common_dtype=common, op_name="clamp")


def check_bounds(bounds: object) -> None:
    """Refuse a clamp without any bound."""
    check(bool(bounds), lambda: "torch.clamp: At least one of 'min' or 'max' must not be None")


def check_clampable(kind: dtype) -> None:
    """Refuse complex numbers, which have no order."""
    check_not_implemented(not kind.is_complex, lambda: "clamp is not supported for complex types")


def clamp_kernel(
    xp: ModuleType, self: Array, low: Array | Number | None, high: Array | Number | None
) -> Array:
    if xp is np and self.dtype.char in "fd":
        if isinstance(low, float | int | None) and isinstance(high, float | int | None):
            ends = (
                -math.inf if low is None else float(low),
                math.inf if high is None else float(high),
            )
            if ends[0] <= ends[1]:
                return np.clip(self, *ends)
    bounds = [bound for bound in (low, high) if bound is not None]
    x, *cast = promoted(xp, self, *bounds)
    least, most = None if low is None else cast[0], None if high is None else cast[-1]
    return clipped(xp, x, least, most)


def inside(self: Tensor, low: Tensor | Number | None, high: Tensor | Number | None) -> Tensor:
    """Where a value lies within its bounds, ends included; at least one is given."""
    if high is None:
        assert low is not None
        return self >= low
    if low is None:
        return self <= high
    above = self >= low
    if isinstance(low, Tensor):
        return above.logical_and(self <= high)
    return above.logical_and_(self <= high)  # of one shape: in place


def only_inside(
    grad: Tensor, self: Tensor, min: Tensor | Number | None, max: Tensor | Number | None
) -> Tensor:
    """The gradient of a clamp by its operand."""
    zero = zero_for(grad)
    return aten.where(inside(self, min, max), grad, zero)


def only_where(
    grad: Tensor, self: Tensor, bound: Tensor, holds: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The gradient of the one bound of a clamp."""
    zero = zero_for(grad)
    return aten.where(holds(self, bound), grad, zero)


clamp = define(
    "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
)
clamp.node_name("ClampBackward1")
clamp.describe(
    "Each element brought between `min` and `max`, numbers or tensors; one of them may be None."
)
clamp.shape(clamped_shape)
clamp.derivative(self=only_inside)
clamp_tensor = define(
    "aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    tags=CORE_POINTWISE,
    variants=(Variant.INPLACE, "Tensor_out"),
)
clamp_tensor.shape(clamped_by_tensors_shape)


@clamp_tensor.derivative("self", "min", "max")
def clamp_tensor_grad(
    grad: Tensor, self: Tensor, min: Tensor | None, max: Tensor | None, needs: list[bool]
) -> tuple[Tensor | None, ...]:
    """A gradient to the operand inside, to the bound that holds outside."""
    found: list[Tensor | None] = [None, None, None]
    zero = zero_for(grad) if needs[1] or needs[2] else grad
    if needs[1] and min is not None:
        holds = self < min if max is None else (self < min).logical_and(min < max)
        found[1] = aten.where(holds, grad, zero)
    if needs[2] and max is not None:
        above = self > max
        holds = above if min is None else above.logical_or(max < min)
        found[2] = aten.where(holds, grad, zero)
    if needs[0]:
        found[0] = only_inside(grad, self, min, max)
    return tuple(found)


for _page in (clamp, clamp_tensor):
    _page.kernel(clamp_kernel)
    _page.facts.on_halves = between
    _page.cost(elementwise_cost(2))


# --- clamp by one bound ---------------------------------------------------------------


def one_bound(name: str, bound: str) -> None:
    """Define ``clamp_min`` or ``clamp_max``, by a number and by a tensor."""
    low = bound == "min"

    def kernel(xp: ModuleType, self: Array, value: Array | Number) -> Array:
        return clamp_kernel(xp, self, value, None) if low else clamp_kernel(xp, self, None, value)

    by_number = define(
        f"aten::{name}(Tensor self, Scalar {bound}) -> Tensor", tags=POINTWISE, variants=BOTH
    )
    by_number.shape(
        lambda self, value: (
            clamped_shape(self, value, None) if low else clamped_shape(self, None, value)
        )
    )
    by_tensor = define(
        f"aten::{name}.Tensor(Tensor self, Tensor {bound}) -> Tensor",
        tags=POINTWISE,
        variants=(Variant.INPLACE, "Tensor_out"),
    )
    by_tensor.shape(
        lambda self, value: (
            clamped_by_tensors_shape(self, value, None)
            if low
            else clamped_by_tensors_shape(self, None, value)
        )
    )
    by_tensor.node_name("ClampMinBackward1" if low else "ClampMaxBackward1")
    for page in (by_number, by_tensor):
        page.kernel(kernel)
        page.facts.on_halves = between if low else lambda self, value: between(self, None, value)
        page.cost(elementwise_cost(1))
    if low:
        by_number.derivative(self=lambda grad, self, min: only_inside(grad, self, min, None))
        by_tensor.derivative(
            self=lambda grad, self, min: only_inside(grad, self, min, None),
            min=lambda grad, self, min: only_where(grad, self, min, operator.lt),
        )
    else:
        by_number.derivative(self=lambda grad, self, max: only_inside(grad, self, None, max))
        by_tensor.derivative(
            self=lambda grad, self, max: only_inside(grad, self, None, max),
            max=lambda grad, self, max: only_where(grad, self, max, operator.gt),
        )


one_bound("clamp_min", "min")
describe("clamp_min", "Each element, but at least `min`.")
one_bound("clamp_max", "max")
describe("clamp_max", "Each element, but at most `max`.")


# --- heaviside ------------------------------------------------------------------------


def heaviside_kernel(xp: ModuleType, self: Array, values: Array) -> Array:
    return xp.where(self == 0, values, (self > 0).astype(self.dtype))


heaviside = define(
    "aten::heaviside(Tensor self, Tensor values) -> Tensor", tags=POINTWISE, variants=BOTH
)
heaviside.describe(
    "0 where `self` is negative, 1 where it is positive, and `values` where it is zero."
)


@heaviside.shape
def heaviside_shape(self: TensorMeta, values: TensorMeta) -> TensorMeta:
    check(
        not (self.dtype.is_complex or values.dtype.is_complex),
        lambda: "heaviside is not yet implemented for complex tensors.",
    )
    check(
        self.dtype is values.dtype,
        lambda: (
            f"heaviside is not yet implemented for tensors with different dtypes, got {self} and "
            f"{values}."
        ),
    )
    return elementwise((self, values), self.dtype, op_name="heaviside")


heaviside.kernel(heaviside_kernel)
heaviside.exact_out()
heaviside.cost(elementwise_cost(1))
