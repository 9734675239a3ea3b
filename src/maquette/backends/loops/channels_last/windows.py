"""Loops over windows of images and volumes whose channels are in a row: [batch, *space, channels].

A window is told by the first of its elements and their count along each of three dimensions, as in
`loops.boxes`; all channels of a place are taken in turn. Offsets are counted without a sign, and no
array is made of a run, which would take as long as its work. Largest elements are the plain path's,
with its ties; sums of some dozen elements are taken in their type, those of all in double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined

Array = npt.NDArray[Any]
Arrays = tuple[Array, Array, Array]
Triple = tuple[int, int, int]

_FEW = 64  # elements that are added in their type


@inlined
def _begin(x: Array, here: Any, count: Any, best: Array, out: Any, at: Array, place: Any) -> None:
    for c in range(count):
        best[out + c] = x[here + c]
        at[c] = place


@inlined
def _raise(x: Array, here: Any, count: Any, best: Array, out: Any, at: Array, place: Any) -> None:
    for c in range(count):
        value, found = x[here + c], best[out + c]
        larger = (value > found) | (value != value)
        best[out + c] = value if larger else found
        at[c] = place if larger else at[c]


@compiled
def _maxima(
    x: Array, firsts: Arrays, counts: Arrays, steps: Triple, best: Array, index: Array
) -> None:
    height, width, count = x.shape[2], x.shape[3], np.uint64(x.shape[4])
    flat, found, numbers = x.reshape(-1), best.reshape(-1), index.reshape(-1)
    at, out = np.empty(x.shape[4], np.int32), np.uint64(0)
    for n in range(x.shape[0]):
        image = n * x.shape[1] * height * width
        for a in range(best.shape[1]):
            for b in range(best.shape[2]):
                for c in range(best.shape[3]):
                    fresh = True
                    for i in range(counts[0][a]):
                        deep = (firsts[0][a] + i * steps[0]) * height
                        for j in range(counts[1][b]):
                            line = (deep + firsts[1][b] + j * steps[1]) * width + firsts[2][c]
                            for k in range(counts[2][c]):
                                place = np.int32(line + k * steps[2])
                                here = np.uint64(image + place) * count
                                if fresh:
                                    _begin(flat, here, count, found, out, at, place)
                                    fresh = False
                                else:
                                    _raise(flat, here, count, found, out, at, place)
                    for k in range(count):
                        numbers[out + k] = at[k]
                    out += count


@compiled
def _added_to_places(grad: Array, index: Array, out: Array) -> bool:
    """Whether all places are of a plane; those from the first that is not on are left out."""
    places, count = out.shape[1], out.shape[2]
    for n in range(grad.shape[0]):
        for p in range(grad.shape[1]):
            for c in range(count):
                place = index[n, p, c]
                if place < 0 or place >= places:
                    return False
                out[n, place, c] += grad[n, p, c]
    return True


@inlined
def _add(x: Array, here: Any, count: Any, part: Array) -> None:
    for c in range(count):
        part[c] += x[here + c]


@compiled
def _means(x: Array, firsts: Arrays, counts: Arrays, by: Arrays, out: Array) -> None:
    height, width, count = x.shape[2], x.shape[3], np.uint64(x.shape[4])
    flat, made = x.reshape(-1), out.reshape(-1)
    part, total, at = np.zeros(x.shape[4], x.dtype), np.zeros(x.shape[4]), np.uint64(0)
    for n in range(x.shape[0]):
        for a in range(out.shape[1]):
            for b in range(out.shape[2]):
                for c in range(out.shape[3]):
                    left, taken, long = firsts[2][c], 0, False
                    divisor = x.dtype.type(by[0][a] * by[1][b] * by[2][c])
                    for i in range(firsts[0][a], firsts[0][a] + counts[0][a]):
                        for j in range(firsts[1][b], firsts[1][b] + counts[1][b]):
                            line = ((n * x.shape[1] + i) * height + j) * width + left
                            for k in range(counts[2][c]):
                                _add(flat, np.uint64(line + k) * count, count, part)
                            taken += counts[2][c]
                            if taken > _FEW:
                                taken, long = 0, True
                                for k in range(count):
                                    total[k] += part[k]
                                    part[k] = 0
                    if long:
                        for k in range(count):
                            made[at + k] = (total[k] + part[k]) / divisor
                            total[k] = 0
                            part[k] = 0
                    else:
                        for k in range(count):
                            made[at + k] = part[k] / divisor
                            part[k] = 0
                    at += count


@inlined
def _give(part: Array, count: Any, out: Array, here: Any) -> None:
    for c in range(count):
        out[here + c] += part[c]


@compiled
def _shares(grad: Array, firsts: Arrays, counts: Arrays, by: Arrays, out: Array) -> None:
    height, width, count = out.shape[2], out.shape[3], np.uint64(out.shape[4])
    flat, made, at = grad.reshape(-1), out.reshape(-1), np.uint64(0)
    part = np.empty(grad.shape[4], grad.dtype)
    for n in range(grad.shape[0]):
        for a in range(grad.shape[1]):
            for b in range(grad.shape[2]):
                for c in range(grad.shape[3]):
                    left = firsts[2][c]
                    divisor = grad.dtype.type(by[0][a] * by[1][b] * by[2][c])
                    for k in range(count):
                        part[k] = flat[at + k] / divisor
                    for i in range(firsts[0][a], firsts[0][a] + counts[0][a]):
                        for j in range(firsts[1][b], firsts[1][b] + counts[1][b]):
                            line = ((n * out.shape[1] + i) * height + j) * width + left
                            for k in range(counts[2][c]):
                                here = np.uint64(line + k) * count
                                _give(part, count, made, here)
                    at += count


def maxima_last(
    x: Array, firsts: Sequence[Array], counts: Sequence[Array], steps: Sequence[int]
) -> tuple[Array, Array]:
    """The largest of each window of [batch, *space, channels], and its flat place in the space.

    For each dimension: the first elements and the counts, at least 1, of windows, and a step.
    """
    best = np.empty((len(x), *[len(c) for c in counts], x.shape[-1]), x.dtype)
    index = np.empty(best.shape, np.int64)
    each: Any = (*(1,) * (3 - len(steps)), *steps)
    windows = _of_space(firsts), _of_space(counts, 1)
    _maxima(_in_space(x), *windows, each, _in_space(best), _in_space(index))
    return best, index


def added_to_places_last(grad: Array, index: Array, space: Sequence[int]) -> Array | None:
    """Values added up at their flat places: [batch, *space, channels]; None for others' places."""
    batch, channels = grad.shape[0], grad.shape[-1]
    out = np.zeros((batch, *space, channels), grad.dtype)
    lines = (batch, -1, channels)
    done = _added_to_places(grad.reshape(lines), index.reshape(lines), out.reshape(lines))
    return out if done else None


def means_last(
    x: Array, firsts: Sequence[Array], counts: Sequence[Array], by: Sequence[Array]
) -> Array:
    """The sum of each window of [batch, *space, channels] by a divisor.

    by: for each dimension the numbers whose products are the divisors.
    """
    out = np.empty((len(x), *[len(c) for c in counts], x.shape[-1]), x.dtype)
    windows = _of_space(firsts), _of_space(counts, 1)
    _means(_in_space(x), *windows, _of_space(by, 1), _in_space(out))
    return out


def shares_last(
    grad: Array,
    firsts: Sequence[Array],
    counts: Sequence[Array],
    by: Sequence[Array],
    space: Sequence[int],
) -> Array:
    """The adjoint of `means_last` in a space."""
    out = np.zeros((len(grad), *space, grad.shape[-1]), grad.dtype)
    windows = _of_space(firsts), _of_space(counts, 1)
    _shares(_in_space(grad), *windows, _of_space(by, 1), _in_space(out))
    return out


def _in_space(x: Array) -> Array:
    """Images, or lines, as volumes."""
    return x.reshape(len(x), *(1,) * (5 - x.ndim), *x.shape[1:])


_MISSING = {0: np.zeros(1, np.int64), 1: np.ones(1, np.int64)}


def _of_space(values: Sequence[Array], missing: int = 0) -> Any:
    """Numbers of windows along up to three dimensions for three."""
    return (_MISSING[missing],) * (3 - len(values)) + tuple(values)
