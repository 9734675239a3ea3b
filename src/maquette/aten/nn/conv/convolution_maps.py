"""The three linear maps that convolutions are made of, on arrays.

`correlate` takes an input to its output, `spread` is its adjoint in the input, `weight_sums` in the
weight. Each is matrix products over columns of windows, a few at a time: of NumPy's arrays so few
that they stay in the cache, in memory that is used again. Where each group is one channel there is
no product of matrices to take, and elements of the window are worked through one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, Index, wide
from maquette.aten.common.array_libraries import assigned_at, own_convolutions, product_at
from maquette.aten.common.channels_last import channels_second, laid_last, with_channels_last
from maquette.aten.common.large_arrays import loops_for, loops_of_places
from maquette.aten.nn.conv import channels_last_maps
from maquette.aten.nn.conv.sliding_windows import cropped, fold, padded, reach, windows

Ints = Sequence[int]
Geometry = tuple[Ints, Ints, Ints]
"""Stride, padding and dilation, each with a number for every dimension of space."""

#: Elements of window columns held at once; 4 million float32 are 16 MiB.
_COLUMNS_AT_ONCE = 1 << 22
#: The same of NumPy's arrays, so that columns are multiplied while they are in the cache.
_COLUMNS_IN_CACHE = 1 << 19
#: Elements of a result to which many arrays are added in turn, so that it stays in the cache.
_ELEMENTS_IN_CACHE = 1 << 17


def _by_group(x: Array, groups: int) -> Array:
    """(batch, channels, *space) as (batch, groups, channels of one, *space)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _weight_matrix(weight: Array, groups: int) -> Array:
    """(groups, rows of one, columns of windows)."""
    return weight.reshape(groups, weight.shape[0] // groups, -1)


def _pair(values: Ints, one: int) -> tuple[int, ...]:
    """Two numbers for a plane's dimensions, of which a line has only the last."""
    return (one,) * (2 - len(values)) + tuple(values)


def _samples(batch: int, elements_each: int, most: int = _COLUMNS_AT_ONCE) -> Iterator[slice]:
    """Slices of a batch, so that the columns of each stay within bounds."""
    step = max(1, most // max(1, elements_each))
    for start in range(0, batch, step):
        yield slice(start, min(batch, start + step))


# --- columns of windows -----------------------------------------------------------------------


def _is_pointwise(size: Ints, geometry: Geometry) -> bool:
    stride, padding, _ = geometry
    return all(s == 1 for s in (*size, *stride)) and not any(padding)


def _windows(xp: ModuleType, x: Array, size: Ints, places: Ints, geometry: Geometry) -> Array:
    """The windows of (batch, groups, channels, *space): [..., *size, *places]."""
    stride, padding, dilation = geometry
    # Space for the last window, even where it hangs over: transposed outputs may end early.
    needed = [(p - 1) * s + reach(k, d) for p, s, k, d in zip(places, stride, size, dilation)]
    after = [n - p - space for n, p, space in zip(needed, padding, x.shape[3:])]
    return windows(xp, padded(xp, x, padding, after), size, stride, dilation, places)


def _columns(
    xp: ModuleType, x: Array, size: Ints, places: Ints, geometry: Geometry
) -> Iterator[tuple[slice, slice, Array]]:
    """The windows of (batch, groups, channels, *space) as matrices, a few at a time.

    Each part is the samples, the places in a row, and (samples, groups, channels * window, places):
    good until the next one is asked for.
    """
    batch, count = x.shape[0], prod(places)
    rows = x.shape[2] * prod(size)
    # A transposed output may end with a place that no window of one element reaches.
    if _is_pointwise(size, geometry) and x.shape[3:] == tuple(places):
        yield slice(0, batch), slice(0, count), x.reshape(*x.shape[:2], rows, count)
    elif xp is np:
        yield from _columns_in_cache(x, size, places, geometry)
    else:
        for part in _samples(batch, x.shape[1] * rows * count):
            view = _windows(xp, x[part], size, places, geometry)
            yield part, slice(0, count), view.reshape(*view.shape[:2], rows, count)


def _columns_in_cache(
    x: Array, size: Ints, places: Ints, geometry: Geometry
) -> Iterator[tuple[slice, slice, Array]]:
    """`_columns`, copied to one small memory: new memory costs more than what is written to it."""
    view = _windows(np, x, size, places, geometry)
    line, first = prod(places[1:]), 3 + len(size)  # the first dimension of places
    of_line = prod(view.shape[1:first]) * line
    parts = -(-places[0] * of_line // _COLUMNS_IN_CACHE) or 1
    lines = -(-places[0] // min(parts, places[0] or 1))
    samples = list(_samples(x.shape[0], lines * of_line, _COLUMNS_IN_CACHE))
    memory = np.empty(samples[0].stop * lines * of_line if samples else 0, x.dtype)
    for part in samples:
        for start in range(0, places[0], lines):
            stop = min(start + lines, places[0])
            seen = view[(part, *[slice(None)] * (first - 1), slice(start, stop))]
            columns = memory[: seen.size].reshape(seen.shape)
            np.copyto(columns, seen)
            columns = columns.reshape(*seen.shape[:2], -1, (stop - start) * line)
            yield part, slice(start * line, stop * line), columns


def _folded(
    xp: ModuleType, columns: Array, size: Ints, places: Ints, space: Ints, geometry: Geometry
) -> Array:
    """The adjoint of `_columns`: (batch, groups, channels, *space)."""
    stride, padding, dilation = geometry
    leading = (*columns.shape[:2], columns.shape[2] // prod(size))
    loops = loops_of_places(xp, columns.size, columns) if len(size) <= 2 else None
    if loops is not None:
        planes = columns.reshape(prod(leading), *_pair(size, 1), *_pair(places, 1))
        pairs = [_pair(space, 1), _pair(stride, 1), _pair(padding, 0), _pair(dilation, 1)]
        found: Array = loops.add_windows(planes, *pairs)
        return found.reshape(*leading, *space)
    around = [
        max(n + 2 * p, (q - 1) * s + reach(k, d))
        for n, p, q, s, k, d in zip(space, padding, places, stride, size, dilation)
    ]
    folded = fold(xp, columns.reshape(*leading, *size, *places), around, stride, dilation)
    return cropped(folded, padding, space)


def _is_gathered(xp: ModuleType, weight: Array, geometry: Geometry, groups: int) -> bool:
    """Whether `spread` is taken as `correlate` by a turned weight: so by steps of one.

    Its columns have the weight's rows, those of windows that are added up its channels: 20 to 14 ms
    of [8, 32, 56, 56] by [32, 64, 3, 3], but 14 to 16 by [64, 32, 3, 3]. Windows of volumes are
    added up without a compiled loop, which takes longer.
    """
    wider = 2 if weight.ndim == 5 else 1
    by_one = (
        xp is np
        and all(s == 1 for s in geometry[0])
        and not _is_pointwise(weight.shape[2:], geometry)
    )
    return by_one and 0 < weight.shape[0] // groups <= wider * weight.shape[1]


def _turned(xp: ModuleType, weight: Array, groups: int) -> Array:
    """The weight of which `correlate` by steps of one is the adjoint of that of a weight."""
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    turned = xp.swapaxes(xp.flip(grouped, tuple(range(3, grouped.ndim))), 1, 2)
    return turned.reshape(groups * weight.shape[1], -1, *weight.shape[2:])


# --- a group for each channel -----------------------------------------------------------------


def _as_plane(x: Array) -> Array:
    """(..., length) as (..., 1, length) where there is one dimension of space."""
    return x if x.ndim == 4 else x[..., None, :]


def _planes(geometry: Geometry) -> list[tuple[int, ...]]:
    stride, padding, dilation = geometry
    return [_pair(stride, 1), _pair(padding, 0), _pair(dilation, 1)]


def _products_of_channels(
    xp: ModuleType, x: Array, weight: Array, places: Ints, geometry: Geometry
) -> Array | None:
    """`correlate` by a compiled loop; None where there is none."""
    loops = loops_for(xp, x, weight) if len(places) <= 2 else None
    if loops is None:
        return None
    factors = _as_plane(weight).reshape(x.shape[1], -1, *_pair(weight.shape[2:], 1))
    found: Array = loops.channel_products(
        _as_plane(x), factors, _pair(places, 1), *_planes(geometry)
    )
    return found.reshape(x.shape[0], weight.shape[0], *places)


def _spread_of_channels(
    xp: ModuleType, y: Array, weight: Array, space: Ints, geometry: Geometry, groups: int
) -> Array | None:
    """`spread` by a compiled loop; None where there is none."""
    loops = loops_for(xp, y, weight) if len(space) <= 2 else None
    if loops is None or not np.isfinite(weight).all():
        return None
    factors = _as_plane(weight).reshape(groups, -1, *_pair(weight.shape[2:], 1))
    given = _by_group(_as_plane(y), groups)
    found: Array = loops.channel_spread(given, factors, _pair(space, 1), *_planes(geometry))
    return found.reshape(y.shape[0], groups, *space)


def _sums_of_channels(
    xp: ModuleType, x: Array, y: Array, size: Ints, geometry: Geometry
) -> Array | None:
    """`weight_sums` by a compiled loop; None where there is none."""
    loops = loops_for(xp, x, y) if len(size) <= 2 else None
    if loops is None:
        return None
    given = _by_group(_as_plane(y), x.shape[1])
    found: Array | None = loops.channel_sums(
        _as_plane(x), given, _pair(size, 1), *_planes(geometry)
    )
    return None if found is None else found.reshape(y.shape[1], 1, *size)


def _by_channel_product(
    xp: ModuleType, x: Array, weight: Array, places: Ints, geometry: Geometry
) -> Array:
    """`correlate` by steps of one where each group is one channel: elementwise, without columns.

    Planes are taken as rows of numbers, in which every element of the window sees all places by one
    shift; what a place sees beyond the end of its line is cut off in the end.
    """
    _, padding, dilation = geometry
    channels, size = x.shape[1], weight.shape[2:]
    factors = weight.reshape(1, channels, -1, *size)
    lines = [p - 1 + reach(k, d) for p, k, d in zip(places, size, dilation)]
    lines[0] += 1  # the last shifts reach into one line more
    after = [n - p - space for n, p, space in zip(lines, padding, x.shape[2:])]
    pitch = [prod(lines[d + 1 :]) for d in range(len(lines))]
    length = places[0] * pitch[0]
    out = xp.empty((x.shape[0], channels, factors.shape[2], *places), x.dtype)
    for part in _samples(x.shape[0], channels * length, _ELEMENTS_IN_CACHE):
        around = padded(xp, x[part], padding, after)
        flat = around.reshape(*around.shape[:2], 1, -1)
        total: Array | None = None
        for at in product(*map(range, size)):
            start = sum(i * d * n for i, d, n in zip(at, dilation, pitch))
            element: Index = (..., *at)
            more = flat[..., start : start + length] * factors[element][..., None]
            total = more if total is None else _added(total, more)
        assert total is not None
        whole = total.reshape(*total.shape[:3], places[0], *lines[1:])
        out = assigned_at(xp, out, part, cropped(whole, [0] * len(places), places))
    return out.reshape(x.shape[0], weight.shape[0], *places)


def _added(total: Array, more: Array) -> Array:
    total += more
    return total


# --- channels in a row ------------------------------------------------------------------------


def _with_channels_last(xp: ModuleType, x: Array, other: Array, groups: int) -> Array | None:
    """An operand as [batch, *space, channels] if it can be worked on as it lies in memory.

    None for lines, whose result has its channels second, and for groups of several channels.
    """
    fits = xp is np and x.ndim > 3 and x.dtype.kind in "fc" and x.size and other.size
    if not fits or (groups > 1 and not (x.ndim == 4 and x.shape[1] == groups)):
        return None
    return with_channels_last(x)


def alike(xp: ModuleType, x: Array, y: Array) -> Array:
    """``y`` with its channels in a row where those of ``x`` are, as results of both will be."""
    fits = xp is np and x.ndim > 3 and x.size and y.size
    if not fits or with_channels_last(x) is None or with_channels_last(y) is not None:
        return y
    return channels_second(laid_last(y))


# --- the maps ---------------------------------------------------------------------------------


def correlate(
    xp: ModuleType, x: Array, weight: Array, places: Ints, geometry: Geometry, groups: int
) -> Array:
    """Each place's window times the weight: (batch, weight's rows, *places)."""
    own = own_convolutions(xp)
    if own is not None and x.size and weight.size:
        return own.correlate(wide(x), wide(weight), places, geometry, groups)
    x, weight = wide(x), wide(weight)
    last = _with_channels_last(xp, x, weight, groups)
    if last is not None and groups == 1:
        return channels_last_maps.correlate(last, weight, places, geometry)
    if last is not None and weight.shape[0] == groups:
        found = channels_last_maps.correlate_channels(last, weight, places, geometry)
        if found is not None:
            return found
    if weight.shape[1] == 1 and groups > 1 and x.size and weight.size:
        found = _products_of_channels(xp, x, weight, places, geometry)
        if found is not None:
            return found
        if all(s == 1 for s in geometry[0]):
            return _by_channel_product(xp, x, weight, places, geometry)
    matrix, grouped = _weight_matrix(weight, groups), _by_group(x, groups)
    out = xp.empty((x.shape[0], groups, matrix.shape[1], prod(places)), matrix.dtype)
    for part, seen, columns in _columns(xp, grouped, weight.shape[2:], places, geometry):
        out = product_at(xp, out, (part, ..., seen), matrix, columns)
    result: Array = out.reshape(x.shape[0], weight.shape[0], *places)
    return result


def spread(
    xp: ModuleType, y: Array, weight: Array, space: Ints, geometry: Geometry, groups: int
) -> Array:
    """The adjoint of `correlate` in its input: (batch, channels, *space)."""
    own = own_convolutions(xp)
    if own is not None and y.size and weight.size:
        return own.spread(wide(y), wide(weight), space, geometry, groups)
    y, weight = wide(y), wide(weight)
    last = _with_channels_last(xp, y, weight, groups)
    if last is not None and weight.shape[0] == groups > 1:
        found = channels_last_maps.spread_channels(last, weight, space, geometry)
        if found is not None:
            return found
    if weight.shape[1] == 1 and groups > 1 and y.size and weight.size:
        found = _spread_of_channels(xp, y, weight, space, geometry, groups)
        if found is not None:
            return found
    size, places = weight.shape[2:], y.shape[2:]
    if _is_gathered(xp, weight, geometry, groups) and y.size:
        _, padding, dilation = geometry
        before = [reach(k, d) - 1 - p for k, d, p in zip(size, dilation, padding)]
        turned = (geometry[0], before, dilation)
        return correlate(xp, y, _turned(xp, weight, groups), space, turned, groups)
    if last is not None and groups == 1:
        return channels_last_maps.spread(last, weight, space, geometry)
    matrix = xp.swapaxes(_weight_matrix(weight, groups), 1, 2)
    grouped = _by_group(y, groups)
    grouped = grouped.reshape(*grouped.shape[:3], prod(places))
    out = xp.empty((y.shape[0], groups, weight.shape[1], *space), matrix.dtype)
    most = _COLUMNS_IN_CACHE if xp is np else _COLUMNS_AT_ONCE
    for part in _samples(y.shape[0], groups * matrix.shape[1] * prod(places), most):
        columns = xp.matmul(matrix, grouped[part])
        folded = _folded(xp, columns, size, places, space, geometry)
        out = assigned_at(xp, out, part, folded)
    return out.reshape(y.shape[0], groups * weight.shape[1], *space)


def weight_sums(
    xp: ModuleType, x: Array, y: Array, size: Ints, geometry: Geometry, groups: int
) -> Array:
    """The adjoint of `correlate` in its weight: (y's channels, x's channels of a group, *size)."""
    own = own_convolutions(xp)
    if own is not None and x.size and y.size:
        return own.weight_sums(wide(x), wide(y), size, geometry, groups)
    x, y = wide(x), wide(y)
    last = _with_channels_last(xp, x, y, groups)
    if last is not None and groups == 1:
        return channels_last_maps.weight_sums(last, laid_last(y), size, geometry)
    if last is not None and y.shape[1] == groups:
        found = channels_last_maps.sums_of_channels(last, laid_last(y), size, geometry)
        if found is not None:
            return found
    if groups == x.shape[1] > 1 and x.size and y.size:
        found = _sums_of_channels(xp, x, y, size, geometry)
        if found is not None:
            return found
    places = y.shape[2:]
    inner, outer = _by_group(x, groups), _by_group(y, groups)
    outer = outer.reshape(*outer.shape[:3], prod(places))
    rows, columns = outer.shape[2], inner.shape[2] * prod(size)
    total = xp.zeros((groups, rows, columns), outer.dtype)
    for part, seen, matrices in _columns(xp, inner, size, places, geometry):
        products = xp.matmul(outer[part, ..., seen], xp.swapaxes(matrices, -1, -2))
        total += products.sum(axis=0)
    result: Array = total.reshape(y.shape[1], inner.shape[2], *size)
    return result
