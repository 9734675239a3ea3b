"""Windows of images whose channels are in a row: each channel's own kernels, and windows added up.

Images are [batch, rows, columns, channels]. For kernels of single channels an image is laid out
by phases of its columns, those that one element of the window meets as it steps, with its padding:
there an element of the window sees all places of a line as one run of memory. Factors are repeated
to some hundred elements, as in `norms`. Products are fused with sums: a few ulps of the largest
product from the plain path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fused

Array = npt.NDArray[Any]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Ints = Sequence[int]

_LINE = 1024  # elements that are taken at once


@compiled
def _add(row: Array, total: Array) -> None:
    for i in range(row.size):
        total[i] += row[i]


# --- windows added up ------------------------------------------------------------------------


@compiled
def _add_windows(
    columns: Array, out: Array, stride: Triple, padding: Triple, dilation: Triple
) -> None:
    """columns: [batch, *places, *window, channels] of volumes; out: [batch, *space, channels]."""
    deep, height, width, channels = out.shape[1], out.shape[2], out.shape[3], out.shape[4]
    thick, tall, wide = columns.shape[4], columns.shape[5], columns.shape[6]
    near = dilation[2] == 1  # then a line of the window is one run
    count = wide if near else 1
    for n in range(out.shape[0]):
        flat = out[n].reshape(-1)
        for oz, h in np.ndindex((columns.shape[1], thick)):
            z = oz * stride[0] + h * dilation[0] - padding[0]
            if z < 0 or z >= deep:
                continue
            for oy, i in np.ndindex((columns.shape[2], tall)):
                y = oy * stride[1] + i * dilation[1] - padding[1]
                if y < 0 or y >= height:
                    continue
                for ox in range(columns.shape[3]):
                    line = columns[n, oz, oy, ox, h, i].reshape(-1)
                    for j in range(0, wide, count):
                        left = ox * stride[2] + j * dilation[2] - padding[2]
                        first, last = max(0, -left), min(count, width - left)
                        if first < last:
                            start = ((z * height + y) * width + left + first) * channels
                            run = line[(j + first) * channels : (j + last) * channels]
                            _add(run, flat[start : start + run.size])


def add_windows_last(
    columns: Array, space: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Array:
    """Windows added up where they came from.

    [batch, *places, *window, channels], row-major, gives [batch, *space, channels]; up to three
    dimensions each.
    """
    dims, more = len(space), (1,) * (3 - len(space))
    batch, places, window = len(columns), columns.shape[1 : 1 + dims], columns.shape[1 + dims : -1]
    lifted = columns.reshape(batch, *more, *places, *more, *window, columns.shape[-1])
    out = np.zeros((batch, *more, *space, columns.shape[-1]), columns.dtype)
    steps: Any = [(*(n,) * len(more), *g) for n, g in zip((1, 0, 1), (stride, padding, dilation))]
    _add_windows(lifted, out, *steps)
    return out.reshape(batch, *space, columns.shape[-1])


# --- each channel by itself ------------------------------------------------------------------


@compiled
def _copied(row: Array, out: Array) -> None:
    for i in range(row.size):
        out[i] = row[i]


@compiled
def _by_phases(image: Array, phases: Array, step: int, padding: Pair, back: bool) -> None:
    """Copy an image to phases [rows, phases, columns, channels] of its columns, or ``back``."""
    height, width, channels = image.shape
    for y in range(min(height, phases.shape[0] - padding[0])):
        row = image[y].reshape(-1)
        if step == 1:
            line = phases[y + padding[0], 0].reshape(-1)[padding[1] * channels :]
            size = min(row.size, line.size)
            if back:
                _copied(line[:size], row[:size])
            else:
                _copied(row[:size], line[:size])
            continue
        for x in range(width):
            phase, place = (x + padding[1]) % step, (x + padding[1]) // step
            if place < phases.shape[2]:
                run, there = row[x * channels : (x + 1) * channels], phases[y + padding[0]]
                if back:
                    _copied(there[phase, place], run)
                else:
                    _copied(run, there[phase, place])


def _phases(size: Pair, places: Pair, stride: Pair, dilation: Pair, channels: int) -> Array:
    """Zeros for an image by phases of its columns."""
    tall = (places[0] - 1) * stride[0] + (size[0] - 1) * dilation[0] + 1
    wide = places[1] + (size[1] - 1) * dilation[1] // stride[1]
    return np.zeros((tall, stride[1], wide, channels), np.float32)


@compiled
def _met(phases: Array, row: int, shift: int, count: int) -> Array:
    """What an element of the window meets at all places of a line."""
    step, channels = phases.shape[1], phases.shape[3]
    line = phases[row, shift % step].reshape(-1)
    return line[shift // step * channels : shift // step * channels + count]


@fused
def _accumulate(total: Array, row: Array, factors: Array) -> None:
    for i in range(total.size):
        total[i] += row[i] * factors[i]


@fused
def _accumulate_three(
    total: Array, a: Array, b: Array, c: Array, p: Array, q: Array, r: Any
) -> None:
    """`_accumulate` three rows in turn: the total is read and written once."""
    for i in range(total.size):
        total[i] = ((total[i] + a[i] * p[i]) + b[i] * q[i]) + c[i] * r[i]


@compiled
def _products(
    x: Array, weight: Array, out: Array, stride: Pair, padding: Pair, dilation: Pair, phases: Array
) -> None:
    long, tall, wide = weight.shape[2], weight.shape[0], weight.shape[1]
    threes = wide // 3 * 3
    for n in range(x.shape[0]):
        _by_phases(x[n], phases, stride[1], padding, False)
        for oy in range(out.shape[1]):
            total = out[n, oy].reshape(-1)
            total[:] = np.float32(0)
            for start in range(0, total.size, long):
                part = total[start : start + long]
                end = start + part.size
                for i in range(tall):
                    row, factors = oy * stride[0] + i * dilation[0], weight[i]
                    for j in range(0, threes, 3):
                        _accumulate_three(
                            part,
                            _met(phases, row, j * dilation[1], total.size)[start:end],
                            _met(phases, row, (j + 1) * dilation[1], total.size)[start:end],
                            _met(phases, row, (j + 2) * dilation[1], total.size)[start:end],
                            factors[j, : part.size],
                            factors[j + 1, : part.size],
                            factors[j + 2, : part.size],
                        )
                    for j in range(threes, wide):
                        met = _met(phases, row, j * dilation[1], total.size)[start:end]
                        _accumulate(part, met, factors[j, : part.size])


@compiled
def _spread(
    y: Array, weight: Array, out: Array, stride: Pair, padding: Pair, dilation: Pair, phases: Array
) -> None:
    long = weight.shape[2]
    for n in range(y.shape[0]):
        phases[:] = np.float32(0)
        for oy in range(y.shape[1]):
            line = y[n, oy].reshape(-1)
            for i in range(weight.shape[0]):
                row = oy * stride[0] + i * dilation[0]
                for j in range(weight.shape[1]):
                    met = _met(phases, row, j * dilation[1], line.size)
                    for start in range(0, line.size, long):
                        run = line[start : start + long]
                        target = met[start : start + long]
                        _accumulate(target, run, weight[i, j, : run.size])
        _by_phases(out[n], phases, stride[1], padding, True)


@compiled
def _sums(
    x: Array,
    y: Array,
    part: Array,
    out: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    phases: Array,
) -> None:
    long, channels = part.shape[2], out.shape[2]
    for n in range(x.shape[0]):
        _by_phases(x[n], phases, stride[1], padding, False)
        for oy in range(y.shape[1]):
            line = y[n, oy].reshape(-1)
            for i in range(out.shape[0]):
                row = oy * stride[0] + i * dilation[0]
                for j in range(out.shape[1]):
                    met = _met(phases, row, j * dilation[1], line.size)
                    for start in range(0, line.size, long):
                        run = line[start : start + long]
                        total = part[i, j, : run.size]
                        _accumulate(total, run, met[start : start + long])
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                for start in range(0, long, channels):
                    for c in range(channels):
                        out[i, j, c] += part[i, j, start + c]
                        part[i, j, start + c] = np.float32(0)


def _repeats(channels: int) -> int:
    return max(1, _LINE // channels)


def _repeated(weight: Array) -> Array:
    """[rows, columns, channels] with each run of channels repeated."""
    return np.tile(weight, (1, 1, _repeats(weight.shape[2])))


def channel_products_last(
    x: Array, weight: Array, places: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array:
    """Convolve each channel of [batch, *space, channels] with a kernel of its own.

    weight: [*window, channels]; all row-major.
    """
    size, channels = (weight.shape[0], weight.shape[1]), x.shape[3]
    out = np.empty((x.shape[0], *places, channels), np.float32)
    phases = _phases(size, places, stride, dilation, channels)
    _products(x, _repeated(weight), out, stride, padding, dilation, phases)
    return out


def channel_spread_last(
    y: Array, weight: Array, space: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array:
    """The adjoint of `channel_products_last` in its input, of a spatial shape."""
    size, channels = (weight.shape[0], weight.shape[1]), y.shape[3]
    out = np.zeros((y.shape[0], *space, channels), np.float32)
    phases = _phases(size, (y.shape[1], y.shape[2]), stride, dilation, channels)
    _spread(y, _repeated(weight), out, stride, padding, dilation, phases)
    return out


def channel_sums_last(
    x: Array, y: Array, size: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Array:
    """The adjoint of `channel_products_last` in its weight, of a window's shape."""
    channels = x.shape[3]
    out, part = (
        np.zeros((*size, channels * n), kind)
        for n, kind in ((1, np.float64), (_repeats(channels), np.float32))
    )
    phases = _phases(size, (y.shape[1], y.shape[2]), stride, dilation, channels)
    _sums(x, y, part, out, stride, padding, dilation, phases)
    return out.astype(np.float32)
