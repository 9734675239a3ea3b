"""Samplers that reject, and how draws move with their shapes, compiled.

The samplers are the functions of `random/rejection.py`, on what a stream lends: the words of its
engine and its spare normal number. The draws are the plain path's: the same steps on the same
words, and the C library's functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.random import rejection
from maquette.backends.loops.compiler import compiled, instead_of, shared
from maquette.backends.loops.draws import engine
from maquette.tensor.streams.mersenne import MersenneStream

Doubles = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


@instead_of(rejection.double)
def _next_double(draws: Any) -> Any:
    words, _ = draws
    return engine.double(words)


@instead_of(rejection.normal)
def _next_normal(draws: Any) -> Any:
    words, spare = draws
    return engine.normal(words, spare)


for _step in rejection.STEPS:
    shared(_step)


# Typed as the functions that they are made of, for draws one by one.
_poissons: Any = compiled(rejection.poissons)
_binomials: Any = compiled(rejection.binomials)
_gammas: Any = compiled(rejection.gammas)


def poisson_counts(stream: MersenneStream, rates: Doubles) -> Doubles:
    """A Poisson count for each rate, in one dimension."""
    out = np.empty(rates.shape)
    with stream.lent() as draws:
        _poissons(draws, np.ascontiguousarray(rates), out)
    return out


def binomial_counts(stream: MersenneStream, counts: Doubles, probabilities: Doubles) -> Doubles:
    """How many of ``counts`` trials succeed, each with its probability, in one dimension."""
    out = np.empty(counts.shape)
    with stream.lent() as draws:
        _binomials(draws, np.ascontiguousarray(counts), np.ascontiguousarray(probabilities), out)
    return out


def gamma_numbers(stream: MersenneStream, alphas: Doubles) -> Doubles:
    """A gamma number of scale 1 for each shape parameter, in one dimension."""
    out = np.empty(alphas.shape)
    with stream.lent() as draws:
        _gammas(draws, np.ascontiguousarray(alphas), out)
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
