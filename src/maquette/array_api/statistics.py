"""Reductions and running sums, as the array API standard has them.

What is here: the standard's statistical and utility functions. The one idea: `_axes` says which
dimensions an ``axis`` names; no axis at all leaves the elements as they are.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from maquette.api import functions as mq
from maquette.array_api.data_types import KINDS, DType
from maquette.core.dtype import bool_, int64, uint64
from maquette.tensor.tensor import Tensor

Axis = int | tuple[int, ...] | None


def _axes(x: Tensor, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest element."""
    axes = _axes(x, axis)
    return mq.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The least element."""
    axes = _axes(x, axis)
    return mq.amin(x, axes, keepdims) if axes else x.clone()


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean."""
    axes = _axes(x, axis)
    return mq.mean(x, axes, keepdims) if axes else x.clone()


def sum(
    x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """The sum; of integers in int64 or uint64."""
    axes, dtype = _axes(x, axis), dtype or _summed(x.dtype)
    return mq.sum(x, axes, keepdims, dtype=dtype) if axes else x.to(dtype, copy=True)


def prod(
    x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """The product; of integers in int64 or uint64."""
    dtype = dtype or _summed(x.dtype)
    found = x.to(dtype, copy=True)
    for one in sorted((a % x.ndim for a in _axes(x, axis)), reverse=True):
        found = mq.prod(found, one, keepdims, dtype=dtype)
    return found


def _summed(dtype: DType) -> DType:
    if dtype.is_floating_point or dtype.is_complex:
        return dtype
    return uint64 if dtype in KINDS["unsigned integer"] else int64


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance, divided by the number of elements less ``correction``."""
    axes = _axes(x, axis)
    return mq.var(x, axes, correction=correction, keepdim=keepdims) if axes else x - x


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation, divided by the number of elements less ``correction``."""
    axes = _axes(x, axis)
    return mq.std(x, axes, correction=correction, keepdim=keepdims) if axes else x - x


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element is true."""
    axes = _axes(x, axis)
    given = x.to(bool_)
    return mq.all(given, axes, keepdims) if axes else given


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true."""
    axes = _axes(x, axis)
    given = x.to(bool_)
    return mq.any(given, axes, keepdims) if axes else given


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The sums of the elements so far; with ``include_initial`` from 0."""
    return _running(mq.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The products of the elements so far; with ``include_initial`` from 1."""
    return _running(mq.cumprod, x, axis, dtype, 1 if include_initial else None)


def _running(
    scan: Callable[..., Tensor],
    x: Tensor,
    axis: int | None,
    dtype: DType | None,
    initial: int | None,
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"expected an axis for an array of {x.ndim} dimensions, got None")
        axis = 0
    found = scan(x, axis, dtype=dtype or _summed(x.dtype))
    if initial is None:
        return found
    shape = list(found.shape)
    shape[axis] = 1
    first = mq.full(shape, initial, dtype=found.dtype, device=found.device)
    return mq.cat([first, found], axis)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, ``n`` times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    whole = mq.cat(parts, axis) if builtins.any(part is not x for part in parts) else x
    return mq.diff(whole, n, axis) if n else whole
