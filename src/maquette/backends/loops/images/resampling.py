"""Loops that resample images: the plain path's steps and bits.

Taps are indices and weights, [taps, outputs]; those at the index ``size`` are left out. ``inner``
elements lie beside one another at every place: the channels of images with channels last, or one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined

Array = npt.NDArray[Any]
Taps = tuple[Array, Array]


@inlined
def _add_run(x: Array, here: Any, weight: Any, out: Array, there: Any, count: Any) -> None:
    for c in range(count):
        out[there + c] += x[here + c] * weight


@compiled
def _across(x: Array, start: Any, width: int, taps: Taps, inner: Any, line: Array) -> None:
    """Add one line of pixels, resampled, to a line of zeros; x: all elements, the line's first."""
    index, weights = taps
    for k in range(index.shape[0]):
        places, factors = index[k], weights[k]
        if inner == 1:
            for j in range(places.size):
                place = np.uint64(places[j])
                if place < np.uint64(width):
                    line[j] += x[start + place] * factors[j]
        else:
            for j in range(places.size):
                if places[j] < width:
                    here, there = start + np.uint64(places[j]) * inner, np.uint64(j) * inner
                    _add_run(x, here, factors[j], line, there, inner)


@compiled
def _resampled_planes(x: Array, rows: Taps, columns: Taps, out: Array) -> None:
    """Each line of the input is resampled when an output first asks for it."""
    height, width, inner = x.shape[1], x.shape[2], np.uint64(x.shape[3])
    index, weights = rows
    flat, made = x.reshape(-1), out.reshape(-1)
    count, at = np.uint64(out.shape[2] * out.shape[3]), np.uint64(0)
    lines, known = np.empty((height, count), x.dtype), np.full(height, -1)
    for o in range(x.shape[0]):
        for i in range(out.shape[1]):
            for c in range(count):
                made[at + c] = 0
            for k in range(index.shape[0]):
                y = index[k, i]
                if y >= height:
                    continue
                line = lines[y]
                if known[y] != o:
                    known[y] = o
                    line[:] = 0
                    start = np.uint64((o * height + y) * width) * inner
                    _across(flat, start, width, columns, inner, line)
                _add_run(line, np.uint64(0), weights[k, i], made, at, count)
            at += count


def resampled_planes(x: Array, rows: Taps, columns: Taps) -> Array:
    """Planes [outer, height, width, inner] with both dimensions resampled, the last one first."""
    shape = (x.shape[0], rows[0].shape[1], columns[0].shape[1], x.shape[3])
    out = np.empty(shape, x.dtype)
    _resampled_planes(x, rows, columns, out)
    return out


@compiled
def _back_across(x: Array, start: Any, width: int, taps: Taps, inner: Any, line: Array) -> None:
    """The adjoint of `_across`; x: all gradients, from the line's first on."""
    index, weights = taps
    for k in range(index.shape[0]):
        places, factors = index[k], weights[k]
        if inner == 1:
            for j in range(places.size):
                if places[j] < width:
                    line[np.uint64(places[j])] += x[start + np.uint64(j)] * factors[j]
        else:
            for j in range(places.size):
                if places[j] < width:
                    here, there = start + np.uint64(j) * inner, np.uint64(places[j]) * inner
                    _add_run(x, here, factors[j], line, there, inner)


@compiled
def _planes_back(grad: Array, rows: Taps, columns: Taps, out: Array) -> None:
    height, width, inner = out.shape[1], out.shape[2], np.uint64(out.shape[3])
    index, weights = rows
    flat, made = grad.reshape(-1), out.reshape(-1)
    count = np.uint64(width) * inner
    lines = np.empty((grad.shape[1], count), grad.dtype)
    for o in range(grad.shape[0]):
        for i in range(grad.shape[1]):
            line, start = lines[i], np.uint64((o * grad.shape[1] + i) * grad.shape[2]) * inner
            line[:] = 0
            _back_across(flat, start, width, columns, inner, line)
        for k in range(index.shape[0]):
            for i in range(index.shape[1]):
                if index[k, i] < height:
                    there = np.uint64(o * height + index[k, i]) * count
                    _add_run(lines[i], np.uint64(0), weights[k, i], made, there, count)


def planes_back(grad: Array, rows: Taps, columns: Taps, space: tuple[int, int]) -> Array:
    """The adjoint of `resampled_planes` in planes of a height and width."""
    out = np.zeros((grad.shape[0], *space, grad.shape[3]), grad.dtype)
    _planes_back(grad, rows, columns, out)
    return out
