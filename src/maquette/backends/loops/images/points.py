"""Values of images and volumes at points, with their gradients: the plain path's steps and bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled

Array = npt.NDArray[Any]

# --- samples -------------------------------------------------------------------------------

# Planes are [batch, channels, places], points [batch, channels, points]; index, inside and weight
# are of one corner of every point: [batch, points].


@compiled
def _add_corner(plane: Array, index: Array, inside: Array, weight: Array, out: Array) -> None:
    zero = plane.dtype.type(0)
    for p in range(index.size):
        out[p] += (plane[index[p]] if inside[p] else zero) * weight[p]


@compiled
def add_to_planes(grad: Array, index: Array, weight: Array, planes: Array) -> None:
    """Add gradients at points to the gradient of a corner's places."""
    for n in range(planes.shape[0]):
        for c in range(planes.shape[1]):
            plane, of_points = planes[n, c], grad[n, c]
            for p in range(of_points.size):
                plane[index[n, p]] += of_points[p] * weight[n, p]


@compiled
def add_pulls(planes: Array, grad: Array, index: Array, inside: Array, out: Array) -> None:
    """Add, over channels, the products of gradients and a corner's values, to [batch, points]."""
    for n in range(planes.shape[0]):
        for c in range(planes.shape[1]):
            _add_corner(planes[n, c], index[n], inside[n], grad[n, c], out[n])


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
def _cubic(t: Any, n: Array, weight: Array, slope: Array) -> None:
    one, two = n[1], n[2]
    a, a2, a3, a4, a5, a8 = n[5], n[6], n[7], n[8], n[9], n[10]
    for i in range(4):
        x = t + one if i == 0 else t if i == 1 else one - t if i == 2 else two - t
        if i == 1 or i == 2:
            weight[i] = (a2 * x - a3) * x * x + one
            bent = (n[3] * a2 * x - two * a3) * x
        else:
            weight[i] = ((a * x - a5) * x + a8) * x - a4
            bent = (n[3] * a * x - two * a5) * x + a8
        slope[i] = bent if i < 2 else -bent


@compiled
def _corners(
    points: Array,
    sizes: tuple[int, ...],
    speeds: Array,
    bounds: Array,
    mode: int,
    padding: int,
    align: bool,
    n: Array,
    choice: Array,
    index: Array,
    inside: Array,
    weight: Array,
    slopes: Array,
) -> None:
    """choice: of each corner, which of the places along each dimension it is."""
    dims, each = points.shape[1], 2 if mode == 0 else 1 if mode == 1 else 4
    at, within = np.zeros((dims, each), np.int64), np.zeros((dims, each), np.bool_)
    factor, bent = np.zeros((dims, each), points.dtype), np.zeros((dims, each), points.dtype)
    place = np.zeros(each, points.dtype)
    for p in range(points.shape[0]):
        for d in range(dims):
            x, speed = (points[p, dims - 1 - d] + n[1]) * speeds[d], speeds[d]
            if not align:
                x = x - n[4]
            if mode == 2:
                left = np.floor(x)
                _cubic(x - left, n, factor[d], bent[d])
                for i in range(4):
                    moved = left + (n[i - 1] if i else -n[1])
                    place[i] = np.rint(_kept_inside(moved, sizes[d], padding, bounds[d], n)[0])
                    bent[d, i] = bent[d, i] * speed
            else:
                x, slope = _kept_inside(x, sizes[d], padding, bounds[d], n)
                slope = slope * speed
                if mode == 1:
                    place[0], factor[d, 0], bent[d, 0] = np.rint(x), n[1], n[0]
                else:
                    left = np.floor(x)
                    share = x - left
                    place[0], factor[d, 0], bent[d, 0] = left, n[1] - share, -slope
                    place[1], factor[d, 1], bent[d, 1] = left + n[1], share, slope
            for i in range(each):
                within[d, i] = (place[i] >= n[0]) & (place[i] < sizes[d])
                at[d, i] = np.int64(place[i]) if within[d, i] else 0
        for k in range(index.shape[0]):
            where, whole, all_in = 0, n[1], True
            for d in range(dims):
                i = choice[k, d]
                where = where * sizes[d] + at[d, i]
                all_in &= within[d, i]
                whole *= factor[d, i]
            index[k, p], inside[k, p] = where if all_in else 0, all_in
            weight[k, p] = whole if all_in else n[0]
            for d in range(slopes.shape[0]):
                pulled = n[1]
                for e in range(dims):
                    i = choice[k, e]
                    pulled *= bent[e, i] if e == d else factor[e, i]
                slopes[d, k, p] = pulled if all_in else n[0]


_BEND = -0.75  # of the cubic


@lru_cache(maxsize=64)
def _tables(
    sizes: tuple[int, ...], mode: int, align: bool, kind: str
) -> tuple[Array, Array, Array, Array]:
    """Of the dimensions: elements a unit, bounds of reflection and the last place; beside them the
    numbers of the formulas, and which of its places along each dimension every corner is.
    """
    a, each = _BEND, {0: 2, 1: 1, 2: 4}[mode]
    speeds = [(n - 1) / 2 if align else n / 2 for n in sizes]
    bounds = [(0, n - 1, n - 1) if align else (-0.5, n, n - 1) for n in sizes]
    numbers = [0, 1, 2, 3, 0.5, a, a + 2, a + 3, 4 * a, 5 * a, 8 * a]
    choice = np.indices((each,) * len(sizes)).reshape(len(sizes), -1).T.copy()
    return np.array(speeds, kind), np.array(bounds, kind), np.array(numbers, kind), choice


def corners(
    grid: Array, sizes: tuple[int, ...], mode: int, padding: int, align: bool, *, bends: bool
) -> tuple[Array, Array, Array, Array]:
    """Of all points [batch, points, dims], and each of their corners, [corners, batch, points]:

    where it is, whether it is inside, its weight, and, if ``bends``, that one's slopes by the
    dimensions of space.
    """
    kind, dims, lines = grid.dtype.type, len(sizes), grid.shape[0] * grid.shape[1]
    speeds, bounds, constants, choice = _tables(sizes, mode, align, grid.dtype.char)
    count, bent = len(choice), dims if bends else 0
    index, inside = np.empty((count, lines), np.int64), np.empty((count, lines), np.bool_)
    weight, slopes = np.empty((count, lines), kind), np.empty((bent, count, lines), kind)
    points = np.ascontiguousarray(grid).reshape(lines, dims)
    _corners(
        points, sizes, speeds, bounds, mode, padding, align, constants,
        choice, index, inside, weight, slopes,
    )  # fmt: skip
    shape = (count, *grid.shape[:2])
    at, within, share = (a.reshape(shape) for a in (index, inside, weight))
    return at, within, share, slopes.reshape(bent, *shape)


@compiled
def _samples(planes: Array, index: Array, inside: Array, weight: Array, out: Array) -> None:
    for n in range(planes.shape[0]):
        for c in range(planes.shape[1]):
            for k in range(index.shape[0]):
                _add_corner(planes[n, c], index[k, n], inside[k, n], weight[k, n], out[n, c])


def sampled(planes: Array, index: Array, inside: Array, weight: Array) -> Array:
    """The values of planes [batch, channels, places] at points, from all of their corners."""
    out = np.zeros((*planes.shape[:2], index.shape[2]), planes.dtype)
    _samples(np.ascontiguousarray(planes), index, inside, weight, out)
    return out
