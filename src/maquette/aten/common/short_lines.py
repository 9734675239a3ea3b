"""Reductions of many short lines: by functions of whole arrays, a few for all lines at once.

NumPy calls its inner loop for each line (40 ns; the largest of 25,000 lines of 4 float32: 0.9 to
0.06 ms). Here lines are halved, neighbour with neighbour, while their length is even, and then
taken a column at a time. Only what may be taken in any order is reduced so: extremes and truth.
"""

from __future__ import annotations

from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.large_arrays import SMALL, Array, loops_of_floats, rows_along

_SHORT = 64  # elements from which a line of its own is as good
_LONG = 512  # up to which a compiled loop is faster (rows of 100: 0.54 to 0.18 ms)
_EXTREMES = ("maximum", "minimum")
_BESIDE = 256  # lines from which NumPy's comparing of rows is as good
_FEW = 8  # elements of a line that are compared one after another to find a position


def folded(xp: ModuleType, name: str, x: Array, axes: tuple[int, ...]) -> Array | None:
    """A function of two arrays by which short lines along axes are reduced; the axes are gone.

    None where the lines are long, few or scattered in memory, or of another library.
    """
    if xp is not np or x.size < SMALL or not axes or len(axes) == x.ndim:
        return None
    rows = rows_along(x, axes)
    if rows is None:
        return _folded_across(getattr(np, name), x, axes)
    loops = loops_of_floats(xp, x) if _FEW < rows.shape[-1] <= _LONG and name in _EXTREMES else None
    if loops is not None:
        lines = rows.reshape(-1, rows.shape[-1])
        extremes: Array = loops.row_extremes(lines, largest=name == "maximum")
        return extremes.reshape(rows.shape[:-1])
    if not 1 < rows.shape[-1] <= _SHORT:
        return None
    ufunc, flat, size = getattr(np, name), rows.reshape(-1), rows.shape[-1]
    while size % 2 == 0:
        flat, size = ufunc(flat[::2], flat[1::2]), size // 2
    columns = flat.reshape(-1, size)
    found = columns[:, 0]
    for j in range(1, size):
        found = ufunc(found, columns[:, j])
    return found.reshape(rows.shape[:-1])


def _folded_across(ufunc: np.ufunc, x: Array, axes: tuple[int, ...]) -> Array | None:
    """`folded` for lines whose elements lie as far apart as there are lines, a few, side by side.

    Halves of the lines are compared at once (``amax`` of [8, 32, 28, 28], channels last, over the
    places: 0.19 to 0.05 ms).
    """
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    by_memory = x.transpose(order)
    places = sorted(order.index(axis) for axis in axes)
    end = places[-1] + 1
    side_by_side = prod(by_memory.shape[end:])
    if not by_memory.flags.c_contiguous or places != list(range(places[0], end)):
        return None
    size = prod(by_memory.shape[places[0] : end])
    if not 1 < side_by_side <= _BESIDE or size < 2:
        return None
    lines = by_memory.reshape(-1, size, side_by_side)
    while size > 1:
        half = size // 2
        found = ufunc(lines[:, :half], lines[:, half : 2 * half])
        if size % 2:
            ufunc(found[:, 0], lines[:, -1], out=found[:, 0])
        lines, size = found, half
    kept = [axis for axis in order if axis not in axes]
    result = lines.reshape([x.shape[axis] for axis in kept])
    return result.transpose(np.argsort(kept))


def first_extreme(xp: ModuleType, x: Array, axis: int, *, largest: bool) -> Array | None:
    """Where the first extreme of each short line along an axis is; of NaN the first one.

    None where the lines are long or few, or of another library.
    """
    size = x.shape[axis]
    if xp is not np or x.size < SMALL or not 1 < size <= _FEW or x.dtype.kind not in "fiu":
        return None
    lines = np.moveaxis(x, axis, 0)
    best, where = lines[0], np.zeros(lines.shape[1:], np.int64)
    for j in range(1, size):
        line = lines[j]
        better = ~(line <= best if largest else line >= best)
        if x.dtype.kind == "f":
            better &= best == best  # nothing comes before NaN
        np.copyto(where, j, where=better)
        best = (np.maximum if largest else np.minimum)(best, line)
    return where
