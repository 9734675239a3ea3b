"""Remainders, rounded quotients, neighbours and lengths: exact, or rounded once.

A remainder is found by one division where the quotient has at most 53 bits: cut to a whole number,
it is off by one at most, and what it leaves is exact in a fused product. The C library, which goes
bit by bit, is left the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fma, inlined
from maquette.backends.loops.elementwise import flat

Array = npt.NDArray[Any]

_EXACT = 2.0**52


def _paired(loop: Any, a: Array, b: Array) -> Array:
    """What a loop over two arrays of one shape, or an array and a number, puts into a new one."""
    out = np.empty(a.shape, a.dtype)
    loop(flat(a), flat(b) if b.ndim else b.reshape(1), out.reshape(-1))
    return out


# --- remainders ----------------------------------------------------------------------------


@inlined
def _rest(x: Any, y: Any) -> Any:
    """What ``x`` leaves when it is divided by ``y``, with the sign of ``x``."""
    v, w = abs(np.float64(x)), abs(np.float64(y))
    rest = fma(-np.floor(v / w), w, v)
    rest = rest + w if rest < 0.0 else rest
    rest = v if v < w else rest
    return np.copysign(rest, np.float64(x))


@inlined
def _is_hard(x: Any, y: Any) -> Any:
    v, w = abs(np.float64(x)), abs(np.float64(y))
    return (v / w > _EXACT) & (v < np.inf) & (w > 0.0)


@compiled
def _rests(a: Array, b: Array, out: Array) -> None:
    hard, step = 0, 0 if b.size == 1 else 1
    for i in range(a.size):
        x, y = a[i], b[i * step]
        out[i] = _rest(x, y)
        hard += 1 if _is_hard(x, y) else 0
    for i in range(a.size if hard else 0):
        if _is_hard(a[i], b[i * step]):
            out[i] = np.fmod(a[i], b[i * step])


@compiled
def _signed_rests(a: Array, b: Array, out: Array) -> None:
    _rests(a, b, out)
    step = 0 if b.size == 1 else 1
    for i in range(a.size):
        rest, y = out[i], b[i * step]
        out[i] = rest + y if (rest != 0) & ((rest < 0) != (y < 0)) else rest


@compiled
def _floors(a: Array, b: Array, out: Array) -> None:
    _rests(a, b, out)
    half, one, zero = a.dtype.type(0.5), a.dtype.type(1), a.dtype.type(0)
    step = 0 if b.size == 1 else 1
    for i in range(a.size):
        x, y, rest = a[i], b[i * step], out[i]
        quotient = (x - rest) / y
        quotient -= one if (rest != zero) & ((rest < zero) != (y < zero)) else zero
        whole = np.floor(quotient)
        whole += one if quotient - whole > half else zero
        whole = np.copysign(whole, x / y) if quotient == zero else whole
        out[i] = x / y if y == zero else whole


def fmod(a: Array, b: Array) -> Array:
    """The remainder of the sign of ``a``; ``b`` may have no dimensions."""
    return _paired(_rests, a, b)


def remainder(a: Array, b: Array) -> Array:
    """The remainder of the sign of ``b``; a zero has that of ``a``."""
    return _paired(_signed_rests, a, b)


def floor_quotient(a: Array, b: Array) -> Array:
    """``floor(a / b)`` from the exact remainder."""
    return _paired(_floors, a, b)


# --- neighbours ----------------------------------------------------------------------------


@compiled
def _neighbours(
    x: Array, y: Array, of_x: Array, of_y: Array, least: Any, one: Any, nan: Any, out: Array
) -> None:
    for i in range(x.size):
        away = (x[i] < y[i]) == (x[i] > 0)
        moved = of_x[i] + one if away else of_x[i] - one
        moved = (one if y[i] > 0 else least + one) if x[i] == 0 else moved
        moved = of_y[i] if x[i] == y[i] else moved
        out[i] = nan if (x[i] != x[i]) | (y[i] != y[i]) else moved


def nextafter(x: Array, y: Array) -> Array:
    """The numbers after ``x`` towards ``y``, of one shape: one more or less in their bits."""
    whole, out = np.dtype(f"i{x.itemsize}"), np.empty(x.shape, x.dtype)
    one, least = whole.type(1), whole.type(np.iinfo(whole).min)
    nan = x.dtype.type(np.nan).view(whole)
    x, y = flat(x), flat(y)
    of_out = out.reshape(-1).view(whole)
    _neighbours(x, y, x.view(whole), y.view(whole), least, one, nan, of_out)
    return out


# --- sums of products ----------------------------------------------------------------------


@compiled
def _fused_sums(x: Array, factor: float, added: float, out: Array) -> None:
    for i in range(x.size):
        out[i] = fma(x[i], factor, added)


def fused_sum(x: Array, factor: float, added: float) -> Array:
    """``x * factor + added`` of doubles, rounded once."""
    out = np.empty(x.shape, x.dtype)
    _fused_sums(flat(x), float(factor), float(added), out.reshape(-1))
    return out


@compiled
def _add_scaled(target: Array, other: Array, factor: Any) -> None:
    for i in range(target.size):
        target[i] += other[i] * factor


def add_scaled(target: Array, other: Array, factor: Array, act: str) -> bool:
    """Add ``factor * other`` to a target of its shape, or "subtract" it, in one pass over memory.

    False where one of the two is in other memory than a row's, or they share some: nothing is done.
    """
    in_rows = target.flags.c_contiguous and other.flags.c_contiguous
    if not in_rows or np.may_share_memory(target, other):
        return False
    by = factor[()] if act == "add" else -factor[()]
    _add_scaled(target.reshape(-1), other.reshape(-1), by)
    return True


# --- lengths, points between ---------------------------------------------------------------

_HUGE, _TINY = 2.0**511, 2.0**-459


@compiled
def _lengths(x: Array, y: Array, out: Array) -> None:
    for i in range(x.size):
        a, b = abs(x[i]), abs(y[i])
        most = max(a, b)
        scale = 2.0**-600 if most > _HUGE else (2.0**600 if most < _TINY else 1.0)
        a, b = a * scale, b * scale
        length = np.sqrt(fma(a, a, b * b)) / scale
        out[i] = np.inf if (a == np.inf) | (b == np.inf) else length


@compiled
def _single_lengths(x: Array, y: Array, out: Array) -> None:
    for i in range(x.size):
        a, b = np.float64(x[i]), np.float64(y[i])  # their squares are exact
        length = np.sqrt(a * a + b * b)
        out[i] = np.inf if (abs(a) == np.inf) | (abs(b) == np.inf) else length


def hypot(x: Array, y: Array) -> Array:
    """``sqrt(x² + y²)``, of doubles within an ulp; infinite where one of the two is."""
    return _paired(_single_lengths if x.dtype == np.float32 else _lengths, x, y)


@compiled
def _between(a: Array, b: Array, w: Array, half: Any, one: Any, out: Array) -> None:
    for i in range(a.size):
        step = b[i] - a[i]
        near, far = a[i] + w[i] * step, b[i] - step * (one - w[i])
        out[i] = near if abs(w[i]) < half else far


def lerp(a: Array, b: Array, w: Array) -> Array:
    """The points between ``a`` and ``b`` that ``w`` says, from the nearer end; the plain bits."""
    out = np.empty(a.shape, a.dtype)
    kind = a.dtype.type
    _between(flat(a), flat(b), flat(w), kind(0.5), kind(1), out.reshape(-1))
    return out
