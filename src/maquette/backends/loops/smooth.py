"""Smooth activations and `erfinv`, made of the exponentials and logarithms of `elementary.py`, and
smooth functions from tables of polynomials.

Numbers that a function is given are in the type of its array, and what the plain path rounds to
that type on its way is rounded here; the rest is in double precision. Results of single precision
are the exact value rounded, or one ulp off; double ones are within 3 ulps.

A table is made of the plain path's values. The line from -16 to 16 is cut into pieces 1/16 long. On
each a polynomial is fitted to the function at Chebyshev's points, in double precision, and kept if
it gives the function between them as well: within 1e-13 of the largest value there. So results of
single precision are the plain path's or one ulp off, but for zeros of the function, and double ones
differ by that much. Elsewhere, as at kinks and for infinite numbers, the plain path gives the
values. An odd function has the table of its quotient by x, and so all its digits near 0. Tables are
made with the first use (2 to 20 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops import angles, elementary, elementwise
from maquette.backends.loops.angles import sine_cosine
from maquette.backends.loops.compiler import compiled, fused, inlined, polynomial
from maquette.backends.loops.elementary import (
    half_of_exp,
    half_of_expm1,
    log_of_1_and,
    log_of_sum,
)
from maquette.backends.loops.elementwise import flat
from maquette.backends.loops.pieces import mapped

Array = npt.NDArray[Any]

_LOOPS = elementary.LOOPS | angles.LOOPS


def function(name: str, x: Array) -> Array:
    """The function of NumPy's ``name`` of single or double numbers."""
    return mapped(_LOOPS[name], x)


# --- activations ---------------------------------------------------------------------------


@compiled
def _elu(x: Array, below: Any, scale: Any, inner: Any, out: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        v = x[i] * inner
        low = 2.0 * half_of_expm1(np.float64(v if x[i] < zero else zero), v) * below
        out[i] = low if x[i] < zero else np.float64(x[i] * scale)


def elu(x: Array, below: float, scale: float, inner: float) -> Array:
    """``x * scale`` or, below zero, ``expm1(x * inner) * below``."""
    return mapped(_elu, x, below, scale, inner)


@compiled
def _softplus(x: Array, beta: Any, limit: Any, out: Array) -> None:
    for i in range(x.size):
        v = x[i] * beta
        found = log_of_1_and(2.0 * half_of_exp(np.float64(v), v), v) / beta
        out[i] = np.float64(x[i]) if v > limit else found


def softplus(x: Array, beta: float, limit: float) -> Array:
    """``log(1 + exp(beta * x)) / beta``; ``x`` where ``beta * x`` is above ``limit``."""
    return mapped(_softplus, x, beta, limit)


@compiled
def _mish(x: Array, out: Array) -> None:
    for i in range(x.size):
        v = np.float64(x[i])
        e = 2.0 * half_of_exp(v if v < 40.0 else 40.0, x[i])
        n = e * (e + 2.0)
        out[i] = v * (n / (n + 2.0)) if v == v else v


def mish(x: Array) -> Array:
    """``x * tanh(log(1 + exp(x)))``: the hyperbolic tangent is a quotient of exponentials."""
    return mapped(_mish, x)


@compiled
def _log_sigmoid(x: Array, out: Array, buffer: Array) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):
        v = np.float64(x[i])
        e = 2.0 * half_of_exp(-abs(v), x[i])
        buffer[i] = e
        out[i] = (v if v < 0.0 else 0.0) - log_of_1_and(e, x[i])
        out[i] += zero  # a negative number may have been rounded to -0


def log_sigmoid(x: Array) -> tuple[Array, Array]:
    """``log(1 / (1 + exp(-x)))`` and ``exp(-abs(x))``."""
    out, buffer = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    _log_sigmoid(flat(x), out.reshape(-1), buffer.reshape(-1))
    return out, buffer


@compiled
def _log_sigmoid_slope(grad: Array, x: Array, buffer: Array, out: Array) -> None:
    one = x.dtype.type(1)
    for i in range(x.size):
        ratio = buffer[i] / (one + buffer[i])
        out[i] = grad[i] * (one - ratio if x[i] < 0 else ratio)


def log_sigmoid_backward(grad: Array, x: Array, buffer: Array) -> Array:
    """The gradient by x from that by the logarithm, with the plain path's bits."""
    out = np.empty(x.shape, x.dtype)
    _log_sigmoid_slope(flat(grad), flat(x), flat(buffer), out.reshape(-1))
    return out


@compiled
def _logistic(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = 1.0 / (1.0 + 2.0 * half_of_exp(-np.float64(x[i]), x[i]))


def logistic(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return elementwise.logistic(x) if x.dtype == np.float32 else mapped(_logistic, x)


@compiled
def _silu(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = x[i] * (1.0 / (1.0 + 2.0 * half_of_exp(-np.float64(x[i]), x[i])))


def silu(x: Array) -> Array:
    """``x / (1 + exp(-x))``."""
    return elementwise.silu(x) if x.dtype == np.float32 else mapped(_silu, x)


# --- the derivative of digamma -------------------------------------------------------------

# trigamma(y) less 1 / y + 1 / (2 y²), times y: Bernoulli's numbers at powers of 1 / y², from y²ᵏ
_BERNOULLI = polynomial(
    (1 / 6, -1 / 30, 1 / 42, -1 / 30),
    (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6),
)
_SHIFT = 12  # steps to where the series is exact to the last digit


@compiled
def _trigamma(x: Array, out: Array) -> None:
    for i in range(x.size):
        y = np.float64(x[i])
        inverse = 1.0 / (y + _SHIFT)
        square = inverse * inverse
        total = inverse + (inverse * square * _BERNOULLI(square, x[i]) + 0.5 * square)
        for k in range(1, _SHIFT + 1):  # the smallest terms first
            z = y + (_SHIFT - k)
            total += 1.0 / (z * z)
        out[i] = total


def trigamma(x: Array) -> Array:
    """``sum((x + k)**-2)`` over k from 0, of numbers of at least 1/2."""
    return mapped(_trigamma, x)


# --- the logarithm of gamma ----------------------------------------------------------------

# log(gamma(z)) less (z - 1/2) log(z) - z + log(2 pi) / 2, times z, by powers of 1 / z²
_STIRLING = polynomial(
    (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360),
    (),
)
_HALF_LOG_2_PI = 0.9189385332046727
_FAR_ENOUGH = 8.0  # where the series is exact to 1e-14
_ODD = np.int64(1)


@inlined
def _sine_of_turns(x: Any) -> Any:
    """``abs(sin(pi * x))`` of a double, within few ulps: what is a whole number is taken off."""
    sine, cosine, quarters = sine_cosine((x - np.rint(x)) * np.pi, np.float32(0))
    return abs(cosine if quarters & _ODD else sine)


@compiled
def _log_gamma(x: Array, out: Array) -> None:
    for i in range(x.size):
        v = np.float64(x[i])
        below = v < 0.0  # by reflection: gamma(v) * gamma(1 - v) = pi / sin(pi * v)
        y = 1.0 - v if below else v
        far = y >= _FAR_ENOUGH
        z = y if far else y + _FAR_ENOUGH
        product = y * (y + 1.0) * (y + 2.0) * (y + 3.0)
        product *= (y + 4.0) * (y + 5.0) * (y + 6.0) * (y + 7.0)
        sine = _sine_of_turns(v) if below else 1.0
        risen = 1.0 if far else product
        steps = log_of_sum(np.pi * risen / sine if below else risen, 0.0, v)
        inverse = 1.0 / z
        tail = inverse * _STIRLING(inverse * inverse, x[i]) + _HALF_LOG_2_PI
        found = (z - 0.5) * log_of_sum(z, 0.0, v) - z + tail
        found = steps - found if below else found - steps
        infinite = (abs(v) == np.inf) | (v == 0.0) | (sine == 0.0)
        out[i] = np.inf if infinite else (found if v == v else v)


def log_gamma(x: Array) -> Array:
    """The logarithm of the gamma function's magnitude, of single numbers, to 1e-13."""
    return mapped(_log_gamma, x)


# --- the inverse of the error function -----------------------------------------------------

# erfinv(x) / x by w = -log(1 - x²), after M. Giles, "Approximating the erfinv function" (2010):
# of w on [0, 5], of its root above.
_NEAR = polynomial(
    (
        0.8862269259848612, 0.23201363597254435, 0.0115496294379254, -0.0023361466735817536,
        -0.0001261139706229159, 4.4565312030348626e-05, 3.333483410412171e-06,
        -1.518536847428987e-06, 6.490149306416782e-08, 2.069066954763391e-08,
        -2.9579444605910576e-09, 1.233400826180169e-10,
    ),
    (),
)  # fmt: skip
_TAIL = polynomial(
    (
        -2.739528428452872, 11.630406543765273, -15.858976277510004, 12.425343593191565,
        -5.736927779567714, 1.5512631910286836, -0.18985478864985467, -0.019032627955032508,
        0.0116017116592333, -0.001993746001961916, 0.000166420511543148, -5.715052238943784e-06,
    ),
    (),
)  # fmt: skip


@inlined
def _erfinv_of(x: Any) -> Any:
    v = np.float64(x)
    w = -log_of_sum((1.0 - v) * (1.0 + v), 0.0, x)
    found = v * (_NEAR(w, x) if w < 5.0 else _TAIL(np.sqrt(w), x))
    found = found if abs(v) < 1.0 else np.nan
    return np.copysign(np.inf, v) if abs(v) == 1.0 else found


@compiled
def _erfinv(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _erfinv_of(x[i])


def erfinv(x: Array) -> Array:
    """The inverse of the error function, of single numbers."""
    return mapped(_erfinv, x)


# --- tables --------------------------------------------------------------------------------

_REACH, _EACH, _DEGREE = 16, 16, 8  # how far, in pieces of what part of one, of what degree
_PIECES = 2 * _REACH * _EACH
_CLOSE = 1e-13

_tables: dict[str, Array] = {}


def tabulated(name: str, plain: Callable[[Array], Array], x: Array, *, odd: bool) -> Array:
    """``plain(x)`` of single or double numbers; ``name`` is what its table is kept by."""
    table = _tables.get(name)
    if table is None:
        table = _tables[name] = _table((lambda at: plain(at) / at) if odd else plain)
    out = np.empty(x.shape, x.dtype)
    zero = plain(np.array([-0.0]))[0]  # -0, or 0 where the plain path loses the sign
    if _look_up(flat(x), table, odd, zero, out.reshape(-1)):
        rest = np.isnan(out)
        out[rest] = plain(x[rest])
    return out


def _table(plain: Callable[[Array], Array]) -> Array:
    """Coefficients of each piece by rising power of the distance from its middle, in pieces.

    Those of a piece that no polynomial follows are NaN, and so is a last row, for what is outside.
    """
    angles = np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1)
    at, between = np.cos(angles) / 2, np.linspace(-0.49, 0.49, 2 * _DEGREE)
    middles = (np.arange(_PIECES) + 0.5)[:, None]

    def values(places: Array) -> Array:
        return plain((middles + places) / _EACH - _REACH)

    fitted = np.linalg.solve(np.vander(at, increasing=True), values(at).T)
    expected = values(between)
    found = (np.vander(between, _DEGREE + 1, increasing=True) @ fitted).T
    off = np.abs(found - expected).max(1)
    fitted[:, ~(off <= _CLOSE * np.abs(expected).max(1))] = np.nan
    return np.vstack([fitted.T, np.full(_DEGREE + 1, np.nan)])


@fused
def _look_up(x: Array, table: Array, odd: bool, zero: float, out: Array) -> bool:
    """Put what the table has into ``out``, else NaN; whether there is any."""
    missing = False
    for i in range(x.size):
        at = (np.float64(x[i]) + _REACH) * _EACH
        inside = (at >= 0.0) & (at < _PIECES)
        k = np.int64(at) if inside else _PIECES
        t = at - (k + 0.5)
        total = table[k, _DEGREE]
        for power in range(_DEGREE - 1, -1, -1):
            total = total * t + table[k, power]
        out[i] = total * np.float64(x[i]) + zero if odd else total
        missing |= np.isnan(total)
    return missing
