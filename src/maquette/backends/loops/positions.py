"""Loops over positions: taken from rows, added up where they repeat, running extremes, drawn.

All give the plain path's bits: sums are taken in the order in which the values stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled

Array = npt.NDArray[Any]

# --- positions in rows -----------------------------------------------------------------------


@compiled
def _take(rows: Array, index: Array, out: Array) -> None:
    for r in range(index.shape[0]):
        for c in range(index.shape[1]):
            out[r, c] = rows[r, index[r, c]]


def taken_from_rows(array: Array, index: Array) -> Array:
    """``array[..., index]`` row by row; positions from 0, all of them within the rows."""
    out = np.empty(index.shape, array.dtype)
    width = index.shape[-1]
    _take(array.reshape(-1, array.shape[-1]), index.reshape(-1, width), out.reshape(-1, width))
    return out


@compiled
def _add_in_rows(rows: Array, index: Array, values: Array) -> None:
    for r in range(index.shape[0]):
        for c in range(index.shape[1]):
            rows[r, index[r, c]] += values[r, c]


def add_to_rows(target: Array, index: Array, values: Array) -> None:
    """Add values at positions of the rows of ``target``, which is row-major; as many rows."""
    width = index.shape[-1]
    _add_in_rows(
        target.reshape(-1, target.shape[-1]), index.reshape(-1, width), values.reshape(-1, width)
    )


@compiled
def _added(row: Array, values: Array) -> None:
    for i in range(row.size):
        row[i] += values[i]


@compiled
def _add_rows(target: Array, rows: Array, values: Array) -> None:
    for i in range(rows.size):
        _added(target[rows[i]], values[i])


def add_rows(target: Array, rows: Array, values: Array) -> None:
    """Add rows of values to rows of a row-major matrix; positions from 0, all within it."""
    _add_rows(target, rows, values)


# --- running extremes ------------------------------------------------------------------------


@compiled
def _running_largest(x: Array, values: Array, places: Array) -> None:
    for o in range(x.shape[0]):
        for i in range(x.shape[2]):
            best, at = x[o, 0, i], 0
            for s in range(x.shape[1]):
                v = x[o, s, i]
                if v >= best or v != v:
                    best, at = v, s
                values[o, s, i] = best
                places[o, s, i] = at


@compiled
def _running_smallest(x: Array, values: Array, places: Array) -> None:
    for o in range(x.shape[0]):
        for i in range(x.shape[2]):
            best, at = x[o, 0, i], 0
            for s in range(x.shape[1]):
                v = x[o, s, i]
                if v <= best or v != v:
                    best, at = v, s
                values[o, s, i] = best
                places[o, s, i] = at


def running_extreme(x: Array, axis: int, *, largest: bool) -> tuple[Array, Array]:
    """The largest, or smallest, elements so far along an axis, and where each stands last."""
    values, places = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    outer = int(np.prod(x.shape[:axis]))
    lines = (outer, x.shape[axis], x.size // max(1, outer * x.shape[axis]))
    loop = _running_largest if largest else _running_smallest
    loop(x.reshape(lines), values.reshape(lines), places.reshape(lines))
    return values, places


# --- positions drawn by weights --------------------------------------------------------------


@compiled
def _drawn_positions(weights: Array, uniform: Array, out: Array) -> None:
    size = weights.shape[1]
    sums = np.empty(size, np.float32)
    for r in range(weights.shape[0]):
        total = np.float32(0)
        for i in range(size):
            total += weights[r, i]
            sums[i] = total
        for s in range(uniform.shape[1]):
            low, high = 0, size
            while low < high:
                middle = (low + high) >> 1
                if np.float64(sums[middle] / total) < uniform[r, s]:
                    low = middle + 1
                else:
                    high = middle
            out[r, s] = low


def drawn_positions(weights: Array, uniform: Array) -> Array:
    """Where uniform numbers [rows, draws] fall among the summed weights [rows, positions]."""
    out = np.empty(uniform.shape, np.int64)
    _drawn_positions(weights, uniform, out)
    return out
