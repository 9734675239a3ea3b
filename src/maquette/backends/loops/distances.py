"""Distances of all pairs of rows, with their gradients.

They are summed in any order, and differ from the plain ones by a few ulps.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined, reordered

Array = npt.NDArray[Any]

_ORDERS = {0: 0, 1: 1, 2: 2, inf: 3}

# --- distances of one pair of rows ---------------------------------------------------------


@reordered
def _count(a: Array, b: Array) -> Any:
    total = 0
    for i in range(a.size):
        total += 1 if a[i] - b[i] != 0 else 0
    return total


@reordered
def _steps(a: Array, b: Array) -> Any:
    total = a.dtype.type(0)
    for i in range(a.size):
        total += abs(a[i] - b[i])
    return total


@reordered
def _length(a: Array, b: Array) -> Any:
    total = a.dtype.type(0)
    for i in range(a.size):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return np.sqrt(total)


@compiled
def _farther(value: Any, column: Array, out: Array) -> None:
    for j in range(out.size):
        size = abs(value - column[j])
        out[j] = size if (size > out[j]) | (size != size) else out[j]  # NaN stays


@compiled
def _distances(order: int, a: Array, rows: Array, columns: Array, first: int, out: Array) -> None:
    """From one row to each of several, which columns have from a first element on."""
    if order == 0:
        for j in range(out.size):
            out[j] = _count(a, rows[j])
    elif order == 1:
        for j in range(out.size):
            out[j] = _steps(a, rows[j])
    elif order == 2:
        for j in range(out.size):
            out[j] = _length(a, rows[j])
    else:
        out[:] = 0
        for i in range(a.size):
            _farther(a[i], columns[i][first:], out)


@compiled
def _pull(order: int, a: Array, b: Array, slope: Any, most: Any, of_a: Array) -> None:
    zero, one = a.dtype.type(0), a.dtype.type(1)
    if order == 1:
        for i in range(a.size):
            d = a[i] - b[i]
            of_a[i] += slope if d > 0 else (-slope if d < 0 else d * slope)
    elif order == 2:
        for i in range(a.size):
            of_a[i] += (a[i] - b[i]) * slope
    else:
        for i in range(a.size):
            d = a[i] - b[i]
            sign = one if d > 0 else (-one if d < 0 else d)
            of_a[i] += sign * (one if abs(d) == most else zero) * slope


# --- distances of all pairs ----------------------------------------------------------------


@compiled
def _between(order: int, x: Array, y: Array, columns: Array, out: Array) -> None:
    for n in range(x.shape[0]):
        for i in range(x.shape[1]):
            _distances(order, x[n, i], y[n], columns[n], 0, out[n, i])


@compiled
def _within(order: int, x: Array, columns: Array, out: Array) -> None:
    k = 0
    for i in range(x.shape[0]):
        end = k + x.shape[0] - 1 - i
        _distances(order, x[i], x[i + 1 :], columns, i + 1, out[k:end])
        k = end


@compiled
def _pulls_between(order: int, x: Array, y: Array, slopes: Array, most: Array, out: Array) -> None:
    for n in range(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(y.shape[1]):
                _pull(order, x[n, i], y[n, j], slopes[n, i, j], most[n, i, j], out[n, i])


@inlined
def _pull_both(order: int, a: Array, b: Array, slope: Any, most: Any, of_a: Any, of_b: Any) -> None:
    """`_pull` on both of a pair: it is the same, in opposite directions."""
    zero, one = a.dtype.type(0), a.dtype.type(1)
    if order == 1:
        for i in range(a.size):
            d = a[i] - b[i]
            pull = slope if d > 0 else (-slope if d < 0 else d * slope)
            of_a[i] += pull
            of_b[i] -= pull
    elif order == 2:
        for i in range(a.size):
            pull = (a[i] - b[i]) * slope
            of_a[i] += pull
            of_b[i] -= pull
    else:
        for i in range(a.size):
            d = a[i] - b[i]
            sign = one if d > 0 else (-one if d < 0 else d)
            pull = sign * (one if abs(d) == most else zero) * slope
            of_a[i] += pull
            of_b[i] -= pull


@compiled
def _pulls_within(order: int, x: Array, slopes: Array, most: Array, out: Array) -> None:
    k = 0
    of_row = np.empty(x.shape[1], x.dtype)  # apart from `out`, whose rows the others are
    for i in range(x.shape[0]):
        row = x[i].copy()
        of_row[:] = out[i]
        for j in range(i + 1, x.shape[0]):
            _pull_both(order, row, x[j], slopes[k], most[k], of_row, out[j])
            k += 1
        out[i] = of_row


def _columns(x: Array, p: float) -> Array:
    """Rows as columns where they are read so."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)) if p == inf else x


def distances_between(x: Array, y: Array, p: float) -> Array:
    """The distances of order 0, 1, 2 or infinity of rows: [b, n, k] and [b, m, k] to [b, n, m]."""
    out = np.empty((x.shape[0], x.shape[1], y.shape[1]), x.dtype)
    rows = np.ascontiguousarray(y)
    _between(_ORDERS[p], np.ascontiguousarray(x), rows, _columns(rows, p), out)
    return out


def pair_distances(x: Array, p: float) -> Array:
    """The distances of order 0, 1, 2 or infinity of all pairs of rows, of the upper triangle."""
    out = np.empty(x.shape[0] * (x.shape[0] - 1) // 2, x.dtype)
    rows = np.ascontiguousarray(x)
    _within(_ORDERS[p], rows, _columns(rows, p), out)
    return out


def pulls_between(x: Array, y: Array, slopes: Array, p: float, distances: Array) -> Array:
    """What all pairs' slopes add to the rows ``x``.

    Of order 2 a slope is the factor of the difference, of order 1 of its signs, of order infinity
    of the sign of the largest.
    """
    out = np.zeros(x.shape, x.dtype)
    rows, others = np.ascontiguousarray(x), np.ascontiguousarray(y)
    pulls = np.ascontiguousarray(slopes), np.ascontiguousarray(distances)
    _pulls_between(_ORDERS[p], rows, others, *pulls, out)
    return out


def pair_gradients(x: Array, slopes: Array, p: float, distances: Array) -> Array:
    """`pulls_between` of all pairs of rows, on both of each."""
    out = np.zeros(x.shape, x.dtype)
    pulls = np.ascontiguousarray(slopes), np.ascontiguousarray(distances)
    _pulls_within(_ORDERS[p], np.ascontiguousarray(x), *pulls, out)
    return out
