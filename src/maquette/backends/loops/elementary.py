"""Exponentials, logarithms and hyperbolic functions of single and double precision.

NumPy computes these one at a time where the processor, or NumPy, has no wide instructions for them.
All steps are taken in double precision, with shorter polynomials for single numbers: those are the
exact value rounded but for one in some hundred, which is one ulp off; double results are within 2
ulps. The polynomials are Chebyshev's interpolations, in 60 digits, of what is left when the
argument has been brought near zero, as W. J. Cody and W. Waite do it ("Software Manual for the
Elementary Functions", 1980).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fma, inlined, polynomial

Array = npt.NDArray[Any]

_LOG2_E, _LOG10_E = 1.4426950408889634, 0.4342944819032518
LOG_2, _LOG_2_HIGH, _LOG_2_LOW = 0.6931471805599453, 0.6931471805598903, 5.497923018708371e-14
_ROUNDING = 1.5 * 2.0**52  # added, leaves a number's nearest integer in the low bits
_BITS_OF_ROUNDING = np.float64(_ROUNDING).view(np.int64)
_BIAS, _FRACTION = np.int64(1023), np.int64(52)

# exp(r) = 1 + r + r² q(r) on |r| <= log(2) / 2
_EXP = polynomial(
    (
        0.500000001346581, 0.16666666681623232, 0.041666464925285904, 0.0083333109254809,
        0.0013933649996309251, 0.00019890990824673654,
    ),
    (
        0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748,
        0.00019841269874820627, 2.4801587325547743e-05, 2.7557255400206422e-06,
        2.75572736431103e-07, 2.5105217004720745e-08, 2.0914686968086876e-09,
    ),
)  # fmt: skip
# log((1 + s) / (1 - s)) = 2 s + s³ q(s²) on s <= (sqrt(2) - 1) / (sqrt(2) + 1)
_LOG = polynomial(
    (0.6666666655404201, 0.4000012221181065, 0.28550778633191964, 0.23331614471843498),
    (
        0.6666666666666666, 0.3999999999999999, 0.2857142857143541, 0.22222222219844232,
        0.18181818595769064, 0.15384574966460907, 0.13335645841949378, 0.11687962997542156,
        0.1188345239410786,
    ),
)  # fmt: skip
# sinh(v) = v + v³ q(v²) on |v| <= 1
_SINH = polynomial(
    (0.16666666646762462, 0.008333339695044161, 0.00019838095593111222, 2.806331253637132e-06),
    (
        0.16666666666666666, 0.008333333333333299, 0.00019841269841324471, 2.7557319191250885e-06,
        2.50521177239532e-08, 1.6057676882739475e-10, 7.746278224810715e-13,
    ),
)  # fmt: skip


# --- steps ---------------------------------------------------------------------------------


@inlined
def _power_of_2(n: Any) -> Any:
    """2 to the power of a whole double between -1022 and 1023."""
    bits = np.float64(n + _ROUNDING).view(np.int64) - _BITS_OF_ROUNDING
    return np.int64((bits + _BIAS) << _FRACTION).view(np.float64)


@inlined
def _between(v: Any, least: float, most: float) -> Any:
    """``v`` brought between two numbers; NaN stays."""
    v = least if v < least else v
    return most if v > most else v


@inlined
def _reduced(v: Any) -> tuple[Any, Any, Any]:
    """n, r, rest: ``v`` is ``n * log(2) + r + rest``, and r is rounded."""
    n = (v * _LOG2_E + _ROUNDING) - _ROUNDING
    high, low = v - n * _LOG_2_HIGH, n * _LOG_2_LOW
    r = high - low
    return n, r, (high - r) - low


@inlined
def half_of_expm1(v: Any, x: Any) -> Any:
    """``(exp(v) - 1) / 2`` of a double of the grade of ``x``."""
    n, r, rest = _reduced(_between(v, -60.0, 710.8))
    quarter = _power_of_2(n - 2.0)  # twice that may be too large
    found = 2.0 * ((quarter * r + (quarter - 0.25)) + quarter * (r * r * _EXP(r, x) + rest))
    return v * 0.5 if abs(v) < 1e-300 else found  # zero keeps its sign


@inlined
def half_of_exp(v: Any, x: Any) -> Any:
    """``exp(v) / 2`` of a double of the grade of ``x``."""
    n, r, rest = _reduced(_between(v, -760.0, 711.0))
    first = np.floor(n * 0.5)  # in two halves: subnormal results need more than one factor has
    power = _power_of_2(first - 1.0)
    return (1.0 + (r + (r * r * _EXP(r, x) + rest))) * power * _power_of_2(n - first)


_ABOVE_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of the root of 1/2
_LIFT = np.uint64(2048 << 52)
_DIGITS = np.uint64(52)
_WHOLE, _WHOLE_BIAS = np.uint64(0x4330000000000000), 2.0**52 + 2048.0
_UNIT = np.uint64(1023)


@inlined
def log_of_sum(u: Any, lost: Any, x: Any) -> Any:
    """``log(u + lost)`` of positive doubles of the grade of ``x``: ``lost`` is what ``u`` lacks."""
    bits = np.float64(u).view(np.uint64)
    k = (bits - _ABOVE_ROOT_HALF + _LIFT) >> _DIGITS  # u's power of two, 2048 more
    power = np.uint64(_WHOLE | k).view(np.float64) - _WHOLE_BIAS
    shift = (k << _DIGITS) - _LIFT
    lost *= np.uint64((_UNIT << _DIGITS) - shift).view(np.float64)
    f = (np.uint64(bits - shift).view(np.float64) - 1.0) + (lost if u < 1e18 else 0.0)
    s = f / (2.0 + f)
    square = s * s
    tail = s * (f - square * _LOG(square, x))
    return power * _LOG_2_HIGH + (f - (tail - power * _LOG_2_LOW))


@inlined
def log_of_1_and(v: Any, x: Any) -> Any:
    """``log(1 + v)`` of a double of the grade of ``x``."""
    u = 1.0 + v
    found = log_of_sum(u, 1.0 - (u - v) if v > 1.0 else v - (u - 1.0), x)
    found = v if (abs(v) < 1e-20) | (v == np.inf) else found
    return found if v > -1.0 else (-np.inf if v == -1.0 else np.nan)


# --- functions of a number -----------------------------------------------------------------


@inlined
def _expm1(x: Any) -> Any:
    return 2.0 * half_of_expm1(np.float64(x), x)


@inlined
def _exp2(x: Any) -> Any:
    v = _between(np.float64(x), -1080.0, 1025.0)
    n = (v + _ROUNDING) - _ROUNDING
    r = (v - n) * LOG_2
    first = np.floor(n * 0.5)  # in two halves: subnormal results need more than one factor has
    return (1.0 + (r + r * r * _EXP(r, x))) * _power_of_2(first) * _power_of_2(n - first)


@inlined
def _log1p(x: Any) -> Any:
    return log_of_1_and(np.float64(x), x)


@inlined
def _sinh(x: Any) -> Any:
    v = np.float64(x)
    size, square = abs(v), v * v
    half = half_of_expm1(size, x)
    far = half + half / (1.0 + 2.0 * half) if half < 1e17 else half
    return v + v * square * _SINH(square, x) if size < 1.0 else np.copysign(far, v)


@inlined
def _cosh(x: Any) -> Any:
    half = half_of_exp(abs(np.float64(x)), x)
    return half + 0.25 / half


@inlined
def _asinh(x: Any) -> Any:
    v = abs(np.float64(x))
    near = v < 1e9
    square = v * v
    found = log_of_1_and(v + square / (1.0 + np.sqrt(square + 1.0)) if near else v - 1.0, x)
    return np.copysign(found if near else found + LOG_2, np.float64(x))


@inlined
def _acosh(x: Any) -> Any:
    v = np.float64(x)
    near, t = v < 1e9, v - 1.0
    found = log_of_1_and(t + np.sqrt(fma(t, t, 2.0 * t)) if near else t, x)
    found = found if near else found + LOG_2
    return found if v >= 1.0 else np.nan


@inlined
def _atanh(x: Any) -> Any:
    v = abs(np.float64(x))
    return np.copysign(0.5 * log_of_1_and(2.0 * v / (1.0 - v), x), np.float64(x))


@inlined
def _log10(x: Any) -> Any:
    v = np.float64(x)
    found = log_of_sum(v, 0.0, x) * _LOG10_E
    found = found if v > 0.0 else (-np.inf if v == 0.0 else np.nan)
    return v if v == np.inf else found


# --- loops ---------------------------------------------------------------------------------


@compiled
def _expm1_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _expm1(x[i])


@compiled
def _exp2_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _exp2(x[i])


@compiled
def _log1p_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _log1p(x[i])


@compiled
def _log10_loop(x: Array, out: Array) -> None:
    """Of single numbers: of double ones powers of 10 would not be exact."""
    for i in range(x.size):
        out[i] = _log10(x[i])


@compiled
def _sinh_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _sinh(x[i])


@compiled
def _cosh_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _cosh(x[i])


@compiled
def _asinh_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _asinh(x[i])


@compiled
def _acosh_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _acosh(x[i])


@compiled
def _atanh_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _atanh(x[i])


# By NumPy's names.
LOOPS: dict[str, Any] = {
    "expm1": _expm1_loop,
    "exp2": _exp2_loop,
    "log1p": _log1p_loop,
    "log10": _log10_loop,
    "sinh": _sinh_loop,
    "cosh": _cosh_loop,
    "arcsinh": _asinh_loop,
    "arccosh": _acosh_loop,
    "arctanh": _atanh_loop,
}
