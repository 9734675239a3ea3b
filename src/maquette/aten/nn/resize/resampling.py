"""How one dimension is resampled: for each output element, which inputs count and how much.

A rule gives *taps*: indices and weights, (taps, outputs) each. Outputs that take fewer inputs than
others have taps at the index ``size``, of weight 0. All dimensions are resampled one after the
other, the last first. Positions are computed in the precision that PyTorch takes, since
where a position falls decides which element is nearest. Nothing here knows tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import combined_at, from_host
from maquette.aten.common.large_arrays import loops_for_floats

Taps = tuple[Array, Array]
Rule = Callable[[int, int, float | None, type[np.floating]], Taps]

#: The bend of PyTorch's cubic; the one that smooths takes Pillow's.
_CUBIC, _SMOOTH_CUBIC = -0.75, -0.5


def nearest_taps(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
    """The element at or before the position, in float32 for every type."""
    return _nearest(size, out, scale, 0.0)


def nearest_exact_taps(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
    """The element whose centre is nearest."""
    return _nearest(size, out, scale, 0.5)


def _nearest(size: int, out: int, scale: float | None, shift: float) -> Taps:
    step = _step(size, out, scale, np.float32)
    positions = (np.arange(out, dtype=np.float32) + np.float32(shift)) * step
    index = np.minimum(np.floor(positions).astype(np.int64), size - 1)
    return index[None], np.ones((1, out))


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


def linear_taps(align: bool) -> Rule:
    """The two neighbours, weighted by distance; the border is extended."""

    def rule(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
        if size == out:
            return np.arange(size)[None], np.ones((1, size), kind)
        at = np.maximum(_positions(size, out, scale, kind, align), 0)
        left = np.minimum(np.floor(at).astype(np.int64), size - 1)
        share = np.clip(at - left.astype(kind), 0, 1)
        right = np.minimum(left + 1, size - 1)
        return np.stack([left, right]), np.stack([1 - share, share])

    return rule


def cubic_taps(align: bool) -> Rule:
    """Four neighbours by cubic convolution; the border is extended."""

    def rule(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
        at = _positions(size, out, scale, kind, align)
        left = np.minimum(np.floor(at).astype(np.int64), size - 1)
        share = np.clip(at - left.astype(kind), 0, 1)
        index = np.clip(left + np.arange(-1, 3)[:, None], 0, size - 1)
        distance = np.stack([1 + share, share, 1 - share, 2 - share])
        return index, _cubic(distance, _CUBIC).astype(kind)

    return rule


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _triangle(x: Array) -> Array:
    return np.maximum(0, 1 - np.abs(x))


def smooth_taps(align: bool, kernel: str) -> Rule:
    """All inputs under a filter widened to the distance between outputs (antialiasing).

    kernel: "triangle", "cubic" or "lanczos", the filter's weights by distance.
    """
    reach, weights_at = _FILTERS[kernel]

    def rule(size: int, out: int, scale: float | None, kind: type[np.floating]) -> Taps:
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
        return index, weights

    return rule


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


def resampled(xp: ModuleType, x: Array, axis: int, taps: Taps) -> Array:
    """The array with one dimension resampled."""
    index, weights = taps
    if _has_unused(index, x.shape[axis]):
        # A product of 0 and an infinite element of another window would be NaN.
        rest = xp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
        x = xp.concatenate([x, rest], axis=axis)
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    loops = loops_for_floats(xp, x)
    if loops is not None:
        return _by_loop(loops.resampled, x, axis, taps)
    if len(index) == 1 and (weights == 1).all():
        return xp.take(x, from_host(xp, index[0]), axis=axis)
    total = xp.zeros((*x.shape[:axis], index.shape[1], *x.shape[axis + 1 :]), x.dtype)
    for i, w in zip(*_brought(xp, taps, shape, x)):
        total = total + xp.take(x, i, axis=axis) * w
    return total


def _has_unused(index: Array, size: int) -> bool:
    """Whether there are taps at no input."""
    return bool(index.max(initial=0) == size)


def _by_loop(loop: Callable[..., Array], x: Array, axis: int, taps: Taps) -> Array:
    """A loop over arrays [outer, size, inner] with taps, along an axis; in the order of memory."""
    index, weights = taps
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    if not x.transpose(order).flags.c_contiguous:
        order = list(range(x.ndim))
    rows, at = np.ascontiguousarray(x.transpose(order)), order.index(axis)
    outer, inner = prod(rows.shape[:at]), prod(rows.shape[at + 1 :])
    found = loop(rows.reshape(outer, x.shape[axis], inner), index, weights.astype(x.dtype))
    made = found.reshape(*rows.shape[:at], found.shape[1], *rows.shape[at + 1 :])
    return made.transpose([order.index(d) for d in range(x.ndim)])


def _brought(
    xp: ModuleType, taps: Taps, shape: Sequence[int], like: Array
) -> tuple[list[Array], list[Array]]:
    """The indices, and the weights in a shape and the dtype of an array, in the library of it."""
    index, weights = taps
    shaped = [w.astype(like.dtype).reshape(shape) for w in weights]
    return [from_host(xp, i) for i in index], [from_host(xp, w) for w in shaped]


def resampled_back(xp: ModuleType, grad: Array, axis: int, size: int, taps: Taps) -> Array:
    """The adjoint of `resampled`: each output's gradient goes to the inputs that it came from."""
    if _has_unused(taps[0], size):
        total = _sent_back(xp, grad, axis, size + 1, taps)
        return total[(*[slice(None)] * axis, slice(size))]
    return _sent_back(xp, grad, axis, size, taps)


def _sent_back(xp: ModuleType, grad: Array, axis: int, size: int, taps: Taps) -> Array:
    """The adjoint along one dimension, for taps that are all below a size."""
    loops = loops_for_floats(xp, grad)
    if loops is not None:
        return _by_loop(partial(loops.resampled_back, size=size), grad, axis, taps)
    moved = xp.moveaxis(grad, axis, 0)
    total = xp.zeros((size, *moved.shape[1:]), grad.dtype)
    index, weights = _brought(xp, taps, (-1, *[1] * (grad.ndim - 1)), grad)
    for i, w in zip(index, weights):
        total = combined_at(xp, "add", total, i, moved * w)
    return xp.moveaxis(total, 0, axis)


def resampled_bytes(xp: ModuleType, x: Array, axis: int, taps: Taps) -> Array:
    """One dimension of bytes, in fixed point with a rounding at the end, as image libraries do."""
    index, weights = taps
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


def dims_of(x: Array, dims: int) -> Sequence[int]:
    """The spatial axes, the last first."""
    return range(x.ndim - 1, x.ndim - dims - 1, -1)
