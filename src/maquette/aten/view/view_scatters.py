"""A copy of a tensor with other values where a view would look: ``select_scatter`` and others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from maquette.aten.common.array_libraries import assigned_at
from maquette.aten.common.axes import Array
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.operators import aten
from maquette.aten.view import views
from maquette.aten.view.copies import geometry_kept
from maquette.aten.view.view_gradients import on_storage, write_diagonal
from maquette.aten.view.views import (
    as_strided_shape,
    diagonal_shape,
    select_shape,
    slice_shape,
)
from maquette.core.device_rules import any_elsewhere
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.core.views import as_strided_check
from maquette.dispatch.guards import AutoDispatchBelowADInplaceOrView
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]


def _scattered(self: TensorMeta, src: TensorMeta, view: TensorMeta, what: str) -> TensorMeta:
    """The result: laid out as the tensor itself, offset and all, if ``src`` fits where it goes."""
    check(
        expect_alike(src.shape, view.shape),
        lambda: (
            f"expected src to have a size equal to the {what} of self. src size = "
            f"{list(src.shape)}, {what} size = {list(view.shape)}"
        ),
    )
    return geometry_kept(self)


select_scatter = define(
    "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    tags=[Tag.core],
)
select_scatter.describe("`self` with one slice along `dim` replaced by `src`.")


@select_scatter.shape
def select_scatter_shape(self: TensorMeta, src: TensorMeta, dim: int, index: int) -> TensorMeta:
    return _scattered(self, src, select_shape(self, dim, index), "slice")


@select_scatter.kernel
def select_scatter_kernel(xp: ModuleType, self: Array, src: Array, dim: int, index: int) -> Array:
    whole = xp.array(self, copy=True)
    at = (*[slice(None)] * (dim % whole.ndim), index)
    return assigned_at(xp, whole, at, src.astype(whole.dtype))


select_scatter.linear(
    self=lambda grad, src_meta, dim, index: grad.select_scatter(
        zeros_beside(grad, src_meta.shape), dim, index
    ),
    src=lambda grad, dim, index: grad.select(dim, index),
)


def _writable(self: Tensor, src: Tensor) -> Tensor:
    """A copy of ``self`` that has the batches of both."""
    made = aten.empty_like(self + aten.zeros_like(src.flatten()[:1].sum()).to(self.dtype))
    return made.copy_(self)


select_scatter.real_derivative()
select_scatter.scatters_into(views.select)


@select_scatter.batching_decomposition
def select_scatter_batching(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    made = _writable(self, src)
    made.select(dim, index).copy_(src)
    return made


slice_scatter = define(
    "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor",
    tags=[Tag.core, Tag.view_copy],
)
slice_scatter.describe("`self` with slices along `dim` replaced by `src`.")


@slice_scatter.shape
def slice_scatter_shape(
    self: TensorMeta,
    src: TensorMeta,
    dim: int,
    start: int | None,
    end: int | None,
    step: int,
) -> TensorMeta:
    return _scattered(self, src, slice_shape(self, dim, start, end, step), "slice")


@slice_scatter.kernel
def slice_scatter_kernel(
    xp: ModuleType,
    self: Array,
    src: Array,
    dim: int,
    start: int | None,
    end: int | None,
    step: int,
) -> Array:
    whole = xp.array(self, copy=True)
    index = [slice(None)] * whole.ndim
    index[dim] = slice(start, end, step)
    return assigned_at(xp, whole, tuple(index), src.astype(whole.dtype))


slice_scatter.linear(
    self=lambda grad, src_meta, dim, start, end, step: grad.slice_scatter(
        zeros_beside(grad, src_meta.shape), dim, start, end, step
    ),
    src=lambda grad, dim, start, end, step: aten.slice(grad, dim, start, end, step),
)


slice_scatter.real_derivative()
slice_scatter.scatters_into(views.slice)


@slice_scatter.batching_decomposition
def slice_scatter_batching(
    self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    made = _writable(self, src)
    aten.slice.Tensor(made, dim, start, end, step).copy_(src)
    return made


diagonal_scatter = define(
    "aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) "
    "-> Tensor"
)
diagonal_scatter.describe("`self` with a diagonal replaced by `src`.")


@diagonal_scatter.shape
def diagonal_scatter_shape(
    self: TensorMeta, src: TensorMeta, offset: int, dim1: int, dim2: int
) -> TensorMeta:
    return _scattered(self, src, diagonal_shape(self, offset, dim1, dim2), "slice")


@diagonal_scatter.kernel
def diagonal_scatter_kernel(
    xp: ModuleType, self: Array, src: Array, offset: int, dim1: int, dim2: int
) -> Array:
    whole = xp.array(self, copy=True)
    if src.size:
        whole = write_diagonal(xp, whole, src.astype(whole.dtype), offset, dim1, dim2)
    return whole


diagonal_scatter.linear(
    self=lambda grad, src_meta, offset, dim1, dim2: grad.diagonal_scatter(
        zeros_beside(grad, src_meta.shape), offset, dim1, dim2
    ),
    src=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2),
)


diagonal_scatter.scatters_into(views.diagonal)


@diagonal_scatter.batching_decomposition
def diagonal_scatter_batching(
    self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int
) -> Tensor:
    made = _writable(self, src)
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


for _page in (slice_scatter, diagonal_scatter):
    # The source is written into a copy of self, wherever it is (F56).
    _page.any_device(when=lambda self, src, *rest: any_elsewhere((self, src)))

as_strided_scatter = define(
    "aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, "
    "SymInt? storage_offset=None) -> Tensor"
)
as_strided_scatter.describe(
    "`self` with the elements that `as_strided` would see replaced by `src`."
)


@as_strided_scatter.explicit
def as_strided_scatter_explicit(
    self: Tensor, src: Tensor, size: Ints, stride: Ints, storage_offset: int | None
) -> Tensor:
    meta = self.meta
    offset = meta.offset if storage_offset is None else storage_offset
    as_strided_check(size, stride, offset, meta.itemsize, self._storage.nbytes())
    view = as_strided_shape(meta, size, stride, storage_offset)
    _scattered(meta, src.meta, view, "slice")
    # Without the guard the result would count as a view of the clone.
    with AutoDispatchBelowADInplaceOrView():
        whole = self.as_strided((self._storage.nbytes() // meta.itemsize,), (1,), 0).clone()
        whole.as_strided(size, stride, offset).copy_(src)
        result = whole.as_strided(meta.shape, meta.strides, meta.offset)
    assert isinstance(result, Tensor)
    return result


@as_strided_scatter.derivative("self", "src")
def as_strided_scatter_grad(
    grad: Tensor,
    self_meta: TensorMeta,
    size: Ints,
    stride: Ints,
    storage_offset: int | None,
    needs: list[bool],
) -> tuple[object, object]:
    """The gradient by both tensors: what arrives at the elements that were written.

    ``self`` is given it too, as by PyTorch 2.13, though no overwritten element reaches the result;
    the elements that do reach it get none. Use ``slice_scatter`` or ``index_put`` to differentiate.
    """
    offset = self_meta.offset if storage_offset is None else storage_offset
    flat, first = on_storage(grad, self_meta, size, stride, offset)
    part = flat.as_strided(size, stride, offset - first)
    whole = None
    if needs[0]:
        nothing = flat.new_zeros(flat.meta.shape)
        placed = as_strided_scatter(nothing, part, size, stride, offset - first)
        assert isinstance(placed, Tensor)
        whole = placed.as_strided(self_meta.shape, self_meta.strides, self_meta.offset - first)
    return whole, part


as_strided_scatter.scatters_into(views.as_strided)


@as_strided_scatter.batching_decomposition
def as_strided_scatter_batching(
    self: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    made = _writable(self, src)
    made.as_strided(size, stride, storage_offset).copy_(src)
    return made
