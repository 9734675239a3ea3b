"""Sliding windows over arrays: the arithmetic that convolution, pooling and unfolding share.

An array is (batch, channels, *space). Windows are a strided view, (batch, channels, *window,
*places); its adjoint, `fold`, adds windows back to where they came from, one matrix of places for
each element of the window. Nothing here knows tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import ModuleType

from maquette.aten.common.accumulation import Array, Index, Number
from maquette.aten.common.array_libraries import added_to, assigned_at, byte_strides
from maquette.tensor.backend import backend_for

Ints = Sequence[int]


def expanded(values: Ints, dims: int) -> tuple[int, ...]:
    """One value for each of `dims` dimensions: a single one stands for all."""
    return tuple(values) * dims if len(values) == 1 else tuple(values)


def reach(size: int, dilation: int) -> int:
    """The extent of a window of `size` elements, `dilation` apart."""
    return dilation * (size - 1) + 1


def padded(xp: ModuleType, x: Array, before: Ints, after: Ints, value: Number = 0) -> Array:
    """The array with `value` around its space; negative amounts crop."""
    if not any(before) and not any(after):
        return x
    dims = len(before)
    shape = (*x.shape[:-dims], *(b + n + a for b, n, a in zip(before, x.shape[-dims:], after)))
    result: Array = xp.full(shape, value, x.dtype)
    inner, source = [slice(None)] * (x.ndim - dims), [slice(None)] * (x.ndim - dims)
    for b, n, a in zip(before, x.shape[-dims:], after):
        inner.append(slice(max(b, 0), max(b, 0) + n + min(b, 0) + min(a, 0)))
        source.append(slice(max(-b, 0), n + min(a, 0)))
    return assigned_at(xp, result, tuple(inner), x[tuple(source)])


def windows(
    xp: ModuleType, x: Array, size: Ints, stride: Ints, dilation: Ints, places: Ints
) -> Array:
    """A view (*leading, *window, *places) of an array that is padded already."""
    dims = len(size)
    known = byte_strides(x)
    steps = known[-dims:]
    shape = (*x.shape[:-dims], *size, *places)
    strides = (
        *known[:-dims],
        *(s * d for s, d in zip(steps, dilation)),
        *(s * t for s, t in zip(steps, stride)),
    )
    return backend_for(xp).windows(x, shape, strides)


def steps(at: Ints, stride: Ints, dilation: Ints, places: Ints) -> tuple[slice, ...]:
    """Where one element of the window lies in every place: a slice for each dimension."""
    return tuple(
        slice(i * d, i * d + s * (n - 1) + 1, s) for i, d, s, n in zip(at, dilation, stride, places)
    )


def fold(xp: ModuleType, columns: Array, space: Ints, stride: Ints, dilation: Ints) -> Array:
    """The adjoint of `windows`: (*leading, *window, *places) added up into (*leading, *space)."""
    dims = len(space)
    size, places = columns.shape[-2 * dims : -dims], columns.shape[-dims:]
    result: Array = xp.zeros((*columns.shape[: -2 * dims], *space), columns.dtype)
    for at in product(*map(range, size)):
        where: Index = (..., *steps(at, stride, dilation, places))
        source: Index = (..., *at, *([slice(None)] * dims))
        if all(places):
            result = added_to(xp, result, where, columns[source])
    return result


def cropped(x: Array, before: Ints, space: Ints) -> Array:
    """The part of (*leading, *space) that begins at `before`."""
    index: Index = (..., *[slice(b, b + n) for b, n in zip(before, space)])
    return x[index]
