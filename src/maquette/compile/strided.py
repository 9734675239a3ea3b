"""Views of arrays that have no strides: what a strided meta shows of a row-major array.

A view operator's shape rule says sizes, strides and offset. On arrays without strides that is a
reshape, a slice, a transposition and a broadcast, found from the strides; what cannot be said so
(a step that does not divide a row) is gathered.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides

Plan = tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]]


def viewed(xp: Any, array: Any, meta: TensorMeta) -> Any:
    """The array of a meta over the row-major memory of ``array``."""
    shape = tuple(meta.shape)
    if 0 in shape:
        return xp.zeros(shape, array.dtype)
    size = prod(array.shape)
    row_major = tuple(meta.strides) == contiguous_strides(shape)
    if row_major and meta.offset == 0 and prod(shape) == size:
        return array if tuple(array.shape) == shape else array.reshape(shape)
    plan = _planned(size, shape, tuple(meta.strides), int(meta.offset))
    if plan is None:
        return array.reshape(-1)[_positions(shape, tuple(meta.strides), int(meta.offset))]
    stored, bounds, order, placed = plan
    array = array.reshape(stored)
    if any((start, stop) != (0, n) for (start, stop), n in zip(bounds, stored)):
        array = array[tuple([slice(start, stop) for start, stop in bounds])]
    if order != tuple(range(len(order))):
        array = array.transpose(order)
    array = array.reshape(placed)
    return array if placed == shape else xp.broadcast_to(array, shape)


@functools.lru_cache(4096)
def _planned(
    size: int, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Plan | None:
    """The stored shape, bounds of its slice, order of its dims, shape before broadcasting."""
    dims = [d for d, n in enumerate(shape) if n > 1 and strides[d] != 0]
    dims.sort(key=lambda d: -strides[d])
    stored: list[int] = []
    bounds: list[tuple[int, int]] = []
    above, rest = size, offset
    for d in dims:
        step = strides[d]
        if step < 0 or above % step:
            return None
        length = above // step
        start, rest = divmod(rest, step)
        if start + shape[d] > length:
            return None
        stored.append(length)
        bounds.append((start, start + shape[d]))
        above = step
    stored.append(above)  # what is within the smallest step: one element of it
    if rest >= above:
        return None
    bounds.append((rest, rest + 1))
    order = (*[dims.index(d) for d in sorted(dims)], len(dims))
    placed = tuple([n if n > 1 and strides[d] != 0 else 1 for d, n in enumerate(shape)])
    return tuple(stored), tuple(bounds), order, placed


def _positions(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """Where each element is in row-major memory."""
    found = np.full(shape, offset)
    for d, (n, step) in enumerate(zip(shape, strides)):
        found += (np.arange(n) * step).reshape([n if i == d else 1 for i in range(len(shape))])
    return found


__all__ = ["viewed"]
