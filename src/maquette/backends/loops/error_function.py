"""The complementary error function, and the error function of double precision.

``erfc(z)`` for z >= 0 is ``exp(-z²)`` times a slowly falling function, that is ``1 / (z + c)``
times a polynomial of ``(z - c) / (z + c)``; near zero ``erf(x) / x`` is a polynomial of x².
Coefficients are Chebyshev's interpolation in 40 digits. Single precision is computed in double and
rounded once: within 1 ulp; double precision is within 4. `elementwise.erf` is the error function of
single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import fused, inlined
from maquette.backends.loops.elementwise import flat

Array = npt.NDArray[Any]

# --- the exponential -----------------------------------------------------------------------

# exp(r) = 1 + r + r² q(r) on |r| <= log(2) / 2.
_ROUGH = (
    0.5000000013457727,
    0.16666666681614256,
    0.04166646500604005,
    0.008333310934448869,
    0.0013933641031986701,
    0.00019890980869750327,
)
_EXACT = (
    0.5000000000000001,
    0.16666666666666669,
    0.041666666666624164,
    0.008333333333330065,
    0.0013888888917196719,
    0.00019841269863040545,
    2.4801521322368692e-05,
    2.7557268480310024e-06,
    2.7620075879983367e-07,
    2.5100375832561234e-08,
)
_LOG2_E = 1.4426950408889634
_LOG_2_HIGH, _LOG_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_SHIFTER = 1.5 * 2.0**52  # added to a number, its whole part is in the lowest bits
_SHIFTER_BITS = np.float64(_SHIFTER).view(np.int64)
_ONE, _BIAS, _FRACTION = np.int64(1), np.int64(1023), np.int64(52)


@inlined
def _polynomial(coefficients: Any, x: Any) -> Any:
    """Horner's rule; the last coefficient is of the highest power."""
    total = coefficients[-1]
    for i in range(len(coefficients) - 2, -1, -1):
        total = total * x + coefficients[i]
    return total


@inlined
def _decayed(s: Any, q: Any) -> Any:
    """``exp(-s)`` for 0 <= s < 800; q: the coefficients of its polynomial."""
    shifted = _SHIFTER - s * _LOG2_E
    n = shifted - _SHIFTER
    r = (-s - n * _LOG_2_HIGH) - n * _LOG_2_LOW
    power = np.float64(shifted).view(np.int64) - _SHIFTER_BITS
    first = power >> _ONE  # in two halves: subnormal results need more than one factor has
    low = np.int64((first + _BIAS) << _FRACTION).view(np.float64)
    high = np.int64((power - first + _BIAS) << _FRACTION).view(np.float64)
    return (_polynomial(q, r) * (r * r) + r + 1.0) * low * high


# --- what it falls by ------------------------------------------------------------------------

# exp(z²) erfc(z) (z + c) in powers of (z - c) / (z + c): for single precision c is 3, on [0, 10.5],
# where erfc vanishes; for double 2.5, on [0.45, 27.5].
_SINGLE = (
    1.0740069069724196,
    -0.883394490593955,
    0.5902283635198738,
    -0.3104659072170755,
    0.11952829959305035,
    -0.02684072490318169,
    -0.0012236998236023935,
    0.0030836965026036526,
    -0.00048565773375207837,
    -0.00032945175800914956,
    -1.0881946852738757e-06,
)
_DOUBLE_LOW = (
    1.054031820305718,
    -0.8046518494391462,
    0.4539141166481021,
    -0.17125114524636365,
    0.028361550131901378,
    0.008393044313637826,
    -0.004818785527827572,
    -0.0004392084462113068,
    0.0007026938661824017,
    5.830935383245825e-05,
)
_DOUBLE_HIGH = (
    -0.00011260646951446978,
    -1.9540012400399995e-05,
    1.8254351283615547e-05,
    6.777789729224238e-06,
    -2.3677237383219637e-06,
    -2.0038390990951534e-06,
    6.857512751636234e-08,
    4.848555765888708e-07,
    4.9054629925598624e-08,
    -7.901330529680699e-08,
)
# erf(x) / x in powers of x² on [0, 1].
_NEAR_LOW = (
    1.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
)
_NEAR_HIGH = (
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
_FAR_SINGLE, _FAR_DOUBLE = 10.5, 27.5
_HALF_OF_BITS = np.int64(-1 << 27)


@inlined
def _slope(z: Any) -> Any:
    """``exp(z²) erfc(z)`` in double precision. Polynomials in two parts, each short enough to be
    written out by the compiler."""
    rest = 1.0 / (z + 2.5)
    u = (z - 2.5) * rest
    u2 = u * u
    u8 = (u2 * u2) * (u2 * u2)
    return (_polynomial(_DOUBLE_LOW, u) + _polynomial(_DOUBLE_HIGH, u) * (u8 * u2)) * rest


@inlined
def _near(t: Any) -> Any:
    t4 = (t * t) * (t * t)
    return _polynomial(_NEAR_LOW, t) + _polynomial(_NEAR_HIGH, t) * (t4 * t4)


@fused
def _erfc_singles(x: Array, out: Array) -> None:
    for i in range(x.size):
        z: Any = abs(np.float64(x[i]))
        z = _FAR_SINGLE if z > _FAR_SINGLE else z
        rest = 1.0 / (z + 3.0)
        tail = _decayed(z * z, _ROUGH) * (_polynomial(_SINGLE, (z - 3.0) * rest) * rest)
        out[i] = 2.0 - tail if x[i] < 0 else tail


@fused
def _erf_doubles(x: Array, out: Array) -> None:
    for i in range(x.size):
        z = abs(x[i])
        z = _FAR_DOUBLE if z > _FAR_DOUBLE else z
        tail = 1.0 - _decayed(z * z, _EXACT) * _slope(z)
        t = 1.0 if z > 1.0 else z * z
        out[i] = np.copysign(tail, x[i]) if z > 1.0 else x[i] * _near(t)


@fused
def _erfc_doubles(x: Array, out: Array) -> None:
    for i in range(x.size):
        z = abs(x[i])
        z = _FAR_DOUBLE if z > _FAR_DOUBLE else z
        square = z * z
        upper = np.int64(np.float64(z).view(np.int64) & _HALF_OF_BITS).view(np.float64)
        lower = z - upper
        lost = ((upper * upper - square) + 2.0 * upper * lower) + lower * lower
        tail = _decayed(square, _EXACT) * (_slope(z) * (1.0 - lost))
        tail = 2.0 - tail if x[i] < 0 else tail
        t = 1.0 if z > 0.5 else square
        out[i] = tail if z > 0.5 else 1.0 - x[i] * _near(t)


def _filled(loop: Callable[[Array, Array], None], x: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    loop(flat(x), out.reshape(-1))
    return out


def erf_of_doubles(x: Array) -> Array:
    """The error function of double precision."""
    return _filled(_erf_doubles, x)


def erfc(x: Array) -> Array:
    """One minus the error function, of single or double precision."""
    return _filled(_erfc_singles if x.dtype == np.float32 else _erfc_doubles, x)
