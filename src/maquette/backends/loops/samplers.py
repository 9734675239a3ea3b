"""Uniform doubles, samplers that reject, and how draws move with their shapes, compiled.

The samplers are the functions of `random/rejection.py`, on words of MT19937: Matsumoto and
Nishimura's engine (1998) on the state that a stream lends. The draws are the plain path's: the same
steps on the same words, and the C library's functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.random import rejection
from maquette.backends.loops.compiler import compiled, inlined, instead_of, shared
from maquette.tensor.mersenne import KEPT, N_WORDS, PLACE, SPARE, MersenneStream, Words

Doubles = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

_AHEAD = 397  # words
_U = np.uint64
_HIGH, _LOW, _MATRIX = _U(0x80000000), _U(0x7FFFFFFF), _U(0x9908B0DF)
_MIX_1, _MIX_2, _ONE = _U(0x9D2C5680), _U(0xEFC60000), _U(1)
_S7, _S11, _S15, _S18, _S32 = _U(7), _U(11), _U(15), _U(18), _U(32)
_BITS_53 = _U((1 << 53) - 1)
_UNIT, _TURN = 2.0**-53, 2.0 * math.pi


@inlined
def _mixed(high: Any, low: Any, ahead: Any) -> Any:
    y = (high & _HIGH) | (low & _LOW)
    return ahead ^ (y >> _ONE) ^ (_MATRIX * (low & _ONE))


@compiled
def _twist(key: Words) -> None:
    for i in range(N_WORDS - _AHEAD):
        key[i] = _mixed(key[i], key[i + 1], key[i + _AHEAD])
    for i in range(N_WORDS - _AHEAD, N_WORDS - 1):
        key[i] = _mixed(key[i], key[i + 1], key[i + _AHEAD - N_WORDS])
    key[N_WORDS - 1] = _mixed(key[N_WORDS - 1], key[0], key[_AHEAD - 1])


@inlined
def _tempered(y: Any) -> Any:
    y ^= y >> _S11
    y ^= (y << _S7) & _MIX_1
    y ^= (y << _S15) & _MIX_2
    return y ^ (y >> _S18)


@inlined
def _word(state: Words) -> Any:
    if state[PLACE] == _U(N_WORDS):
        _twist(state)
        state[PLACE] = _U(0)
    y = state[state[PLACE]]
    state[PLACE] += _ONE
    return _tempered(y)


@compiled
def _double(state: Words) -> Any:
    high = _word(state)
    low = _word(state)
    return np.float64(((high << _S32) | low) & _BITS_53) * _UNIT


@compiled
def _normal(state: Words) -> Any:
    if state[KEPT]:
        state[KEPT] = _U(0)
        return np.uint64(state[SPARE]).view(np.float64)
    u = _double(state)
    v = _double(state)
    radius, theta = math.sqrt(-2.0 * math.log1p(-v)), _TURN * u
    state[SPARE], state[KEPT] = np.float64(radius * math.sin(theta)).view(np.uint64), _ONE
    return radius * math.cos(theta)


@compiled
def _doubles(state: Any, out: Any) -> None:
    made = 0
    while made < out.size:
        at = np.int64(state[PLACE])
        pairs = min((N_WORDS - at) // 2, out.size - made)
        run, given = out[made : made + pairs], state[at : at + 2 * pairs]
        for k in range(run.size):
            high, low = _tempered(given[2 * k]), _tempered(given[2 * k + 1])
            run[k] = np.float64(np.int64(((high << _S32) | low) & _BITS_53)) * _UNIT
        state[PLACE] = np.uint64(at + 2 * pairs)
        made += pairs
        if made < out.size:  # the words are spent, or one of a pair is left
            out[made] = _double(state)
            made += 1


def uniform_doubles(stream: MersenneStream, count: int) -> Doubles:
    """Uniform numbers in [0, 1) with 53 bits."""
    out = np.empty(count)
    with stream.lent() as state:
        _doubles(state, out)
    return out


@instead_of(rejection.double)
def _next_double(draws: Any) -> Any:
    return _double(draws)


@instead_of(rejection.normal)
def _next_normal(draws: Any) -> Any:
    return _normal(draws)


for _step in rejection.STEPS:
    shared(_step)


# Typed as the functions that they are made of, for draws one by one.
_poissons: Any = compiled(rejection.poissons)
_binomials: Any = compiled(rejection.binomials)
_gammas: Any = compiled(rejection.gammas)


def poisson_counts(stream: MersenneStream, rates: Doubles) -> Doubles:
    """A Poisson count for each rate, in one dimension."""
    out = np.empty(rates.shape)
    with stream.lent() as state:
        _poissons(state, np.ascontiguousarray(rates), out)
    return out


def binomial_counts(stream: MersenneStream, counts: Doubles, probabilities: Doubles) -> Doubles:
    """How many of ``counts`` trials succeed, each with its probability, in one dimension."""
    out = np.empty(counts.shape)
    with stream.lent() as state:
        _binomials(state, np.ascontiguousarray(counts), np.ascontiguousarray(probabilities), out)
    return out


def gamma_numbers(stream: MersenneStream, alphas: Doubles) -> Doubles:
    """A gamma number of scale 1 for each shape parameter, in one dimension."""
    out = np.empty(alphas.shape)
    with stream.lent() as state:
        _gammas(state, np.ascontiguousarray(alphas), out)
    return out


# --- how draws move with their shapes ------------------------------------------------------

# A draw x keeps its quantile, so it moves by ``-(dF/da) / (dF/dx)``. Below the mean F is a power
# series in x, above it one minus a continued fraction; both are differentiated by the shape term by
# term, where the plain path takes differences: they agree to about 1e-7, and where differences lose
# all digits, these have theirs. (Abramowitz and Stegun, 6.5.29, 6.5.31 and 26.5.8; the fractions
# are evaluated from the front by Lentz's way.)

_MOST = 500.0  # shapes up to which few terms are enough: above, some tens times their root

_NEAR = 1e-13  # relative to the sum
_TERMS = 2_000


@compiled
def _digamma(a: Any) -> Any:
    """The slope of the logarithm of the gamma function at a positive number."""
    found = 0.0
    while a < 8.0:
        found -= 1.0 / a
        a += 1.0
    t = 1.0 / (a * a)
    tail = t * (
        1 / 12 - t * (1 / 120 - t * (1 / 252 - t * (1 / 240 - t * (1 / 132 - t * 691 / 32760))))
    )
    return found + np.log(a) - 0.5 / a - tail


@compiled
def _gamma_below(a: Any, x: Any) -> Any:
    term, shape = x / a, a
    rise = _digamma(a) + 1.0 / a - np.log(x)
    total = term * rise
    for _ in range(_TERMS):
        shape += 1.0
        inverse = 1.0 / shape
        term *= x * inverse
        rise += inverse
        total += term * rise
        if term * abs(rise) < _NEAR * abs(total):
            break
    return total


@compiled
def _gamma_above(a: Any, x: Any) -> Any:
    b = x + 1.0 - a
    c, c_slope = 1e300, 0.0
    d = 1.0 / b
    d_slope = d * d
    h, h_slope = d, d_slope
    for i in range(1, _TERMS):
        top = -i * (i - a)
        b += 2.0
        low = top * d + b
        d_slope = -(i * d + top * d_slope - 1.0)
        d = 1.0 / low
        d_slope *= d * d
        c_slope = -1.0 + i / c - top * c_slope / (c * c)
        c = b + top / c
        step = d * c
        step_slope = d_slope * c + d * c_slope
        h_slope = h_slope * step + h * step_slope
        h *= step
        if abs(step - 1.0) < _NEAR and abs(h * step_slope) < _NEAR * (abs(h_slope) + h):
            break
    return x * (h_slope + h * (np.log(x) - _digamma(a)))


@compiled
def _gamma_slopes(shapes: Array, drawn: Array, out: Array) -> None:
    for i in range(shapes.size):
        a, x = np.float64(shapes[i]), np.float64(drawn[i])
        if not (0.0 < a <= _MOST) or not 0.0 < x < np.inf:
            out[i] = np.nan
        elif x < a + 1.0:
            out[i] = _gamma_below(a, x)
        else:
            out[i] = _gamma_above(a, x)


def gamma_slopes(shapes: Array, drawn: Array) -> Array:
    """How draws move with the shapes of their gamma distributions, in float64.

    NaN where the plain path is to be taken: of shapes above 500, and of numbers not positive.
    """
    out = np.empty(shapes.shape)
    _gamma_slopes(
        np.ascontiguousarray(shapes).reshape(-1), np.ascontiguousarray(drawn).reshape(-1),
        out.reshape(-1),
    )  # fmt: skip
    return out


@compiled
def _beta_fraction(a: Any, b: Any, x: Any, by_first: Any) -> Any:
    """The fraction of the incomplete beta function, and its slope by the first or second shape."""
    both = a + b
    c, c_slope = 1.0, 0.0
    low = 1.0 - both * x / (a + 1.0)
    d = 1.0 / low
    d_slope = (x * (1.0 - b) / ((a + 1.0) * (a + 1.0)) if by_first else x / (a + 1.0)) * d * d
    h, h_slope = d, d_slope
    for m in range(1, _TERMS):
        twice = a + 2.0 * m
        for half in range(2):
            if half == 0:
                factor = m * x / ((twice - 1.0) * twice)
                top = factor * (b - m)
                slope = -top * (1.0 / (twice - 1.0) + 1.0 / twice) if by_first else factor
            else:
                top = -(a + m) * (both + m) * x / (twice * (twice + 1.0))
                slope = top / (both + m)
                if by_first:
                    slope += top * (1.0 / (a + m) - 1.0 / twice - 1.0 / (twice + 1.0))
            low_slope = slope * d + top * d_slope
            d = 1.0 / (1.0 + top * d)
            d_slope = -low_slope * d * d
            c_slope = slope / c - top * c_slope / (c * c)
            c = 1.0 + top / c
            step = d * c
            step_slope = d_slope * c + d * c_slope
            h_slope = h_slope * step + h * step_slope
            h *= step
        if abs(step - 1.0) < _NEAR and abs(h * step_slope) < _NEAR * (abs(h_slope) + abs(h)):
            break
    return h, h_slope


@compiled
def _beta_slopes(shares: Array, shapes: Array, totals: Array, out: Array) -> None:
    for i in range(shares.size):
        x, a = np.float64(shares[i]), np.float64(shapes[i])
        both = np.float64(totals[i])
        b = both - a
        if not (0.0 < x < 1.0 and 0.0 < a <= _MOST and 0.0 < b <= _MOST):
            out[i] = np.nan
            continue
        rise = np.log(x) - _digamma(a) + _digamma(both)
        if x < (a + 1.0) / (both + 2.0):
            h, h_slope = _beta_fraction(a, b, x, True)
            out[i] = -(x / a) * (h * (rise - 1.0 / a) + h_slope)
        else:
            h, h_slope = _beta_fraction(b, a, 1.0 - x, False)
            out[i] = (x / b) * (h * rise + h_slope)


def beta_slopes(shares: Array, shapes: Array, totals: Array) -> Array:
    """How shares move with their shapes, over one less the share; ``totals``: of both shapes.

    In float64; NaN where the plain path is to be taken, as by `gamma_slopes`.
    """
    out = np.empty(shares.shape)
    x, a, both = (np.ascontiguousarray(v).reshape(-1) for v in (shares, shapes, totals))
    _beta_slopes(x, a, both, out.reshape(-1))
    return out
