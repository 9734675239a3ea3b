"""Loops over boxes: windows of up to three dimensions that begin and end where they like.

A window is told by the first of its elements and their count in each dimension, for each place, and
maybe for each plane; its elements lie ``steps`` apart. Largest elements are the plain path's, with
its ties: the first of equal values, the last NaN. Means are of sums in double precision; the plain
path takes a mean of means, and differs by a few ulps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined

Array = npt.NDArray[Any]
Arrays = tuple[Array, Array, Array]
Triple = tuple[int, int, int]


@inlined
def _first(firsts: Array, plane: int, place: int) -> Any:
    """Where a window of a plane begins; windows of one row are all planes'."""
    return firsts[plane if firsts.shape[0] > 1 else 0, place]


@inlined
def _any_larger(plane: Array, here: Any, step: Any, found: Any) -> Any:
    """Whether one of four elements is larger than what was found, or NaN."""
    two = step + step
    first = (plane[here] <= found) & (plane[here + step] <= found)
    return not (first & (plane[here + two] <= found) & (plane[here + two + step] <= found))


@inlined
def _larger(plane: Array, here: Any, found: Any, at: Any) -> tuple[Any, Any]:
    value = plane[here]
    larger = (value > found) | (value != value)
    return (value if larger else found), (here if larger else at)


@compiled
def _maxima(
    x: Array, firsts: Arrays, counts: Arrays, steps: Triple, best: Array, index: Array
) -> None:
    height, width, step = x.shape[2], x.shape[3], np.uint64(steps[2])
    for p in range(x.shape[0]):
        plane = x[p].reshape(-1)
        for a in range(best.shape[1]):
            deep = _first(firsts[0], p, a) * height
            for b in range(best.shape[2]):
                high = (deep + _first(firsts[1], p, b)) * width
                for c in range(best.shape[3]):
                    corner = high + _first(firsts[2], p, c)
                    found, at = plane[corner], np.uint64(corner)
                    for i in range(counts[0][a]):
                        for j in range(counts[1][b]):
                            line = (i * steps[0] * height + j * steps[1]) * width
                            here = np.uint64(corner + line)  # has no sign to be looked at
                            rest = counts[2][c]
                            while rest >= 4:  # few of a long line are larger than all before
                                if _any_larger(plane, here, step, found):
                                    for _ in range(4):
                                        found, at = _larger(plane, here, found, at)
                                        here += step
                                else:
                                    here += np.uint64(4) * step
                                rest -= 4
                            for _ in range(rest):
                                found, at = _larger(plane, here, found, at)
                                here += step
                    best[p, a, b, c], index[p, a, b, c] = found, at


def box_maxima(
    x: Array, firsts: Sequence[Array], counts: Sequence[Array], steps: Sequence[int]
) -> tuple[Array, Array]:
    """The largest of each window of planes [planes, *space], and its flat place in the plane.

    For each dimension: the first elements [planes or 1, places], the counts [places], a step.
    """
    best = np.empty((len(x), *[len(c) for c in counts]), x.dtype)
    index = np.empty(best.shape, np.int64)
    each: Any = (*(1,) * (3 - len(steps)), *steps)
    windows = _of_space(firsts, counts)
    _maxima(_in_space(x), *windows, each, _in_space(best), _in_space(index))
    return best, index


@compiled
def _means(x: Array, firsts: Arrays, counts: Arrays, out: Array) -> None:
    for p in range(x.shape[0]):
        for a in range(out.shape[1]):
            for b in range(out.shape[2]):
                for c in range(out.shape[3]):
                    left, wide, total = firsts[2][0, c], counts[2][c], 0.0
                    for i in range(firsts[0][0, a], firsts[0][0, a] + counts[0][a]):
                        for j in range(firsts[1][0, b], firsts[1][0, b] + counts[1][b]):
                            row = x[p, i, j, left : left + wide]
                            for k in range(row.size):
                                total += row[k]
                    out[p, a, b, c] = total / (counts[0][a] * counts[1][b] * wide)


@compiled
def _shares(grad: Array, firsts: Arrays, counts: Arrays, out: Array) -> None:
    for p in range(grad.shape[0]):
        for a in range(grad.shape[1]):
            for b in range(grad.shape[2]):
                for c in range(grad.shape[3]):
                    left, wide = firsts[2][0, c], counts[2][c]
                    share = grad[p, a, b, c] / (counts[0][a] * counts[1][b] * wide)
                    for i in range(firsts[0][0, a], firsts[0][0, a] + counts[0][a]):
                        for j in range(firsts[1][0, b], firsts[1][0, b] + counts[1][b]):
                            row = out[p, i, j, left : left + wide]
                            for k in range(row.size):
                                row[k] += share


def box_means(x: Array, firsts: Sequence[Array], counts: Sequence[Array]) -> Array:
    """The mean of each window of planes [planes, *space]."""
    return _filled(_means, x, firsts, counts, [len(c) for c in counts])


def box_shares(
    grad: Array, firsts: Sequence[Array], counts: Sequence[Array], space: Sequence[int]
) -> Array:
    """The adjoint of `box_means` in planes of a shape."""
    return _filled(_shares, grad, firsts, counts, space)


def _filled(
    loop: Callable[..., None],
    x: Array,
    firsts: Sequence[Array],
    counts: Sequence[Array],
    shape: Sequence[int],
) -> Array:
    out = np.zeros((len(x), *shape), x.dtype)
    loop(_in_space(x), *_of_space(firsts, counts), _in_space(out))
    return out


def _in_space(x: Array) -> Array:
    """Planes of up to three dimensions as planes of three."""
    return np.ascontiguousarray(x).reshape(len(x), *(1,) * (4 - x.ndim), *x.shape[1:])


def _of_space(firsts: Sequence[Array], counts: Sequence[Array]) -> tuple[Any, Any]:
    """Windows of up to three dimensions as windows of three."""
    missing = 3 - len(counts)
    first, count = (np.zeros((1, 1), np.int64),), (np.ones(1, np.int64),)
    return first * missing + tuple(firsts), count * missing + tuple(counts)
