"""Choosing elements by a condition: `where`, `masked_fill`.

A condition is bool (uint8 passes for `where`) and never part of type promotion.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from maquette.aten.common.array_libraries import assigned_where
from maquette.aten.common.batching_forms import rank_of, to_front
from maquette.aten.common.formula_helpers import zero_for
from maquette.aten.common.large_arrays import chosen
from maquette.aten.common.memory_overlap import warn_of_expanded
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    CORE_POINTWISE,
    POINTWISE,
    Array,
    Number,
    cast,
    common_type,
    elementwise_cost,
    promoted,
)
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import bool_, dtype, number_dtype, promote_types, uint8
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

# --- where ----------------------------------------------------------------------------

where = define(
    "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    tags=CORE_POINTWISE,
    variants=["self_out"],
).exact_out()
where.describe(
    "`self` where `condition` is true, else `other`; of a condition alone, the positions "
    "where it is true."
)


@where.shape
def where_shape(condition: TensorMeta, self: TensorMeta, other: TensorMeta) -> TensorMeta:
    check(
        condition.dtype is bool_ or condition.dtype is uint8,
        lambda: (
            f"where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.scalar_name}"
        ),
    )
    common = common_type((self, other))
    # The condition keeps its own layout: for the rule of strides it is no copy.
    operands = (condition.with_dtype(common), self, other)
    return elementwise(operands, common, common_dtype=common, op_name="where")


@where.kernel
def where_kernel(xp: ModuleType, condition: Array, self: Array, other: Array) -> Array:
    if self.dtype is not other.dtype:
        self, other = promoted(xp, self, other)
    return chosen(xp, condition, self, other)


where.cost(elementwise_cost(1))
where.linear(
    self=lambda grad, condition: where(condition, grad, zero_for(grad)),
    other=lambda grad, condition: where(condition, zero_for(grad), grad),
)


def _number_like(value: Number, common: dtype, condition: Tensor) -> Tensor:
    return aten.scalar_tensor(value, dtype=common, device=condition.device)


def _as(t: Tensor, common: dtype) -> Tensor:
    """The tensor in the dtype that the number asks for; modes see that, as in PyTorch."""
    return t if t.dtype is common else t.to(common)


where_scalar_self = define(
    "aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"
)


@where_scalar_self.composite
def where_scalar_self_by_parts(condition: Tensor, self: Number, other: Tensor) -> Tensor:
    common = common_type((self, other.meta))
    return where(condition, _number_like(self, common, condition), _as(other, common))


where_scalar_other = define(
    "aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"
)


@where_scalar_other.composite
def where_scalar_other_by_parts(condition: Tensor, self: Tensor, other: Number) -> Tensor:
    common = common_type((self.meta, other))
    number = _number_like(other, common, condition)
    return where(condition, _as(self, common), number)


where_scalars = define("aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor")


@where_scalars.composite
def where_scalars_by_parts(condition: Tensor, self: Number, other: Number) -> Tensor:
    common = promote_types(number_dtype(self), number_dtype(other))
    second = _number_like(other, common, condition)  # made first, as modes see in PyTorch
    return where(condition, _number_like(self, common, condition), second)


where_indices = define("aten::where(Tensor condition) -> Tensor[]")
where_indices.composite(lambda condition: aten.nonzero_numpy(condition))


# --- masked_fill ----------------------------------------------------------------------


def check_mask(mask: TensorMeta) -> None:
    """Refuse a mask that is not bool."""
    check(
        mask.dtype is bool_,
        lambda: (
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        ),
    )


def masked_fill_shape(self: TensorMeta, mask: TensorMeta, value: Number) -> TensorMeta:
    check_mask(mask)
    check_fits(value, self.dtype)
    return self.fresh(broadcast_shapes(self.shape, mask.shape))


def masked_fill_tensor_shape(self: TensorMeta, mask: TensorMeta, value: TensorMeta) -> TensorMeta:
    check_mask(mask)
    check(
        value.ndim == 0,
        lambda: (
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        ),
    )
    check(
        value.dtype.category < 3 or self.dtype.is_complex,
        lambda: (
            f"masked_fill: a value of {value.dtype} cannot be written to {self}; take its real "
            f"part first"
        ),
    )
    return self.fresh(broadcast_shapes(self.shape, mask.shape))


def masked_fill_kernel(xp: ModuleType, self: Array, mask: Array, value: Array) -> Array:
    return chosen(xp, xp.logical_not(mask), self, cast(xp, value, self.dtype))


def _masked_fill(value: str, overload: str, tags: tuple[Tag, ...]) -> OperatorPage:
    op = define(
        f"aten::masked_fill.{overload}(Tensor self, Tensor mask, {value} value) -> Tensor",
        tags=tags,
    )
    written = define(
        f"aten::masked_fill_.{overload}(Tensor(a!) self, Tensor mask, {value} value) -> Tensor(a!)",
        tags=[Tag.inplace],
    )
    rule: Callable[..., TensorMeta] = (
        masked_fill_shape if value == "Scalar" else masked_fill_tensor_shape
    )

    def inplace_shape(self: TensorMeta, mask: TensorMeta, value: object) -> TensorMeta:
        result = rule(self, mask, value)
        check_written(self, result)
        return self

    op.shape(rule)
    op.kernel(masked_fill_kernel)
    written.shape(inplace_shape)
    written.kernel(masked_fill_in_place)
    for page in (op, written):
        page.cost(elementwise_cost(1))
        page.linear(
            self=lambda grad, mask: grad.masked_fill(mask, 0),
            value=_filled_gradient if value == "Tensor" else None,
        )
    return op


def _filled_gradient(grad: Tensor, mask: Tensor) -> object:
    return where(mask, grad, zero_for(grad)).sum()


def masked_fill_in_place(xp: ModuleType, self: Array, mask: Array, value: Array) -> None:
    """Write ``value`` where the mask holds."""
    warn_of_expanded("masked_fill_", self)
    assigned_where(xp, self, mask, cast(xp, value, self.dtype))


def check_written(target: TensorMeta, result: TensorMeta) -> None:
    """Refuse to stretch a tensor that is written to."""
    check(
        target.shape == result.shape,
        lambda: (
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        ),
    )


masked_fill = _masked_fill("Scalar", "Scalar", POINTWISE)
masked_fill.describe(
    "`self` with `value`, a number or a 0-dim tensor, where `mask` is true; both broadcast."
)
masked_fill_tensor = _masked_fill("Tensor", "Tensor", ())
masked_fill_tensor.node_name("MaskedFillBackward1")


@masked_fill_tensor.batching
def masked_fill_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, mask: Tensor, value: Tensor
) -> Any:
    rank = max(rank_of(self, in_dims[0]), rank_of(mask, in_dims[1]))
    x, chosen = to_front(self, in_dims[0], rank=rank), to_front(mask, in_dims[1], rank=rank)
    filled = to_front(value, in_dims[2], rank=rank if in_dims[2] is not None else 0).to(x.dtype)
    return aten.where(chosen, filled, x), 0
