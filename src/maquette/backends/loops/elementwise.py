"""Functions of elements of single precision: erf, GELU, the logistic function, SiLU, reciprocals.

erf and GELU take the steps of the plain path (`large_arrays.erf`) and give its bits. The
exponential is a polynomial here, within 3 ulp, where NumPy's own is within 2.5: what is made of it
differs from the plain path's by as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.common.large_arrays import ERF_ABOVE, ERF_BELOW, ERF_FAR
from maquette.backends.loops.compiler import compiled, fused, inlined

Array = npt.NDArray[np.float32]
_f = np.float32

_ZERO, _ONE, _HALF = _f(0), _f(1), _f(0.5)


def flat(x: Array) -> Array:
    """An array's elements in a row: along memory, so that several are taken at once."""
    return np.ascontiguousarray(x).reshape(-1)


def _filled(loop: Callable[..., None], *operands: Array) -> Array:
    """What a loop over the elements of operands of one shape puts into a new array."""
    out = np.empty(operands[-1].shape, np.float32)
    loop(*[flat(x) for x in operands], out.reshape(-1))
    return out


# --- the exponential -----------------------------------------------------------------------

# exp(r) = 1 + r + r² q(r) on |r| <= log(2) / 2; q by Chebyshev's interpolation in 30 digits.
_Q0, _Q1, _Q2, _Q3, _Q4 = (
    _f(0.5),
    _f(0.16666576266288757),
    _f(0.041666463017463684),
    _f(0.008363235741853714),
    _f(0.0013933733571320772),
)
_LOG2_E = _f(1.4426950408889634)
_LOG_2_HIGH, _LOG_2_LOW = _f(0.693359375), _f(-2.12194440e-4)  # the first has few bits
_MOST, _LEAST = _f(89), _f(-104)  # beyond, all is infinite or zero
_BIAS, _FRACTION, _BIT = np.int32(127), np.int32(23), np.int32(1)


@inlined
def exponential(x: Any) -> Any:
    """The exponential of a single number."""
    x = _MOST if x > _MOST else (_LEAST if x < _LEAST else x)
    n = np.floor(x * _LOG2_E + _HALF)
    r = x - n * _LOG_2_HIGH - n * _LOG_2_LOW
    q = (((_Q4 * r + _Q3) * r + _Q2) * r + _Q1) * r + _Q0
    power = np.int32(n)
    first = power >> _BIT  # in two halves: subnormal results need more than one factor has
    second = power - first
    low = np.int32((first + _BIAS) << _FRACTION).view(np.float32)
    high = np.int32((second + _BIAS) << _FRACTION).view(np.float32)
    return (q * (r * r) + r + _ONE) * low * high


# --- erf, GELU -----------------------------------------------------------------------------

_ROOT_HALF = _f(np.sqrt(0.5))
_DENSITY = _f(np.sqrt(2 / np.pi) / 2)
_MINUS_HALF = _f(-0.5)
_A0, _A1, _A2, _A3, _A4, _A5 = ERF_ABOVE
_B0, _B1, _B2, _B3, _B4, _B5 = ERF_BELOW


@inlined
def _erf(x: Any) -> Any:
    y = ERF_FAR if x > ERF_FAR else (-ERF_FAR if x < -ERF_FAR else x)
    t = y * y
    y = y * (((((t * _A5 + _A4) * t + _A3) * t + _A2) * t + _A1) * t + _A0)
    y = y / (((((t * _B5 + _B4) * t + _B3) * t + _B2) * t + _B1) * t + _B0)
    return _ONE if y > _ONE else (-_ONE if y < -_ONE else y)


@compiled
def _erf_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _erf(x[i])


@compiled
def _gelu_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _HALF * x[i] * (_ONE + _erf(x[i] * _ROOT_HALF))


@compiled
def _gelu_backward_loop(grad: Array, x: Array, out: Array) -> None:
    for i in range(x.size):
        v = x[i]
        density = exponential(_MINUS_HALF * v * v) * _DENSITY
        out[i] = grad[i] * (_HALF * (_ONE + _erf(v * _ROOT_HALF)) + v * density)


def erf(x: Array) -> Array:
    """The error function."""
    return _filled(_erf_loop, x)


def gelu(x: Array) -> Array:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    return _filled(_gelu_loop, x)


def gelu_backward(grad: Array, x: Array) -> Array:
    """The gradient by x from that by ``gelu(x)``."""
    return _filled(_gelu_backward_loop, grad, x)


# --- the logistic function, SiLU -----------------------------------------------------------


@fused
def _logistic_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _ONE / (_ONE + exponential(-x[i]))


@fused
def _silu_loop(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = x[i] * (_ONE / (_ONE + exponential(-x[i])))


@fused
def _silu_backward_loop(grad: Array, x: Array, out: Array) -> None:
    for i in range(x.size):
        s = _ONE / (_ONE + exponential(-x[i]))
        out[i] = grad[i] * (s * (_ONE + x[i] * (_ONE - s)))


def logistic(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return _filled(_logistic_loop, x)


def silu(x: Array) -> Array:
    """``x / (1 + exp(-x))``."""
    return _filled(_silu_loop, x)


def silu_backward(grad: Array, x: Array) -> Array:
    """The gradient by x from that by ``silu(x)``."""
    return _filled(_silu_backward_loop, grad, x)


# --- ReLU ----------------------------------------------------------------------------------


@compiled
def _threshold_backward_loop(grad: Array, x: Array, threshold: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = _ZERO if x[i] <= threshold else grad[i]


def threshold_backward(grad: Array, x: Array, threshold: float) -> Array:
    """The gradient where ``x`` is not at most a threshold, elsewhere zero."""
    out = np.empty(x.shape, np.float32)
    _threshold_backward_loop(flat(grad), flat(x), np.float32(threshold), out.reshape(-1))
    return out


# --- a step of Adam ------------------------------------------------------------------------


@compiled
def _adam_loop(param: Array, grad: Array, mean: Array, square: Array, numbers: Array) -> None:
    weight, beta2, rest, eps = numbers[0], numbers[1], numbers[2], numbers[3]
    shrink, decay, size, root = numbers[4], numbers[5], numbers[6], numbers[7]
    near, end_weight = weight < 0.5, _ONE - weight
    for i in range(param.size):
        value = param[i] * shrink
        slope = grad[i] + decay * value if decay != 0 else grad[i]
        way = slope - mean[i]
        now = mean[i] + way * weight if near else slope - way * end_weight
        mass = square[i] * beta2 + rest * slope * slope
        mean[i], square[i] = now, mass
        param[i] = value + size * now / (np.sqrt(mass) / root + eps)


def adam_step(param: Array, grad: Array, mean: Array, square: Array, numbers: Any) -> None:
    """Move a parameter by Adam: nine operators' bits, in one pass over its arrays."""
    values, slopes = param.reshape(-1), grad.reshape(-1)
    _adam_loop(values, slopes, mean.reshape(-1), square.reshape(-1), np.array(numbers, np.float32))


# --- reciprocals of complex numbers --------------------------------------------------------


@compiled
def _reciprocals(x: Array, out: Array, least: Any, most: Any) -> Any:
    """Whether the squares of all magnitudes are between two numbers; only then all are right."""
    usual = 1
    for i in range(x.shape[0]):
        real, imag = x[i, 0], x[i, 1]
        square = real * real + imag * imag
        scale = _ONE / square
        usual &= 1 if (square > least) & (square < most) else 0
        out[i, 0], out[i, 1] = real * scale, -imag * scale
    return usual


_LEAST_SQUARE, _MOST_SQUARE = _f(1e-24), _f(1e24)  # no step is rounded as a subnormal number is
_LEAST_SIZE, _MOST_SIZE = _f(1.1e-12), _f(0.9e12)  # a little narrower


def reciprocals(x: npt.NDArray[np.complex64]) -> npt.NDArray[np.complex64]:
    """``1 / x``: the conjugate by the square, of numbers of usual size within 4 ulps of NumPy's.

    NumPy scales by the larger part, which a branch chooses that is guessed wrong for half of random
    numbers. It is left what is very small, very large or not finite.
    """
    row = np.ascontiguousarray(x).reshape(-1)
    out = np.empty(row.shape, x.dtype)
    given, made = row.view(np.float32).reshape(-1, 2), out.view(np.float32).reshape(-1, 2)
    if not _reciprocals(given, made, _LEAST_SQUARE, _MOST_SQUARE):
        sizes = np.abs(row)
        odd = ~((sizes > _LEAST_SIZE) & (sizes < _MOST_SIZE))
        out[odd] = np.divide(1, row[odd])
    return out.reshape(x.shape)
