"""Functions of elements that are made of straight pieces: the plain path's bits, in one pass.

NumPy takes a pass for each comparison and each product, and chooses between two values with a
branch an element. The numbers of a function are given in the type of its array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled
from maquette.backends.loops.elementwise import flat

Array = npt.NDArray[Any]


def mapped(loop: Callable[..., None], x: Array, *numbers: float) -> Array:
    """What a loop over an array's elements puts into a new array."""
    out = np.empty(x.shape, x.dtype)
    loop(flat(x), *[x.dtype.type(n) for n in numbers], out.reshape(-1))
    return out


# --- one of two ----------------------------------------------------------------------------


@compiled
def _choose(mask: Array, a: Array, b: Array, out: Array) -> None:
    for i in range(mask.size):
        out[i] = a[i] if mask[i] else b[i]


@compiled
def _choose_or(mask: Array, a: Array, b: Any, out: Array) -> None:
    for i in range(mask.size):
        out[i] = a[i] if mask[i] else b


def chosen(mask: Array, a: Array, b: Array) -> Array:
    """``where(mask, a, b)`` of one type and shape; ``b`` may have no dimensions."""
    out = np.empty(a.shape, a.dtype)
    if b.ndim:
        _choose(flat(mask), flat(a), flat(b), out.reshape(-1))
    else:
        _choose_or(flat(mask), flat(a), b[()], out.reshape(-1))
    return out


# --- a line --------------------------------------------------------------------------------


@compiled
def _progression(start: Any, step: Any, out: Array) -> None:
    for i in range(out.size):
        out[i] = start + i * step


def progression(start: float, step: float, count: int, kind: np.dtype[Any]) -> Array:
    """``start + step * i`` for i below ``count``, computed in float64, or int64 for integers."""
    out = np.empty(count, kind)
    work = np.int64 if kind.kind in "iu" else np.float64
    _progression(work(start), work(step), out)
    return out


# --- activations ---------------------------------------------------------------------------


@compiled
def _leaky(x: Array, slope: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = x[i] if x[i] > 0 else x[i] * slope


def leaky_relu(x: Array, slope: float) -> Array:
    """``x`` where it is positive, else ``x * slope``."""
    return mapped(_leaky, x, slope)


@compiled
def _leaky_rows(x: Array, slopes: Array, out: Array) -> None:
    for r in range(x.shape[0]):
        _leaky(x[r], slopes[r], out[r])


def leaky_channels(x: Array, slopes: Array) -> Array:
    """`leaky_relu` of [batch, channels, ...] with a slope for each channel."""
    out = np.empty(x.shape, x.dtype)
    rows = (x.shape[0] * slopes.size, -1)
    given = np.ascontiguousarray(x).reshape(rows)
    _leaky_rows(given, np.tile(slopes, x.shape[0]), out.reshape(rows))
    return out


@compiled
def _over(x: Array, limit: Any, value: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = value if x[i] <= limit else x[i]


def threshold(x: Array, limit: float, value: float) -> Array:
    """``x``, but ``value`` where it is at most ``limit``."""
    return mapped(_over, x, limit, value)


@compiled
def _outside(x: Array, least: Any, most: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        out[i] = zero if (x[i] >= least) & (x[i] <= most) else x[i]


def hardshrink(x: Array, limit: float) -> Array:
    """``x``, but zero where its magnitude is at most ``limit``."""
    return mapped(_outside, x, -limit, limit)


@compiled
def _shrunk(x: Array, limit: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        v = x[i]
        inner = v + limit if v < -limit else v * zero
        out[i] = v - limit if v > limit else inner


def softshrink(x: Array, limit: float) -> Array:
    """``x`` moved towards zero by ``limit``."""
    return mapped(_shrunk, x, limit)


@compiled
def _hard_sigmoid(x: Array, three: Any, six: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        v = x[i] + three
        v = zero if v < zero else v
        out[i] = (six if v > six else v) / six


def hardsigmoid(x: Array) -> Array:
    """``(x + 3) / 6`` brought between 0 and 1."""
    return mapped(_hard_sigmoid, x, 3, 6)


@compiled
def _hard_swish(x: Array, three: Any, six: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        v = x[i] + three
        v = zero if v < zero else v
        out[i] = x[i] * ((six if v > six else v) / six)


def hardswish(x: Array) -> Array:
    """``x * hardsigmoid(x)``."""
    return mapped(_hard_swish, x, 3, 6)


# --- slopes --------------------------------------------------------------------------------


def _sloped(loop: Callable[..., None], grad: Array, x: Array, *numbers: float) -> Array:
    """What a loop over a gradient, which may be one number expanded, and an operand finds."""
    out = np.empty(x.shape, x.dtype)
    one = x.size > 0 and not any(grad.strides)
    given = grad.reshape(-1)[:1] if one else flat(grad)
    loop(given, flat(x), *[x.dtype.type(n) for n in numbers], out.reshape(-1))
    return out


@compiled
def _leaky_slope(grad: Array, x: Array, slope: Any, out: Array) -> None:
    step = 0 if grad.size == 1 else 1
    for i in range(x.size):
        out[i] = grad[i * step] if x[i] > 0 else grad[i * step] * slope


def leaky_relu_backward(grad: Array, x: Array, slope: float) -> Array:
    """The gradient by x from that by ``leaky_relu(x, slope)``."""
    return _sloped(_leaky_slope, grad, x, slope)


@compiled
def _hard_sigmoid_slope(grad: Array, x: Array, three: Any, six: Any, out: Array) -> None:
    zero, step = x.dtype.type(0), 0 if grad.size == 1 else 1
    for i in range(x.size):
        inner = grad[i * step] / six
        out[i] = inner if abs(x[i]) < three else zero


def hardsigmoid_backward(grad: Array, x: Array) -> Array:
    """The gradient by x from that by ``hardsigmoid(x)``."""
    return _sloped(_hard_sigmoid_slope, grad, x, 3, 6)


@compiled
def _hard_swish_slope(grad: Array, x: Array, three: Any, half: Any, out: Array) -> None:
    zero, step = x.dtype.type(0), 0 if grad.size == 1 else 1
    for i in range(x.size):
        g = grad[i * step]
        inner = g if x[i] >= three else g * (x[i] / three + half)
        out[i] = zero if x[i] <= -three else inner


def hardswish_backward(grad: Array, x: Array) -> Array:
    """The gradient by x from that by ``hardswish(x)``."""
    return _sloped(_hard_swish_slope, grad, x, 3, 0.5)


@compiled
def _shrunk_slope(grad: Array, x: Array, limit: Any, out: Array) -> None:
    zero, step = x.dtype.type(0), 0 if grad.size == 1 else 1
    for i in range(x.size):
        out[i] = grad[i * step] if (x[i] < -limit) | (x[i] > limit) else zero


def shrunk_backward(grad: Array, x: Array, limit: float) -> Array:
    """The gradient by x from that by ``hardshrink(x, limit)`` or ``softshrink(x, limit)``."""
    return _sloped(_shrunk_slope, grad, x, limit)


# --- losses of a difference ----------------------------------------------------------------


@compiled
def _smooth_l1(d: Array, beta: Any, half: Any, out: Array) -> None:
    for i in range(d.size):
        size = abs(d[i])
        out[i] = half * d[i] * d[i] / beta if size < beta else size - half * beta


def smooth_l1(d: Array, beta: float) -> Array:
    """The magnitude less half of ``beta``, squared below ``beta``, which is positive."""
    return mapped(_smooth_l1, d, beta, 0.5)


@compiled
def _smooth_l1_slope(d: Array, beta: Any, divisor: Any, one: Any, out: Array) -> None:
    for i in range(d.size):
        v = one if d[i] >= beta else d[i] / divisor
        out[i] = -one if d[i] <= -beta else v


def smooth_l1_slope(d: Array, beta: float) -> Array:
    """The derivative of `smooth_l1`; -1 at 0 where ``beta`` is 0."""
    return mapped(_smooth_l1_slope, d, beta, beta or 1, 1)


@compiled
def _huber(d: Array, delta: Any, half: Any, out: Array) -> None:
    for i in range(d.size):
        size = abs(d[i])
        out[i] = half * d[i] * d[i] if size <= delta else delta * (size - half * delta)


def huber(d: Array, delta: float) -> Array:
    """Half the square, linear from ``delta`` on."""
    return mapped(_huber, d, delta, 0.5)


# --- outer products ------------------------------------------------------------------------


@compiled
def _scaled_row(row: Array, factor: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = factor * row[i]


@compiled
def _outer(column: Array, row: Array, out: Array) -> None:
    for i in range(column.size):
        _scaled_row(row, column[i], out[i])


@compiled
def _scaled_parts(row: Array, turned: Array, a: Any, b: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = a * row[i] + b * turned[i]


@compiled
def _outer_of_parts(column: Array, row: Array, turned: Array, out: Array) -> None:
    """Of complex numbers, by their parts; turned: the row times the imaginary unit."""
    for i in range(column.size):
        _scaled_parts(row, turned, column[i].real, column[i].imag, out[i])


@compiled
def _sum_row(base: Array, row: Array, factor: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = base[i] + factor * row[i]


@compiled
def _outer_sum(base: Array, column: Array, row: Array, out: Array) -> None:
    for i in range(column.size):
        _sum_row(base[i], row, column[i], out[i])


def outer_sum(base: Array | None, column: Array, row: Array) -> Array:
    """``base + column[:, None] * row``; the products alone without a base."""
    out, row = np.empty((column.size, row.size), row.dtype), np.ascontiguousarray(row)
    if base is None and row.dtype.kind == "c":
        turned, real = np.empty_like(row), row.real.dtype
        turned.real, turned.imag = -row.imag, row.real
        _outer_of_parts(column, row.view(real), turned.view(real), out.view(real))
    elif base is None:
        _outer(column, row, out)
    else:
        _outer_sum(np.ascontiguousarray(base), column, row, out)
    return out


# --- signs, repairs ------------------------------------------------------------------------


@compiled
def _sign(x: Array, one: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        out[i] = one if x[i] > 0 else (-one if x[i] < 0 else zero)


def sign(x: Array) -> Array:
    """1, -1 or, of zero and NaN, 0."""
    return mapped(_sign, x, 1)


@compiled
def _repair(x: Array, nan: Any, most: Any, least: Any, infinity: Any, out: Array) -> None:
    for i in range(x.size):
        v = x[i]
        v = nan if v != v else v
        v = most if x[i] == infinity else v
        out[i] = least if x[i] == -infinity else v


def nan_to_num(x: Array, nan: float, most: float, least: float) -> Array:
    """``x`` with numbers for NaN, infinity and negative infinity."""
    return mapped(_repair, x, nan, most, least, np.inf)


@compiled
def _angle(x: Array, half_turn: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        out[i] = x[i] if x[i] != x[i] else (half_turn if x[i] < 0 else zero)


def angle(x: Array) -> Array:
    """0, pi of negative numbers, NaN of NaN."""
    return mapped(_angle, x, np.pi)
