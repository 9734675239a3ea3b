"""Values of images and volumes at points, with their gradients: the plain path's steps and bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled

Array = npt.NDArray[Any]
Axis = tuple[Array, Array, Array]

# --- corners of points -----------------------------------------------------------------------


@compiled
def _reflected(x: Any, low: Any, span: Any, n: Array) -> tuple[Any, Any]:
    if span == n[0]:
        return n[0], n[0]
    away = abs(x - low)
    flips = np.floor(away / span)
    rest = away - flips * span
    half = flips * n[4]
    sign = -n[1] if x < low else n[1]
    if half == np.floor(half):
        return rest + low, sign
    return span - rest + low, -sign


@compiled
def _kept_inside(x: Any, size: int, padding: int, bounds: Array, n: Array) -> tuple[Any, Any]:
    """The coordinate after padding, and its slope; bounds: of reflection, and the last place."""
    if padding == 0:
        return x, n[1]
    slope = n[1]
    if padding == 2:
        x, slope = _reflected(x, bounds[0], bounds[1], n)
    last = bounds[2]
    kept = x if x > n[0] else n[0]  # NaN lies at 0
    return (kept if kept < last else last), (slope if (x > n[0]) & (x < last) else n[0])


@compiled
def _places_linear(
    x: Array, d: int, size: int, speed: Any, padding: int, bounds: Array, n: Array, axis: Axis
) -> None:
    at, factor, bent = axis
    zero, last = n[0], x.dtype.type(size)
    for p in range(x.size):
        where, slope = _kept_inside(x[p], size, padding, bounds, n)
        slope = slope * speed
        left = np.floor(where)
        right, share = left + n[1], where - left
        first, second = (left >= zero) & (left < last), (right >= zero) & (right < last)
        at[d, 0, p] = np.int32(left) if first else np.int32(-1)
        at[d, 1, p] = np.int32(right) if second else np.int32(-1)
        factor[d, 0, p], factor[d, 1, p] = n[1] - share, share
        bent[d, 0, p], bent[d, 1, p] = -slope, slope


@compiled
def _places_nearest(
    x: Array, d: int, size: int, padding: int, bounds: Array, n: Array, axis: Axis
) -> None:
    at, factor, bent = axis
    zero, last = n[0], x.dtype.type(size)
    for p in range(x.size):
        place = np.rint(_kept_inside(x[p], size, padding, bounds, n)[0])
        at[d, 0, p] = np.int32(place) if (place >= zero) & (place < last) else np.int32(-1)
        factor[d, 0, p], bent[d, 0, p] = n[1], zero


@compiled
def _places_cubic(
    x: Array, d: int, size: int, speed: Any, padding: int, bounds: Array, n: Array, axis: Axis
) -> None:
    at, factor, bent = axis
    zero, last, two = n[0], x.dtype.type(size), n[2]
    a, a2, a3, a4, a5, a8 = n[5], n[6], n[7], n[8], n[9], n[10]
    for i in range(4):
        for p in range(x.size):
            left = np.floor(x[p])
            t = x[p] - left
            moved = left + (n[i - 1] if i else -n[1])
            place = np.rint(_kept_inside(moved, size, padding, bounds, n)[0])
            at[d, i, p] = np.int32(place) if (place >= zero) & (place < last) else np.int32(-1)
            y = t + n[1] if i == 0 else t if i == 1 else n[1] - t if i == 2 else two - t
            if i == 1 or i == 2:
                factor[d, i, p] = (a2 * y - a3) * y * y + n[1]
                slope = (n[3] * a2 * y - two * a3) * y
            else:
                factor[d, i, p] = ((a * y - a5) * y + a8) * y - a4
                slope = (n[3] * a * y - two * a5) * y + a8
            bent[d, i, p] = (slope if i < 2 else -slope) * speed


@compiled
def _corners(
    points: Array,
    sizes: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    tables: tuple[Array, Array, Array, Array],
    axis: Axis,
    found: tuple[Array, Array, Array],
) -> None:
    """Find the corners of points [count, dims]: indices and weights [corners, count], slopes.

    axis: memory for their places, weights and slopes along each dimension. found: the result;
    slopes are [dims or 0, corners, count].
    """
    speeds, bounds, n, choice = tables
    at, factor, bent = axis
    index, weight, slopes = found
    count, dims = points.shape
    x = np.empty(count, points.dtype)
    for d in range(dims):
        for p in range(count):
            x[p] = (points[p, dims - 1 - d] + n[1]) * speeds[d]
        if not align:
            for p in range(count):
                x[p] -= n[4]
        size, speed, bound = sizes[d], speeds[d], bounds[d]
        if mode == 0:
            _places_linear(x, d, size, speed, padding, bound, n, axis)
        elif mode == 1:
            _places_nearest(x, d, size, padding, bound, n, axis)
        else:
            _places_cubic(x, d, size, speed, padding, bound, n, axis)
    zero = n[0]
    for k in range(index.shape[0]):
        where, share = index[k], weight[k]
        first = choice[k, 0]
        for p in range(count):
            where[p], share[p] = at[0, first, p], factor[0, first, p]
        for d in range(1, dims):
            places, factors = at[d, choice[k, d]], factor[d, choice[k, d]]
            extent = np.int32(sizes[d])
            for p in range(count):
                inside = (where[p] >= 0) & (places[p] >= 0)
                where[p] = where[p] * extent + places[p] if inside else np.int32(-1)
                share[p] *= factors[p]
        for p in range(count):
            share[p] = share[p] if where[p] >= 0 else zero
        for d in range(slopes.shape[0]):
            pulled = slopes[d, k]
            pulled[:] = n[1]
            for e in range(dims):
                factors = bent[e, choice[k, e]] if e == d else factor[e, choice[k, e]]
                for p in range(count):
                    pulled[p] *= factors[p]
            for p in range(count):
                pulled[p] = pulled[p] if where[p] >= 0 else zero


_BEND = -0.75  # of the cubic
_EACH = {0: 2, 1: 1, 2: 4}  # places along a dimension, by mode


@lru_cache(maxsize=64)
def _tables(
    sizes: tuple[int, ...], mode: int, align: bool, kind: str
) -> tuple[Array, Array, Array, Array]:
    """Of the dimensions: elements a unit, bounds of reflection and the last place; beside them the
    numbers of the formulas, and which of its places along each dimension every corner is.
    """
    a, each = _BEND, _EACH[mode]
    speeds = [(n - 1) / 2 if align else n / 2 for n in sizes]
    bounds = [(0, n - 1, n - 1) if align else (-0.5, n, n - 1) for n in sizes]
    numbers = [0, 1, 2, 3, 0.5, a, a + 2, a + 3, 4 * a, 5 * a, 8 * a]
    choice = np.indices((each,) * len(sizes)).reshape(len(sizes), -1).T.copy()
    return np.array(speeds, kind), np.array(bounds, kind), np.array(numbers, kind), choice


@compiled
def _memory(x: Array, tables: tuple[Array, Array, Array, Array], bends: int, count: int) -> Any:
    """What `_corners` takes as ``axis`` and ``found``, for a number of points."""
    corners, dims = tables[3].shape
    each = tables[3].max() + 1
    at = np.empty((dims, each, count), np.int32)
    axis = at, np.empty(at.shape, x.dtype), np.empty(at.shape, x.dtype)
    where, share = np.empty((corners, count), np.int32), np.empty((corners, count), x.dtype)
    return axis, (where, share, np.empty((bends, corners, count), x.dtype))


# --- samples ---------------------------------------------------------------------------------


_BLOCK = 512  # points whose corners are found at once


@compiled
def _samples(
    x: Array,
    points: Array,
    sizes: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    tables: tuple[Array, Array, Array, Array],
    out: Array,
) -> None:
    """x: [batch, channels, places], out: [batch, channels, points], by blocks of points."""
    axis, found = _memory(x, tables, 0, min(_BLOCK, points.shape[1]))
    index, weight, _ = found
    zero, block = x.dtype.type(0), index.shape[1]
    for n in range(x.shape[0]):
        for first in range(0, points.shape[1], block):
            count = min(block, points.shape[1] - first)
            _corners(
                points[n, first : first + count], sizes, mode, padding, align, tables, axis, found
            )
            for c in range(x.shape[1]):
                plane, made = x[n, c], out[n, c, first : first + count]
                made[:] = zero
                for k in range(index.shape[0]):
                    where, share = index[k], weight[k]
                    for p in range(count):
                        made[p] += (plane[where[p]] if where[p] >= 0 else zero) * share[p]


@compiled
def _samples_last(
    x: Array,
    points: Array,
    sizes: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    tables: tuple[Array, Array, Array, Array],
    out: Array,
) -> None:
    """`_samples` of [batch, places, channels]."""
    axis, found = _memory(x, tables, 0, min(_BLOCK, points.shape[1]))
    index, weight, _ = found
    zero, block, channels = x.dtype.type(0), index.shape[1], np.uint64(x.shape[2])
    flat, total = x.reshape(-1), np.empty(x.shape[2], x.dtype)
    for n in range(x.shape[0]):
        for first in range(0, points.shape[1], block):
            count = min(block, points.shape[1] - first)
            _corners(
                points[n, first : first + count], sizes, mode, padding, align, tables, axis, found
            )
            for p in range(count):
                for c in range(channels):
                    total[c] = zero
                for k in range(index.shape[0]):
                    if index[k, p] >= 0:
                        share, here = weight[k, p], np.uint64(n * x.shape[1] + index[k, p])
                        here *= channels
                        for c in range(channels):
                            total[c] += flat[here + c] * share
                for c in range(channels):
                    out[n, c, first + p] = total[c]


def sampled(
    x: Array, grid: Array, mode: int, padding: int, align: bool, *, last: bool = False
) -> Array:
    """The values of [batch, channels, *space] at points [batch, points, dims], interpolated.

    last: x is [batch, *space, channels].
    """
    sizes = x.shape[1:-1] if last else x.shape[2:]
    tables = _tables(sizes, mode, align, grid.dtype.char)
    channels = x.shape[-1] if last else x.shape[1]
    out = np.empty((len(x), channels, grid.shape[1]), x.dtype)
    lines = x.reshape(len(x), -1, channels) if last else x.reshape(len(x), channels, -1)
    loop = _samples_last if last else _samples
    loop(lines, grid, sizes, mode, padding, align, tables, out)
    return out


# --- gradients -------------------------------------------------------------------------------


@compiled
def _samples_back(
    x: Array,
    grad: Array,
    points: Array,
    sizes: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    tables: tuple[Array, Array, Array, Array],
    by_x: Array,
    by_points: Array,
) -> None:
    """Add to zeros, one corner of all points after another; no ``by_x``: of no image."""
    axis, found = _memory(x, tables, 0 if mode == 1 else points.shape[2], points.shape[1])
    index, weight, slopes = found
    dims, pull = points.shape[2], np.empty(points.shape[1], x.dtype)
    for n in range(x.shape[0]):
        _corners(points[n], sizes, mode, padding, align, tables, axis, found)
        for c in range(by_x.shape[1] if by_x.shape[0] else 0):
            plane, given = by_x[n, c], grad[n, c]
            for k in range(index.shape[0]):
                where, share = index[k], weight[k]
                for p in range(given.size):
                    if where[p] >= 0:
                        plane[where[p]] += given[p] * share[p]
        if mode == 1:  # the grid has no slope, whatever the gradient is
            continue
        for k in range(index.shape[0]):
            where = index[k]
            pull[:] = 0
            for c in range(x.shape[1]):
                plane, given = x[n, c], grad[n, c]
                for p in range(given.size):
                    pull[p] += plane[where[p]] * given[p] if where[p] >= 0 else 0
            for d in range(dims):
                bent = slopes[d, k]
                for p in range(pull.size):
                    by_points[n, p, dims - 1 - d] += pull[p] * bent[p]


def sampled_back(
    x: Array, grad: Array, grid: Array, mode: int, padding: int, align: bool, *, of_x: bool
) -> tuple[Array | None, Array]:
    """The gradients of `sampled` by x, [batch, channels, *space], if asked for, and by the grid.

    grad: [batch, channels, points].
    """
    sizes = x.shape[2:]
    tables = _tables(sizes, mode, align, grid.dtype.char)
    by_x, by_grid = np.zeros(x.shape if of_x else (0, 0, 1), x.dtype), np.zeros(grid.shape, x.dtype)
    lines = (*x.shape[:2], -1)
    into = by_x.reshape(lines) if of_x else by_x
    points = (grid, sizes, mode, padding, align, tables)
    _samples_back(x.reshape(lines), grad, *points, into, by_grid)
    return by_x if of_x else None, by_grid
