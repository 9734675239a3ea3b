"""Loops over means of windows of planes, [planes, *space], and their gradients: the plain bits.

For each dimension: the first elements of windows, how many there are within the space, and the
numbers whose product over dimensions a sum is divided by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined

Array = npt.NDArray[Any]
Arrays = tuple[Array, Array, Array]


@inlined
def _add(row: Array, total: Array) -> None:
    for i in range(np.uint64(row.size)):
        total[i] += row[i]


@compiled
def _means(x: Array, firsts: Arrays, counts: Arrays, by: Arrays, out: Array) -> None:
    """One dimension of a window is summed after the other; the sums of lines are kept in one."""
    line, deep = np.empty(x.shape[3], x.dtype), np.empty(x.shape[3], x.dtype)
    starts, lengths = firsts[2], counts[2]
    for p in range(x.shape[0]):
        for a in range(out.shape[1]):
            for b in range(out.shape[2]):
                line[:] = 0
                for j in range(firsts[1][b], firsts[1][b] + counts[1][b]):
                    if counts[0][a] == 1:
                        _add(x[p, firsts[0][a], j], line)
                        continue
                    deep[:] = 0
                    for i in range(firsts[0][a], firsts[0][a] + counts[0][a]):
                        _add(x[p, i, j], deep)
                    _add(deep, line)
                made, whole = out[p, a, b], by[0][a] * by[1][b]
                for c in range(made.size):
                    total, start = x.dtype.type(0), np.uint64(starts[c])
                    for k in range(np.uint64(lengths[c])):
                        total += line[start + k]
                    made[c] = total / x.dtype.type(whole * by[2][c])


@compiled
def _shares(
    grad: Array, firsts: Arrays, counts: Arrays, by: Arrays, apart: bool, out: Array
) -> None:
    """Windows are taken from the last on: then an element's first row of a window comes first.

    apart: whether the windows of a line have no element in common.
    """
    line, width = np.zeros(out.shape[3], grad.dtype), grad.shape[3]
    for p in range(grad.shape[0]):
        for a in range(grad.shape[1] - 1, -1, -1):
            for b in range(grad.shape[2] - 1, -1, -1):
                given, whole = grad[p, a, b], by[0][a] * by[1][b]
                if apart:
                    for c in range(width):
                        share = given[c] / grad.dtype.type(whole * by[2][c])
                        for k in range(firsts[2][c], firsts[2][c] + counts[2][c]):
                            line[k] = share
                for i in range(firsts[0][a], firsts[0][a] + counts[0][a]):
                    for j in range(firsts[1][b], firsts[1][b] + counts[1][b]):
                        row = out[p, i, j]
                        if apart:
                            _add(line, row)
                            continue
                        for c in range(width - 1, -1, -1):
                            share = given[c] / grad.dtype.type(whole * by[2][c])
                            for k in range(firsts[2][c], firsts[2][c] + counts[2][c]):
                                row[k] += share


def window_means(
    x: Array, firsts: Sequence[Array], counts: Sequence[Array], by: Sequence[Array]
) -> Array:
    """The sum of each window of planes [planes, *space] by its divisor."""
    out = np.empty((len(x), *[len(f) for f in firsts]), x.dtype)
    _means(_in_space(x), _three(firsts, 0), _three(counts, 1), _three(by, 1), _in_space(out))
    return out


def window_shares(
    grad: Array,
    firsts: Sequence[Array],
    counts: Sequence[Array],
    by: Sequence[Array],
    space: Sequence[int],
) -> Array:
    """The adjoint of `window_means` in planes of a shape."""
    out = np.zeros((len(grad), *space), grad.dtype)
    apart = bool((firsts[-1][:-1] + counts[-1][:-1] <= firsts[-1][1:]).all())
    windows = _three(firsts, 0), _three(counts, 1), _three(by, 1)
    _shares(_in_space(grad), *windows, apart, _in_space(out))
    return out


def _in_space(x: Array) -> Array:
    """Planes of up to three dimensions as planes of three."""
    return np.ascontiguousarray(x).reshape(len(x), *(1,) * (4 - x.ndim), *x.shape[1:])


_MISSING = {0: np.zeros(1, np.int64), 1: np.ones(1, np.int64)}


def _three(values: Sequence[Array], missing: int) -> Any:
    """Numbers of up to three dimensions for three."""
    return (_MISSING[missing],) * (3 - len(values)) + tuple(values)
