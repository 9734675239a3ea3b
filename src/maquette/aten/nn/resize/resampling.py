"""How one dimension is resampled: for each output element, which inputs count and how much.

A rule gives `Taps`. Outputs that take fewer inputs than others have taps at the index ``size``, of
weight 0. All dimensions are resampled one after the
other, the last first. Positions are computed in the precision that PyTorch takes, since
where a position falls decides which element is nearest. Nothing here knows tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from types import ModuleType
from typing import cast

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import combined_at, from_host
from maquette.aten.common.channels_last import channels_second, with_channels_last
from maquette.aten.common.large_arrays import loops_worth


@dataclass(frozen=True, slots=True)
class Taps:
    """How one dimension is resampled; indices and weights are [taps, outputs] and not written."""

    index: Array
    weights: Array
    is_choice: bool = False  # every output is one input as it is
    reaches_beyond: bool = False  # some taps are at the index ``size``


Rule = Callable[[int, int, float | None, type[np.floating]], Taps]

_ONE = Taps(np.zeros((1, 1), np.int64), np.ones((1, 1)), is_choice=True)
_KEPT, _LONGEST = 64, 4096


def _keeping(rule: Rule) -> Rule:
    """The rule with its last taps kept, those of up to 4,096 outputs: 10 to 60 us a dimension."""
    kept = cast(Rule, lru_cache(_KEPT)(rule))  # mypy takes classes for what cannot be hashed

    def taps(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
        return (kept if out <= _LONGEST else rule)(size, out, scale, kind)

    return taps


#: The bend of PyTorch's cubic; the one that smooths takes Pillow's.
_CUBIC, _SMOOTH_CUBIC = -0.75, -0.5


@_keeping
def nearest_taps(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
    """The element at or before the position, in float32 for every type."""
    return _nearest(size, out, scale, 0.0)


@_keeping
def nearest_exact_taps(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
    """The element whose centre is nearest."""
    return _nearest(size, out, scale, 0.5)


def _nearest(size: int, out: int, scale: float | None, shift: float) -> Taps:
    step = _step(size, out, scale, np.float32)
    positions = (np.arange(out, dtype=np.float32) + np.float32(shift)) * step
    index = np.minimum(np.floor(positions).astype(np.int64), size - 1)
    return Taps(index[None], np.ones((1, out)), is_choice=True)


def _step(
    size: int, out: int, scale: float | None, kind: type[np.floating], align: bool = False
) -> np.floating:
    """The distance between outputs, in inputs."""
    if align:
        return kind(size - 1) / kind(out - 1) if out > 1 else kind(0)
    if scale is not None and scale > 0:
        return kind(1.0 / scale)
    return kind(size) / kind(out)


def _positions(
    size: int, out: int, scale: float | None, kind: type[np.floating], align: bool
) -> Array:
    step = _step(size, out, scale, kind, align)
    numbers = np.arange(out, dtype=kind)
    if align:
        return step * numbers
    # The product is not rounded before the difference, as where one instruction does both.
    positions: Array = np.float64(step) * (numbers + kind(0.5)) - 0.5
    return positions.astype(kind)


def _same(size: int, kind: type[np.floating]) -> Taps:
    return Taps(np.arange(size)[None], np.ones((1, size), kind), is_choice=True)


@cache
def linear_taps(align: bool) -> Rule:
    """The two neighbours, weighted by distance; the border is extended."""

    def rule(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
        if size == out:
            return _same(size, kind)
        at = np.maximum(_positions(size, out, scale, kind, align), 0)
        left = np.minimum(np.floor(at).astype(np.int64), size - 1)
        share = np.clip(at - left.astype(kind), 0, 1)
        right = np.minimum(left + 1, size - 1)
        return Taps(np.stack([left, right]), np.stack([1 - share, share]))

    return _keeping(rule)


@cache
def cubic_taps(align: bool) -> Rule:
    """Four neighbours by cubic convolution; the border is extended."""

    def rule(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
        at = _positions(size, out, scale, kind, align)
        left = np.minimum(np.floor(at).astype(np.int64), size - 1)
        share = np.clip(at - left.astype(kind), 0, 1)
        index = np.clip(left + np.arange(-1, 3)[:, None], 0, size - 1)
        distance = np.stack([1 + share, share, 1 - share, 2 - share])
        return Taps(index, _cubic(distance, _CUBIC).astype(kind))

    return _keeping(rule)


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _triangle(x: Array) -> Array:
    return np.maximum(0, 1 - np.abs(x))


@cache
def smooth_taps(align: bool, kernel: str) -> Rule:
    """All inputs under a filter widened to the distance between outputs (antialiasing).

    kernel: "triangle", "cubic" or "lanczos", the filter's weights by distance.
    """
    reach, weights_at = _FILTERS[kernel]

    def rule(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
        if size == out:  # kept, whatever scale is given, as in PyTorch
            return _same(size, kind)
        step = _step(size, out, scale, kind, align)
        wide = max(step, kind(1))
        span, narrow = kind(reach) * wide, np.float64(kind(1) / wide)
        centre = (float(step) * (np.arange(out) + 0.5)).astype(kind)
        first = np.maximum(np.floor((centre - span).astype(np.float64) + 0.5), 0)
        # With a scale that does not belong to the sizes there may be no input at all.
        last = np.minimum(np.floor((centre + span).astype(np.float64) + 0.5), size)
        last = np.maximum(last, first)
        place = first + np.arange(int((last - first).max(initial=1)))[:, None]
        # What is rounded to float32, and when, is PyTorch's: weights are then its bits.
        offset = place.astype(kind) - centre
        distance = ((offset.astype(np.float64) + 0.5) * narrow).astype(kind)
        within = place < last
        w = np.where(within, weights_at(distance), kind(0))
        index = np.where(within, place, size).astype(np.int64)
        weights = np.zeros(index.shape, kind)
        np.divide(w, np.cumsum(w, 0)[-1:], out=weights, where=within)
        beyond = bool((index == size).any())
        return Taps(index, weights, reaches_beyond=beyond)

    return _keeping(rule)


def _lanczos(distance: Array) -> Array:
    """The sinc of a distance, windowed by one of three times its width."""
    inside: Array = np.sinc(distance) * np.sinc(distance / 3)
    return np.where(abs(distance) < 3, inside, 0).astype(distance.dtype)


_FILTERS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "triangle": (1.0, lambda distance: _triangle(distance)),
    "cubic": (2.0, lambda distance: _cubic(distance, _SMOOTH_CUBIC)),
    "lanczos": (3.0, _lanczos),
}


# --- applying taps ----------------------------------------------------------------------------


def resampled(xp: ModuleType, x: Array, taps: Sequence[Taps]) -> Array:
    """The array with its last dimensions resampled, the last of them first."""
    if all(each.is_choice for each in taps):
        return _chosen(xp, x, taps)
    loops = loops_worth(xp, x, 50.0 * len(taps))
    if loops is not None:
        return _by_loop(loops.resampled_planes, x, [len(each.index[0]) for each in taps], taps)
    for axis, each in zip(_from_the_last(x, taps), taps):
        x = _resampled(xp, x, axis, each)
    return x


def resampled_back(
    xp: ModuleType, grad: Array, sizes: Sequence[int], taps: Sequence[Taps]
) -> Array:
    """The adjoint of `resampled`: each output's gradient goes to the inputs that it came from.

    sizes: of the inputs' dimensions, the last first, as the taps are.
    """
    loops = loops_worth(xp, grad, 50.0 * len(taps))
    if loops is not None:
        return _by_loop(loops.planes_back, grad, sizes, taps, spaces=True)
    for axis, size, each in zip(_from_the_last(grad, taps), sizes, taps):
        grad = _sent_back(xp, grad, axis, size, each)
    return grad


def _from_the_last(x: Array, taps: Sequence[Taps]) -> range:
    return range(x.ndim - 1, x.ndim - 1 - len(taps), -1)


def _chosen(xp: ModuleType, x: Array, taps: Sequence[Taps]) -> Array:
    """`resampled` where every output is one input: NumPy takes those of all dimensions at once."""
    if xp is not np:
        for axis, each in zip(_from_the_last(x, taps), taps):
            x = xp.take(x, from_host(xp, each.index[0]), axis=axis)
        return x
    at, stride = np.zeros((), np.int64), 1
    for n, each in zip(reversed(x.shape), taps):
        index = each.index[0].reshape(-1, *(1,) * at.ndim)
        at, stride = index * stride + at, stride * n
    dims = len(taps)
    turned = with_channels_last(x)
    if turned is None:
        shape = (*x.shape[:-dims], stride)
        return x.reshape(shape).take(at, -1)
    lines = turned.reshape(len(turned), stride, turned.shape[-1])
    return channels_second(lines.take(at, 1))


_Loop = Callable[..., Array]


def _by_loop(
    loop: _Loop, x: Array, sizes: Sequence[int], taps: Sequence[Taps], *, spaces: bool = False
) -> Array:
    """A loop over planes [outer, height, width, inner], which takes the last two dimensions first.

    sizes: of the result, the last first. spaces: whether the loop has to be told them.
    """
    turned = with_channels_last(x)
    rows = np.ascontiguousarray(x)[..., None] if turned is None else turned
    for first in range(0, len(taps), 2):
        last = rows.ndim - 2 - first
        low = last - 1 if first + 1 < len(taps) else last
        columns, down = taps[first], taps[first + 1] if low < last else _ONE
        by = [(each.index, each.weights.astype(x.dtype, copy=False)) for each in (down, columns)]
        height = rows.shape[low] if low < last else 1
        planes = rows.reshape(-1, height, rows.shape[last], prod(rows.shape[last + 1 :]))
        made = (sizes[first + 1] if low < last else 1, sizes[first])
        options = (made,) if spaces else ()
        found = loop(planes, *by, *options)
        space = made if low < last else made[1:]
        rows = found.reshape(*rows.shape[:low], *space, *rows.shape[last + 1 :])
    return rows[..., 0] if turned is None else channels_second(rows)


def _resampled(xp: ModuleType, x: Array, axis: int, taps: Taps) -> Array:
    """The array with one dimension resampled."""
    index = taps.index
    if taps.reaches_beyond:
        # A product of 0 and an infinite element of another window would be NaN.
        rest = xp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
        x = xp.concatenate([x, rest], axis=axis)
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    total = xp.zeros((*x.shape[:axis], index.shape[1], *x.shape[axis + 1 :]), x.dtype)
    for i, w in zip(*_brought(xp, taps, shape, x)):
        total = total + xp.take(x, i, axis=axis) * w
    return total


def _brought(
    xp: ModuleType, taps: Taps, shape: Sequence[int], like: Array
) -> tuple[list[Array], list[Array]]:
    """The indices, and the weights in a shape and the dtype of an array, in the library of it."""
    shaped = [w.astype(like.dtype).reshape(shape) for w in taps.weights]
    return [from_host(xp, i) for i in taps.index], [from_host(xp, w) for w in shaped]


def _sent_back(xp: ModuleType, grad: Array, axis: int, size: int, taps: Taps) -> Array:
    """The adjoint along one dimension."""
    moved = xp.moveaxis(grad, axis, 0)
    total = xp.zeros((size + taps.reaches_beyond, *moved.shape[1:]), grad.dtype)
    index, weights = _brought(xp, taps, (-1, *[1] * (grad.ndim - 1)), grad)
    for i, w in zip(index, weights):
        total = combined_at(xp, "add", total, i, moved * w)
    return xp.moveaxis(total[:size], 0, axis)


def resampled_bytes(xp: ModuleType, x: Array, taps: Sequence[Taps]) -> Array:
    """`resampled` bytes: in fixed point, rounded after each dimension, as image libraries do."""
    for axis, each in zip(_from_the_last(x, taps), taps):
        if each.is_choice:
            x = xp.take(x, from_host(xp, each.index[0]), axis=axis)
        else:
            x = _resampled_bytes(xp, x, axis, each)
    return x


def _resampled_bytes(xp: ModuleType, x: Array, axis: int, taps: Taps) -> Array:
    index, weights = taps.index, taps.weights
    size, out = x.shape[axis], index.shape[1]
    matrix = np.zeros((out, size))
    np.add.at(matrix, (np.arange(out), np.minimum(index, size - 1)), weights)
    precision = _precision(float(matrix.max()))
    whole = np.trunc(matrix * (1 << precision) + np.where(matrix < 0, -0.5, 0.5))
    # Products and sums of integers are exact in float64.
    sums = xp.moveaxis(xp.tensordot(from_host(xp, whole), x.astype(xp.float64), (1, axis)), 0, axis)
    values = xp.floor((sums + (1 << (precision - 1))) / (1 << precision))
    return xp.clip(values, 0, 255).astype(xp.uint8)


def _precision(largest: float) -> int:
    """The most bits with which the largest weight fits 16 bits."""
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits
