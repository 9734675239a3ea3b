"""Uniform doubles, and samplers that reject, compiled.

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
