"""Extremes: the greatest and least elements, their positions, both at once.

NaN wins everywhere. A gradient goes to the element that was chosen, or in equal parts to all that
are the extreme.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import (
    Array,
    Dims,
    axes_of,
    check_reducible,
    dims_of,
    reduced,
    reduced_shape,
)
from maquette.aten.common.batching_forms import along, over_all, rank_of, to_front
from maquette.aten.common.fresh_writes import into_fresh
from maquette.aten.common.large_arrays import taken_along
from maquette.aten.common.operators import aten
from maquette.aten.common.short_lines import first_extreme, folded
from maquette.aten.reduction.sums import CORE, REDUCTION, reduction_cost
from maquette.core.dtype import bool_, int64
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import is_true
from maquette.core.warned import warn_once
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo
from maquette.transforms.rules import BatchingForm


def check_ordered(name: str, self: TensorMeta) -> None:
    """Complex numbers have no order."""
    check_not_implemented(
        not self.dtype.is_complex,
        lambda: f"\"{name}_cpu\" not implemented for '{self.dtype.scalar_name}'",
    )


def extreme_of(
    xp: ModuleType, self: Array, axes: tuple[int, ...], keepdim: bool, name: str
) -> Array:
    """The largest ("maximum") or smallest ("minimum") elements; NaN wins."""
    x = wide(self)
    by_halves = folded(xp, name, x, axes)
    if by_halves is not None:
        return by_halves.reshape(reduced_shape(x.shape, axes, keepdim))
    extreme = x.max if name == "maximum" else x.min
    result: Array = extreme(axis=axes, keepdims=keepdim)
    return result


def share_among_ties(grad: Tensor, ties: Tensor, dim: Dims) -> Tensor:
    """The gradient in equal parts to all elements that are the extreme."""
    return grad / ties.sum(dim, True) * ties


def restored(t: Tensor, dim: Dims, keepdim: bool, shape: Shape) -> Tensor:
    """A reduced tensor viewed with the reduced dimensions of ``shape`` in place, of size 1."""
    if keepdim:
        return t
    dims = dims_of(dim, len(shape)) if shape else ()
    return t.view(tuple(1 if d in dims else n for d, n in enumerate(shape)))


def _extreme(name: str, ufunc: str) -> OperatorPage:
    """The page of amax or amin."""
    page = define(
        f"aten::{name}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        tags=CORE,
        variants=[Variant.OUT],
    )

    def shape(self: TensorMeta, dim: Dims, keepdim: bool) -> TensorMeta:
        check_ordered(name, self)
        check(
            dim != () or not is_true(self.numel == 0),
            lambda: (
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                f"Specify the reduction dim with the 'dim' argument."
            ),
        )
        check_reducible(name, self, dim)
        return reduced(self, dim, keepdim)

    def kernel(xp: ModuleType, self: Array, dim: Dims, keepdim: bool) -> Array:
        return extreme_of(xp, self, axes_of(dim, self.ndim), keepdim, ufunc)

    def grad_of(grad: Tensor, self: Tensor, dim: Dims, keepdim: bool, result: Tensor) -> Tensor:
        shape = self.meta.shape
        ties = restored(result, dim, keepdim, shape) == self
        grad = restored(grad, dim, keepdim, shape)
        return share_among_ties(grad, ties, dims_of(dim, len(shape)))

    page.shape(shape)
    page.kernel(kernel)
    page.derivative(self=grad_of)
    page.exact_out()
    page.cost(reduction_cost)
    return page


amax = _extreme("amax", "maximum")
amax.describe("The largest elements.")
amax.batching(along)
amin = _extreme("amin", "minimum")
amin.describe("The smallest elements.")
amin.batching(along)


def whole_extreme_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """The gradient in equal parts to all elements equal to the extreme (NaN to all NaN)."""
    ties = self.isnan().logical_and(result.isnan()).logical_or_(self == result)
    return ties * (grad / ties.sum())


def _whole_extreme(name: str, ufunc: str) -> OperatorPage:
    """The page of max or min over everything."""
    page = define(f"aten::{name}(Tensor self) -> Tensor", tags=REDUCTION, variants=["unary_out"])

    def shape(self: TensorMeta) -> TensorMeta:
        check_ordered(name, self)
        check(
            self.numel > 0,
            lambda: (
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                f"Specify the reduction dim with the 'dim' argument."
            ),
        )
        return self.fresh(())

    page.shape(shape)
    page.kernel(lambda xp, self: extreme_of(xp, self, tuple(range(self.ndim)), False, ufunc))
    page.derivative(self=whole_extreme_grad)
    page.cost(reduction_cost)
    return page


max_all = _whole_extreme("max", "maximum")
max_all.node_name("MaxBackward1")
max_all.batching(over_all)
max_all.describe(
    "The largest element; along `dim` with its position; or the larger of two tensors."
)
min_all = _whole_extreme("min", "minimum")
min_all.node_name("MinBackward1")
min_all.batching(over_all)
min_all.describe(
    "The smallest element; along `dim` with its position; or the smaller of two tensors."
)


def _extreme_of_two(name: str) -> OperatorPage:
    """The page of max or min of two tensors: another name of maximum and minimum."""
    page = define(f"aten::{name}.other(Tensor self, Tensor other) -> Tensor", tags=[Tag.pointwise])
    out = define(
        f"aten::{name}.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out, Tag.pointwise],
    )
    twin = f"{name}imum"
    page.composite(lambda self, other: getattr(aten, twin)(self, other))
    out.composite(lambda self, other, out: getattr(aten, twin)(self, other, out=out))
    return page


max_other = _extreme_of_two("max")
min_other = _extreme_of_two("min")


def selected_grad(grad: Tensor, dim: int, indices: Tensor, shape: Shape, keepdim: bool) -> Tensor:
    """The gradient put where the selected elements were; the rest is zero."""
    if not keepdim and shape:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return into_fresh("scatter", grad.new_zeros(shape), dim, indices, grad)


def position_of_extreme(xp: ModuleType, self: Array, axis: int | None, name: str) -> Array:
    """The index of the first extreme ("argmax", "argmin"); the first NaN where there is one."""
    x = wide(self)
    if x.dtype.kind == "b":
        x = x.view(xp.uint8)
    first = None if axis is None else first_extreme(xp, x, axis, largest=name == "argmax")
    if first is not None:
        return first
    result: Array = getattr(xp, name)(x, axis=axis)
    return result


def _extreme_along(name: str, search: str, outs: str) -> OperatorPage:
    """The page of max.dim or min.dim: values and where they are."""
    page = define(
        f"aten::{name}.dim(Tensor self, int dim, bool keepdim=False) "
        f"-> (Tensor values, Tensor indices)",
        tags=CORE,
        variants=[
            f"aten::{name}.dim_{name}(Tensor self, int dim, bool keepdim=False, *, {outs}) "
            f"-> (Tensor(a!) values, Tensor(b!) indices)"
        ],
    )

    def shape(self: TensorMeta, dim: int, keepdim: bool) -> tuple[TensorMeta, TensorMeta]:
        check_ordered(name, self)
        values = reduced(self, dim, keepdim)
        if self.ndim:
            check_reducible(name, self, dim)
        return values, values.fresh(values.shape, int64)

    def kernel(xp: ModuleType, self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
        if not self.ndim:
            return self.copy(), xp.zeros((), xp.int64)
        where = xp.expand_dims(position_of_extreme(xp, self, dim, search), dim)
        values = taken_along(xp, self, where, dim)
        return (values, where) if keepdim else (values.squeeze(dim), where.squeeze(dim))

    def grad_of(
        grads: list[Tensor], self_meta: TensorMeta, dim: int, keepdim: bool, result1: Tensor
    ) -> Tensor:
        return selected_grad(grads[0], dim, result1, self_meta.shape, keepdim)

    page.shape(shape)
    page.kernel(kernel)
    page.derivative(self=grad_of)
    page.nondifferentiable(1)
    page.exact_out()
    page.cost(reduction_cost)
    return page


max_dim = _extreme_along("max", "argmax", "Tensor(a!) max, Tensor(b!) max_values")
max_dim.batching(along)
min_dim = _extreme_along("min", "argmin", "Tensor(a!) min, Tensor(b!) min_indices")
min_dim.batching(along)


def _extreme_position(name: str) -> OperatorPage:
    """The page of argmax or argmin; without ``dim`` the position in the flattened tensor."""
    page = define(
        f"aten::{name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        tags=CORE,
        variants=[Variant.OUT],
    )

    def shape(self: TensorMeta, dim: int | None, keepdim: bool) -> TensorMeta:
        check_ordered(name, self)
        check(self.dtype is not bool_, lambda: f"{name}(): does not support bool input")
        check_reducible(name, self, dim)
        return reduced(self, dim, keepdim, int64)

    def kernel(xp: ModuleType, self: Array, dim: int | None, keepdim: bool) -> Array:
        if dim is None or not self.ndim:
            position = xp.asarray(position_of_extreme(xp, self, None, name))
            return position.reshape((1,) * self.ndim) if keepdim else position
        where = position_of_extreme(xp, self, dim, name)
        expanded: Array = xp.expand_dims(where, dim)
        return expanded if keepdim else where

    page.shape(shape)
    page.kernel(kernel)
    page.nondifferentiable()
    page.exact_out()
    page.cost(reduction_cost)
    return page


@BatchingForm
def position_batching(op: OpOverload) -> Callable[..., object]:
    """The rule of argmax or argmin."""

    def rule(
        info: VmapInfo, in_dims: Any, self: Tensor, dim: int | None = None, keepdim: bool = False
    ) -> tuple[Tensor, int]:
        x = to_front(self, in_dims[0])
        rank = rank_of(self, in_dims[0])
        if dim is None or not rank:
            found = op(x.flatten(1) if rank else x.unsqueeze(-1), 1)
            return (found.view(-1, *[1] * rank) if keepdim else found), 0
        return op(x, dim % rank + 1, keepdim), 0

    return rule


argmax = _extreme_position("argmax")
argmax.batching(position_batching)
argmax.describe("The position of the largest element: int64.")
argmin = _extreme_position("argmin")
argmin.batching(position_batching)
argmin.describe("The position of the smallest element: int64.")


aminmax = define(
    "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    tags=REDUCTION,
    variants=[
        "aten::aminmax.out(Tensor self, *, int? dim=None, bool keepdim=False, Tensor(a!) min, "
        "Tensor(b!) max) -> (Tensor(a!) min, Tensor(b!) max)"
    ],
)
aminmax.describe("The smallest and the largest elements.")


@aminmax.shape
def aminmax_shape(
    self: TensorMeta, dim: int | None, keepdim: bool
) -> tuple[TensorMeta, TensorMeta]:
    check_ordered("aminmax", self)
    check(
        dim is not None or self.numel > 0,
        lambda: (
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has "
            "no identity."
        ),
    )
    if dim is not None and self.ndim:
        check_reducible("aminmax", self, dim)
    one = reduced(self, dim, keepdim)
    return one, one


@aminmax.kernel
def aminmax_kernel(
    xp: ModuleType, self: Array, dim: int | None, keepdim: bool
) -> tuple[Array, Array]:
    axes = axes_of(dim, self.ndim)
    low = extreme_of(xp, self, axes, keepdim, "minimum")
    return low, extreme_of(xp, self, axes, keepdim, "maximum")


for _schema in (
    "aten::_aminmax(Tensor self) -> (Tensor, Tensor)",
    "aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
):

    @define(_schema).composite
    def _aminmax_composite(
        self: Tensor, dim: int | None = None, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The name of `aminmax` of old."""
        warn_once("_aminmax is deprecated as of PyTorch 1.11: use aminmax, which has its options.")
        low, high = aminmax(self, dim=dim, keepdim=keepdim)
        return low, high


@aminmax.derivative("self")
def aminmax_grad(
    grads: list[Tensor | None],
    self: Tensor,
    dim: int | None,
    keepdim: bool,
    result0: Tensor,
    result1: Tensor,
) -> tuple[Tensor | None]:
    shape = self.meta.shape
    dims = dims_of(dim, len(shape))
    found: Tensor | None = None
    for grad, extreme in zip(grads, (result0, result1), strict=True):
        if grad is not None:
            grad = restored(grad, dim, keepdim, shape)
            ties = self == restored(extreme, dim, keepdim, shape)
            share = share_among_ties(grad, ties, dims)
            found = share if found is None else found + share
    return (found,)


aminmax.exact_out()
aminmax.cost(reduction_cost)


@aminmax.batching
def aminmax_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not rank:
        return (aten.clone(x), aten.clone(x)), 0
    if dim is not None:
        return aten.aminmax(x, dim=dim % rank + 1, keepdim=keepdim), 0
    low, high = aten.aminmax(x.flatten(1), dim=1)
    shape = (-1, *[1] * rank) if keepdim else (-1,)
    return (low.view(shape), high.view(shape)), 0
