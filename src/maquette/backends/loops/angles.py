"""Sines, cosines, tangents and their inverses, of single and double precision.

As in `elementary.py`: in double precision, with shorter polynomials for single numbers, which are
rounded from the exact value but for one in some hundred; double results are within 2 ulps.
Angles are brought below a quarter of pi by pi / 2 in three parts of which two have so few bits that
their products are exact (Cody and Waite); those beyond a million are left to the C library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fma, inlined, polynomial

Array = npt.NDArray[Any]

_TWO_OVER_PI = 0.6366197723675814
_QUARTER_1, _QUARTER_2 = 1.5707963267341256, 6.077100506303966e-11  # pi / 2, 33 bits each
_QUARTER_3 = 2.0222662487959506e-21
_HALF_PI, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_FAR = 1e6
_ROUNDING = 1.5 * 2.0**52  # added, leaves a number's nearest integer in the low bits
_ONE, _TWO = np.int64(1), np.int64(2)

# sin(r) = r + r³ s(r²) and cos(r) = 1 - r² / 2 + r⁴ c(r²) on |r| <= pi / 4
_SIN = polynomial(
    (-0.16666666663844049, 0.008333331870341349, -0.00019840084376422702, 2.724962008007533e-06),
    (
        -0.16666666666666666, 0.008333333333333331, -0.0001984126984126504, 2.755731921932058e-06,
        -2.50521062259944e-08, 1.6058530596645953e-10, -7.586636882825159e-13,
    ),
)  # fmt: skip
_COS = polynomial(
    (0.041666666664311826, -0.0013888887668370663, 2.480059840835012e-05, -2.730070403808665e-07),
    (
        0.041666666666666664, -0.0013888888888888887, 2.4801587301584632e-05,
        -2.755731922139249e-07, 2.0876755787492604e-09, -1.1470460319209511e-11,
        4.745838412531023e-14,
    ),
)  # fmt: skip
# atan(t) = t + t³ a(t²) on |t| <= sqrt(2) - 1
_ATAN = polynomial(
    (
        -0.33333333331428355, 0.19999998911296413, -0.14285612049555613, 0.11107482298859685,
        -0.09028824015576213, 0.07134420201218257, -0.040413140264706375,
    ),
    (
        -0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106705,
        -0.09090908751076636, 0.0769229630497447, -0.06666423628069258, 0.058789145444006215,
        -0.052303478730160745, 0.04551108126325172, -0.034558092551413795, 0.01627194475162406,
    ),
)  # fmt: skip
# asin(s) = s + s³ a(s²) on |s| <= 1/2
_ASIN = polynomial(
    (
        0.16666666686147094, 0.07499992383419403, 0.044647675217118564, 0.030268919101073113,
        0.02361371422189475, 0.01056694782140368, 0.03098546039993495,
    ),
    (
        0.16666666666666669, 0.07499999999998425, 0.04464285714637338, 0.030381944137085216,
        0.022372173002005596, 0.017352391265909227, 0.013971235301124539, 0.011478952690257387,
        0.010324318288744113, 0.00545087818772055, 0.017419357964884856, -0.014881409392818066,
        0.02877844261259304,
    ),
)  # fmt: skip


# --- angles --------------------------------------------------------------------------------


@inlined
def sine_cosine(v: Any, x: Any) -> tuple[Any, Any, Any]:
    """Of a double less a number of quarter turns, and that number's low bits."""
    turned = v * _TWO_OVER_PI + _ROUNDING
    n = turned - _ROUNDING
    t, w = v - n * _QUARTER_1, n * _QUARTER_2
    r = t - w
    back = t - r  # what the subtraction rounded off, by Knuth's two-sum
    rest = ((back - w) + (t - (r + back))) - n * _QUARTER_3
    square = r * r
    sine = r + (r * square * _SIN(square, x) + rest * (1.0 - 0.5 * square))
    half = 0.5 * square
    one = 1.0 - half
    cosine = one + (((1.0 - one) - half) + (square * square * _COS(square, x) - r * rest))
    return sine, cosine, np.float64(turned).view(np.int64)


@inlined
def _sin(x: Any) -> Any:
    v = np.float64(x)
    sine, cosine, quarters = sine_cosine(v, x)
    found = cosine if quarters & _ONE else sine
    found = -found if quarters & _TWO else found
    return v if v == 0.0 else found


@inlined
def _cos(x: Any) -> Any:
    sine, cosine, quarters = sine_cosine(np.float64(x), x)
    found = sine if quarters & _ONE else cosine
    return -found if (quarters + _ONE) & _TWO else found


@inlined
def _tan(x: Any) -> Any:
    v = np.float64(x)
    sine, cosine, quarters = sine_cosine(v, x)
    odd = quarters & _ONE
    found = (-cosine if odd else sine) / (sine if odd else cosine)
    return v if v == 0.0 else found


@compiled
def _sin_loop(x: Array, out: Array) -> None:
    far = 0
    for i in range(x.size):
        out[i] = _sin(x[i])
        far += 1 if abs(x[i]) > _FAR else 0
    for i in range(x.size if far else 0):
        if abs(x[i]) > _FAR:
            out[i] = math.sin(x[i])


@compiled
def _cos_loop(x: Array, out: Array) -> None:
    far = 0
    for i in range(x.size):
        out[i] = _cos(x[i])
        far += 1 if abs(x[i]) > _FAR else 0
    for i in range(x.size if far else 0):
        if abs(x[i]) > _FAR:
            out[i] = math.cos(x[i])


@compiled
def _tan_loop(x: Array, out: Array) -> None:
    far = 0
    for i in range(x.size):
        out[i] = _tan(x[i])
        far += 1 if abs(x[i]) > _FAR else 0
    for i in range(x.size if far else 0):
        if abs(x[i]) > _FAR:
            out[i] = math.tan(x[i])


# --- inverses ------------------------------------------------------------------------------


@inlined
def _atan(x: Any) -> Any:
    """Of t or, above tan(pi / 8), of the angle less pi / 4 or, above its inverse, pi / 2."""
    v = abs(np.float64(x))
    high, middle = v > 2.414213562373095, v > 0.41421356237309503
    above = -1.0 if high else (v - 1.0 if middle else v)
    below = v if high else (v + 1.0 if middle else 1.0)
    t = above / below
    quarters = 1.0 if high else (0.5 if middle else 0.0)
    square = t * t
    rest = t * square * _ATAN(square, x) + quarters * _HALF_PI_LOW
    return np.copysign(quarters * _HALF_PI + (t + rest), np.float64(x))


@inlined
def _arc(v: Any, x: Any) -> tuple[Any, Any, Any]:
    """Whether a magnitude is above 1/2; then s, else the magnitude; its arc sine less that.

    Above 1/2 the arc cosine is twice the arc sine of ``s = sqrt((1 - v) / 2)``.
    """
    high = v > 0.5
    square = (1.0 - v) * 0.5 if high else v * v
    s = np.sqrt(square) if high else v
    lost = fma(-s, s, square) / (s + s) if high & (s > 0.0) else 0.0
    return high, s, s * square * _ASIN(square, x) + lost


@inlined
def _asin(x: Any) -> Any:
    v = np.float64(x)
    high, s, rest = _arc(abs(v), x)
    found = (_HALF_PI - 2.0 * s) - (2.0 * rest - _HALF_PI_LOW) if high else s + rest
    return np.copysign(found, v)


@inlined
def _acos(x: Any) -> Any:
    v = np.float64(x)
    high, s, rest = _arc(abs(v), x)
    twice = 2.0 * s + 2.0 * rest
    back = (2.0 * _HALF_PI - 2.0 * s) - (2.0 * rest - 2.0 * _HALF_PI_LOW)
    low = np.copysign(s, v)
    near = (_HALF_PI - low) - (np.copysign(1.0, v) * rest - _HALF_PI_LOW)
    return (twice if v > 0.0 else back) if high else near


@compiled
def _asin_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _asin(x[i])


@compiled
def _acos_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _acos(x[i])


@compiled
def _atan_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _atan(x[i])


# By NumPy's names.
LOOPS: dict[str, Any] = {
    "sin": _sin_loop,
    "cos": _cos_loop,
    "tan": _tan_loop,
    "arcsin": _asin_loop,
    "arccos": _acos_loop,
    "arctan": _atan_loop,
}
