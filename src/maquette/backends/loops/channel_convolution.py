"""Convolution of each channel with kernels of its own, and its two adjoints, on planes.

A plane is laid out by phases: those elements, with the padding, that one element of the window
meets as it steps. There every element of the window sees all places by one shift, so each is one
pass over memory in a row; what a place sees beyond the end of its line is not kept. Products are
fused with sums: a few ulps of the largest product from the plain path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fused, reordered

Array = npt.NDArray[np.float32]
Pair = tuple[int, int]

# --- laying out ------------------------------------------------------------------------------


@compiled
def _copied(row: Array, out: Array) -> None:
    for i in range(row.size):
        out[i] = row[i]


@compiled
def _by_two(plane: Array, phases: Array, stride: Pair, padding: Pair, back: bool) -> None:
    """Copy a plane to its phases by columns' steps of two, or ``back``: two elements at a time.

    Lines are places in flat memory, counted without a sign, for vectors: to make an array of each
    takes as long as to copy it.
    """
    flat, out = plane.reshape(-1), phases.reshape(-1)
    height, width = plane.shape
    lines, pitch = phases.shape[2], phases.shape[3]
    even, odd = padding[1] // 2, (padding[1] + 1) // 2  # where the first two of a line go
    pairs = np.uint64(max(0, min(width // 2, pitch - odd)))
    single = even + np.int64(pairs) < pitch and 2 * np.int64(pairs) < width
    one, two = np.uint64(1), np.uint64(2)
    for y in range(height):
        line, phase = (y + padding[0]) // stride[0], (y + padding[0]) % stride[0]
        if line >= lines:
            continue
        row = np.uint64(y * width)
        first = ((2 * phase + padding[1] % 2) * lines + line) * pitch + even
        second = ((2 * phase + (padding[1] + 1) % 2) * lines + line) * pitch + odd
        evens, odds = np.uint64(first), np.uint64(second)
        if back:
            for i in range(pairs):
                flat[row + two * i] = out[evens + i]
                flat[row + two * i + one] = out[odds + i]
        else:
            for i in range(pairs):
                out[evens + i] = flat[row + two * i]
                out[odds + i] = flat[row + two * i + one]
        if single and back:
            flat[row + two * pairs] = out[evens + pairs]
        elif single:
            out[evens + pairs] = flat[row + two * pairs]


@compiled
def _seen(phase: int, step: int, padding: int, size: int, places: int) -> Pair:
    """The first and the end of a phase's places that are elements of a line, not padding."""
    first = min(places, max(0, -((phase - padding) // step)))
    return first, max(first, min(places, (size - 1 + padding - phase) // step + 1))


@compiled
def _by_phases(x: Array, phases: Array, stride: Pair, padding: Pair, back: bool) -> None:
    """Copy a plane to its phases [rows' phases, columns' phases, rows, columns], or ``back``."""
    step = stride[1]
    if step == 2:
        _by_two(x, phases, stride, padding, back)
        return
    for a in range(stride[0]):
        top, bottom = _seen(a, stride[0], padding[0], x.shape[0], phases.shape[2])
        for b in range(step):
            first, last = _seen(b, step, padding[1], x.shape[1], phases.shape[3])
            for y in range(top, bottom):
                row, line = x[y * stride[0] + a - padding[0]], phases[a, b, y, first:last]
                start = first * step + b - padding[1]
                if step == 1 and back:
                    _copied(line, row[start : start + line.size])
                elif step == 1:
                    _copied(row[start : start + line.size], line)
                elif back:
                    for i in range(line.size):
                        row[start + i * step] = line[i]
                else:
                    for i in range(line.size):
                        line[i] = row[start + i * step]


def _phases(size: Pair, places: Pair, stride: Pair, dilation: Pair) -> Array:
    """Zeros for a plane by phases, with a line more than is seen."""
    more = [(k - 1) * d // s for k, d, s in zip(size, dilation, stride)]
    return np.zeros((*stride, places[0] + more[0] + 1, places[1] + more[1]), np.float32)


@compiled
def _met(phases: Array, i: int, j: int, stride: Pair, dilation: Pair, count: int) -> Array:
    """What an element of the window meets at all places, in lines as long as the phases'."""
    y, x = i * dilation[0], j * dilation[1]
    start = y // stride[0] * phases.shape[3] + x // stride[1]
    return phases[y % stride[0], x % stride[1]].reshape(-1)[start : start + count]


# --- the map and its adjoints ----------------------------------------------------------------


@fused
def _accumulate(total: Array, row: Array, factor: Any) -> None:
    for i in range(total.size):
        total[i] += row[i] * factor


@fused
def _accumulate_three(total: Array, a: Array, b: Array, c: Array, factors: Array) -> None:
    """`_accumulate` three rows in turn: the total is read and written once."""
    p, q, r = factors[0], factors[1], factors[2]
    for i in range(total.size):
        total[i] = ((total[i] + a[i] * p) + b[i] * q) + c[i] * r


@reordered
def _product(a: Array, b: Array) -> Any:
    total = np.float32(0)
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled
def _channel_products(
    x: Array, weight: Array, out: Array, stride: Pair, padding: Pair, dilation: Pair, phases: Array
) -> None:
    rows, columns, pitch = out.shape[3], out.shape[4], phases.shape[3]
    total = np.empty(rows * pitch, np.float32)
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            _by_phases(x[n, c], phases, stride, padding, False)
            for m in range(weight.shape[1]):
                total[:] = np.float32(0)
                for i in range(weight.shape[2]):
                    factors, threes = weight[c, m, i], weight.shape[3] // 3 * 3
                    for j in range(0, threes, 3):
                        _accumulate_three(
                            total,
                            _met(phases, i, j, stride, dilation, total.size),
                            _met(phases, i, j + 1, stride, dilation, total.size),
                            _met(phases, i, j + 2, stride, dilation, total.size),
                            factors[j : j + 3],
                        )
                    for j in range(threes, weight.shape[3]):
                        row = _met(phases, i, j, stride, dilation, total.size)
                        _accumulate(total, row, factors[j])
                for y in range(rows):
                    _copied(total[y * pitch : y * pitch + columns], out[n, c, m, y])


@compiled
def _channel_spread(
    y: Array, weight: Array, out: Array, stride: Pair, padding: Pair, dilation: Pair, phases: Array
) -> None:
    lines = np.zeros((y.shape[3], phases.shape[3]), np.float32)
    for n in range(y.shape[0]):
        for c in range(y.shape[1]):
            phases[:] = np.float32(0)
            for m in range(y.shape[2]):
                for r in range(y.shape[3]):
                    _copied(y[n, c, m, r], lines[r, : y.shape[4]])
                for i in range(weight.shape[2]):
                    for j in range(weight.shape[3]):
                        total = _met(phases, i, j, stride, dilation, lines.size)
                        _accumulate(total, lines.reshape(-1), weight[c, m, i, j])
            _by_phases(out[n, c], phases, stride, padding, True)


@compiled
def _channel_sums(
    x: Array, y: Array, out: Array, stride: Pair, padding: Pair, dilation: Pair, phases: Array
) -> None:
    lines = np.zeros((y.shape[3], phases.shape[3]), np.float32)
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            _by_phases(x[n, c], phases, stride, padding, False)
            for m in range(y.shape[2]):
                for r in range(y.shape[3]):
                    _copied(y[n, c, m, r], lines[r, : y.shape[4]])
                for i in range(out.shape[2]):
                    for j in range(out.shape[3]):
                        row = _met(phases, i, j, stride, dilation, lines.size)
                        out[c, m, i, j] += _product(row, lines.reshape(-1))


def channel_products(
    x: Array, weight: Array, places: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array:
    """Convolve each channel with kernels of its own.

    x: [batch, channels, rows, columns]; weight: [channels, kernels, rows, columns]. The result is
    [batch, channels, kernels, *places].
    """
    out = np.empty((*x.shape[:2], weight.shape[1], *places), np.float32)
    phases = _phases((weight.shape[2], weight.shape[3]), places, stride, dilation)
    x, weight = np.ascontiguousarray(x), np.ascontiguousarray(weight)
    _channel_products(x, weight, out, stride, padding, dilation, phases)
    return out


def channel_spread(
    y: Array, weight: Array, space: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array:
    """The adjoint of `channel_products` in its input, of a spatial shape; finite weights."""
    out = np.zeros((*y.shape[:2], *space), np.float32)
    places = (y.shape[3], y.shape[4])
    phases = _phases((weight.shape[2], weight.shape[3]), places, stride, dilation)
    y, weight = np.ascontiguousarray(y), np.ascontiguousarray(weight)
    _channel_spread(y, weight, out, stride, padding, dilation, phases)
    return out


def channel_sums(
    x: Array, y: Array, size: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array | None:
    """The adjoint of `channel_products` in its weight, of a window's shape.

    None where it is not finite: what lies between lines is not to be multiplied by infinity.
    """
    sums = np.zeros((*y.shape[1:3], *size), np.float64)
    phases = _phases(size, (y.shape[3], y.shape[4]), stride, dilation)
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    _channel_sums(x, y, sums, stride, padding, dilation, phases)
    return sums.astype(np.float32) if np.isfinite(sums).all() else None
