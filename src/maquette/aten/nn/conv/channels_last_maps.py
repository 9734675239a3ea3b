"""The maps of `convolution_maps` on images whose channels are in a row, without another order.

Windows there are runs of memory, a row for each place, so that a product of rows and the weight has
its channels in a row again. [8, 32, 28, 28] by [64, 32, 3, 3] takes as long as in the order of
dimensions, where copies to and fro took a third more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from maquette.aten.common.accumulation import Array, Index
from maquette.aten.common.channels_last import channels_second, laid_last
from maquette.aten.common.large_arrays import loops_for, loops_of_places
from maquette.aten.nn.conv.sliding_windows import cropped, padded, reach, steps
from maquette.tensor.backend import backend_for

Ints = Sequence[int]
Geometry = tuple[Ints, Ints, Ints]

#: Elements of window columns held at once, so that they are multiplied while they are in the cache.
_COLUMNS = 1 << 19


def _is_pointwise(size: Ints, geometry: Geometry) -> bool:
    return all(s == 1 for s in (*size, *geometry[0])) and not any(geometry[1])


def _columns(
    x: Array, size: Ints, places: Ints, geometry: Geometry
) -> Iterator[tuple[slice, Array]]:
    """The windows of [batch, *space, channels] as rows, a few at a time: [places, window].

    Beside the slice of all places that they are; good until the next are asked for.
    """
    channels, batch = x.shape[-1], x.shape[0]
    # A transposed output may end with a place that no window of one element reaches.
    if _is_pointwise(size, geometry) and x.shape[1:-1] == tuple(places):
        yield slice(0, batch * prod(places)), x.reshape(-1, channels)
        return
    view = _windows(x, size, places, geometry)
    line, wide = prod(places[1:]), prod(size) * channels
    samples = max(1, _COLUMNS // max(1, places[0] * line * wide))
    lines = min(places[0], max(1, _COLUMNS // max(1, line * wide)))
    memory = np.empty(samples * lines * line * wide, x.dtype)
    for first in range(0, batch, samples):
        for top in range(0, places[0], lines):
            seen = view[first : first + samples, top : top + lines]
            rows: Array = memory[: seen.size].reshape(seen.shape)
            np.copyto(rows, seen)
            start = (first * places[0] + top) * line
            rows = rows.reshape(-1, wide)
            yield slice(start, start + len(rows)), rows


def _windows(x: Array, size: Ints, places: Ints, geometry: Geometry) -> Array:
    """The windows of [batch, *space, channels]: a view [batch, *places, *size, channels]."""
    stride, padding, dilation = geometry
    needed = [(p - 1) * s + reach(k, d) for p, s, k, d in zip(places, stride, size, dilation)]
    after = [n - p - space for n, p, space in zip(needed, padding, x.shape[1:])]
    around = padded(np, x, (*padding, 0), (*after, 0))
    first, *space, last = around.strides
    moves = (s * t for s, t in zip(space, stride))
    inside = (s * d for s, d in zip(space, dilation))
    shape = (x.shape[0], *places, *size, x.shape[-1])
    return backend_for(np).windows(around, shape, (first, *moves, *inside, last))


def correlate(x: Array, weight: Array, places: Ints, geometry: Geometry) -> Array:
    """Each place's window times the weight: of [batch, *space, channels], so laid out."""
    matrix = np.moveaxis(weight, (0, 1), (-1, -2)).reshape(-1, weight.shape[0])
    out = np.empty((x.shape[0] * prod(places), weight.shape[0]), x.dtype)
    for rows, columns in _columns(x, weight.shape[2:], places, geometry):
        np.matmul(columns, matrix, out=out[rows])
    return channels_second(out.reshape(x.shape[0], *places, -1))


def spread(y: Array, weight: Array, space: Ints, geometry: Geometry) -> Array:
    """The adjoint of `correlate` in its input, by windows that are added up."""
    size, places, channels = weight.shape[2:], y.shape[1:-1], weight.shape[1]
    matrix = laid_last(weight).reshape(weight.shape[0], -1)
    if _is_pointwise(size, geometry) and tuple(space) == places:
        made = y.reshape(-1, y.shape[-1]) @ matrix
        return channels_second(made.reshape(len(y), *space, channels))
    out = np.empty((len(y), *space, channels), y.dtype)
    step = max(1, _COLUMNS // max(1, prod(places) * matrix.shape[1]))
    for start in range(0, len(y), step):
        part = y[start : start + step]
        columns = part.reshape(-1, y.shape[-1]) @ matrix
        windows = columns.reshape(*part.shape[:-1], *size, channels)
        out[start : start + step] = _folded(windows, space, geometry)
    return channels_second(out)


def _folded(columns: Array, space: Ints, geometry: Geometry) -> Array:
    """Windows [batch, *places, *size, channels] added up: [batch, *space, channels]."""
    dims = len(space)
    places, size = columns.shape[1 : 1 + dims], columns.shape[1 + dims : -1]
    stride, padding, dilation = geometry
    loops = loops_of_places(np, columns.size, columns)
    if loops is not None:
        found: Array = loops.add_windows_last(columns, space, stride, padding, dilation)
        return found
    around = [
        max(n + 2 * p, (q - 1) * s + reach(k, d))
        for n, p, q, s, k, d in zip(space, padding, places, stride, size, dilation)
    ]
    total = np.zeros((len(columns), *around, columns.shape[-1]), columns.dtype)
    every: Index = (slice(None),)
    for at in product(*map(range, size)):
        met: Index = (*every, *steps(at, stride, dilation, places))
        of_window: Index = (*every * (1 + dims), *at)
        total[met] += columns[of_window]
    return cropped(total, (*padding, 0), (*space, columns.shape[-1]))


def weight_sums(x: Array, y: Array, size: Ints, geometry: Geometry) -> Array:
    """The adjoint of `correlate` in its weight: (y's channels, x's channels, *size)."""
    rows = y.reshape(-1, y.shape[-1])
    total: Array | None = None
    for part, columns in _columns(x, size, y.shape[1:-1], geometry):
        more = rows[part].T @ columns
        total = more if total is None else np.add(total, more, out=total)
    assert total is not None
    return channels_second(total.reshape(len(total), *size, x.shape[-1]))


# --- a kernel for each channel ---------------------------------------------------------------


def _kernels(weight: Array) -> Array:
    """(channels, 1, rows, columns) as a row-major [rows, columns, channels]."""
    return np.ascontiguousarray(weight[:, 0].transpose(1, 2, 0))


def _pairs(geometry: Geometry) -> list[tuple[int, ...]]:
    return [tuple(g) for g in geometry]


def correlate_channels(x: Array, weight: Array, places: Ints, geometry: Geometry) -> Array | None:
    """`correlate` of each channel with a kernel of its own, by a loop; None where there is none."""
    loops = loops_for(np, x, weight)
    if loops is None:
        return None
    given = x, _kernels(weight), tuple(places), *_pairs(geometry)
    return channels_second(loops.channel_products_last(*given))


def spread_channels(y: Array, weight: Array, space: Ints, geometry: Geometry) -> Array | None:
    """The adjoint of `correlate_channels` in its input."""
    loops = loops_for(np, y, weight)
    if loops is None:
        return None
    given = y, _kernels(weight), tuple(space), *_pairs(geometry)
    return channels_second(loops.channel_spread_last(*given))


def sums_of_channels(x: Array, y: Array, size: Ints, geometry: Geometry) -> Array | None:
    """The adjoint of `correlate_channels` in its weight."""
    loops = loops_for(np, x, y)
    if loops is None:
        return None
    sums: Array = loops.channel_sums_last(x, y, tuple(size), *_pairs(geometry))
    return sums.transpose(2, 0, 1)[:, None]
