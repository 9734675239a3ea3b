"""Inverses of views: a tensor with new values where a view of it looks, made without mutation.

Functionalization asks for them when a view has been written to. A view of every element is undone
by another view; one of some elements puts them into a copy of the rest (`view_scatters.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from maquette.aten.common.operators import aten
from maquette.aten.elementwise import complex_parts, conjugate
from maquette.aten.view import splitting, views
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import dtype, int8
from maquette.core.layout import contiguous_format
from maquette.core.views import view_strides
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]
Views: TypeAlias = Any
"""aten's operators as functions; views may be copies."""


# --- of every element -------------------------------------------------------------------------


@views.alias.inverse
def alias_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return views.alias(new)


@views.lift_fresh.inverse
@views.detach.inverse
def detach_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return new


@conjugate._conj.inverse
def _conj_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return views._conj(new)


@conjugate._neg_view.inverse
def _neg_view_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return views._neg_view(new)


@complex_parts.view_as_real.inverse
def view_as_real_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return views.view_as_complex(_dense(new))


@complex_parts.view_as_complex.inverse
def view_as_complex_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return views.view_as_real(new)


@views.view.inverse
def view_inverse(views: Views, value: Tensor, new: Tensor, part: int, size: Ints) -> object:
    return _viewed(views, new, value.meta.shape)


@views._reshape_alias.inverse
def _reshape_alias_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, size: Ints, stride: Ints
) -> object:
    return _viewed(views, new, value.meta.shape)


@views.view_as_dtype.inverse
def view_as_dtype_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, dtype: dtype
) -> object:
    return views.view(_dense(new), value.meta.dtype)


@views.permute.inverse
def permute_inverse(views: Views, value: Tensor, new: Tensor, part: int, dims: Ints) -> object:
    rank = len(dims)
    back = [0] * rank
    for at, dim in enumerate(dims):
        back[wrap_dim(dim, rank)] = at
    return views.permute(new, back)


@views.transpose.inverse
def transpose_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, dim0: int, dim1: int
) -> object:
    return views.transpose(new, dim0, dim1)


@views.t.inverse
def t_inverse(views: Views, value: Tensor, new: Tensor, part: int) -> object:
    return views.t(new)


@views.unsqueeze.inverse
def unsqueeze_inverse(views: Views, value: Tensor, new: Tensor, part: int, dim: int) -> object:
    return views.squeeze(new, wrap_dim(dim, value.meta.ndim + 1))


@views.squeeze.inverse
@views.squeeze_dim.inverse
@views.squeeze_dims.inverse
def squeeze_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, dim: int | Ints | None = None
) -> object:
    shape = value.meta.shape
    dims: Sequence[int] = range(len(shape))
    if dim is not None:
        asked = (dim,) if isinstance(dim, int) else dim
        dims = sorted(wrap_dim(d, max(len(shape), 1)) for d in asked)
    for d in dims:
        if shape and shape[d] == 1:
            new = views.unsqueeze(new, d)
    return new


def _viewed(views: Views, new: Tensor, shape: Ints) -> object:
    """``new`` in another shape: a copy where its strides allow no view."""
    if view_strides(new.meta.shape, new.meta.strides, shape) is None:
        new = aten.clone(new, memory_format=contiguous_format)
    return views.view(new, shape)


def _dense(new: Tensor) -> Tensor:
    """``new``, contiguous."""
    if new.meta.is_contiguous:
        return new
    made: Tensor = aten.clone(new, memory_format=contiguous_format)
    return made


# --- of some elements ---------------------------------------------------------------------------


@views.select.inverse
def select_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, dim: int, index: int
) -> object:
    return aten.select_scatter(value, new, dim, index)


@views.slice.inverse
def slice_inverse(
    views: Views,
    value: Tensor,
    new: Tensor,
    part: int,
    dim: int,
    start: int | None,
    end: int | None,
    step: int,
) -> object:
    return aten.slice_scatter(value, new, dim, start, end, step)


@splitting.split.inverse
def split_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, split_size: int, dim: int
) -> object:
    start = part * split_size
    return _slice_written(value, new, dim, start, start + split_size)


@splitting.split_with_sizes.inverse
def split_with_sizes_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, split_sizes: Ints, dim: int
) -> object:
    start = sum(split_sizes[:part])
    return _slice_written(value, new, dim, start, start + split_sizes[part])


def _slice_written(value: Tensor, new: Tensor, dim: int, start: int, end: int) -> object:
    dim = wrap_dim(dim, value.meta.ndim)
    return aten.slice_scatter(value, new, dim, start, min(end, value.meta.shape[dim]), 1)


@splitting.unbind.inverse
def unbind_inverse(views: Views, value: Tensor, new: Tensor, part: int, dim: int) -> object:
    return aten.select_scatter(value, new, dim, part)


@views.diagonal.inverse
def diagonal_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, offset: int, dim1: int, dim2: int
) -> object:
    return aten.diagonal_scatter(value, new, offset, dim1, dim2)


@views.as_strided.inverse
def as_strided_inverse(
    views: Views,
    value: Tensor,
    new: Tensor,
    part: int,
    size: Ints,
    stride: Ints,
    storage_offset: int | None,
) -> object:
    return aten.as_strided_scatter(value, new, size, stride, storage_offset)


@views.unfold.inverse
def unfold_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, dimension: int, size: int, step: int
) -> object:
    seen = _unfold_shape(value.meta, dimension, size, step)
    return aten.as_strided_scatter(value, new, seen.shape, seen.strides, seen.offset)


_unfold_shape: Any = views.unfold.facts.shape


@views.expand.inverse
def expand_inverse(
    views: Views, value: Tensor, new: Tensor, part: int, size: Ints, implicit: bool
) -> object:
    """Of the copies of an element the one that is new: a write to one is a write to all."""
    shape = value.meta.shape
    for _ in range(new.meta.ndim - len(shape)):
        new = aten.select(_new_of_copies(value, new, 0), 0, 0)
    for dim, length in enumerate(shape):
        if new.meta.shape[dim] != length:
            new = _new_of_copies(value, new, dim)
    return new


def _new_of_copies(value: Tensor, new: Tensor, dim: int) -> Tensor:
    """The first copy along ``dim`` that is not the old value, one long; the first of equal ones."""
    if new.meta.shape[dim] == 0:
        return aten.expand(value, (*new.meta.shape[:dim], 1, *new.meta.shape[dim + 1 :]))
    both_nan = aten.logical_and(aten.ne(new, new), aten.ne(value, value))
    changed = aten.logical_and(aten.ne(new, value), aten.logical_not(both_nan))
    first = aten.argmax(aten._to_copy(changed, dtype=int8), dim, True)
    return aten.gather(new, dim, first)
