"""Words of MT19937 and what a stream makes of them, compiled: uniform, normal and whole numbers.

Matsumoto and Nishimura's engine (1998), on the words of a stream's own: 624 and the place of the
next one. The plain path is `tensor/streams/mersenne.py` and `random/distributions.py`: the same
steps, and the C library's functions where those call Python's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maquette.backends.loops.compiler import compiled, fma, inlined
from maquette.tensor.streams.mersenne import N_WORDS, Doubles, EngineWords, Floats

_AHEAD = 397  # words
_U = np.uint64  # what Numba computes with, as it widens narrower ones
_HIGH, _LOW, _MATRIX = _U(0x80000000), _U(0x7FFFFFFF), _U(0x9908B0DF)
_MIX_1, _MIX_2, _ONE = _U(0x9D2C5680), _U(0xEFC60000), _U(1)
_S7, _S11, _S15, _S18, _S32 = _U(7), _U(11), _U(15), _U(18), _U(32)
_BITS_53, _BITS_24 = _U((1 << 53) - 1), _U((1 << 24) - 1)
_UNIT, _SINGLE_UNIT, _TURN = 2.0**-53, np.float32(2.0**-24), 2.0 * math.pi
SPARE, KEPT = 0, 1  # the places of the spare normal number, and of whether there is one


@inlined
def _mixed(high: Any, low: Any, ahead: Any) -> Any:
    y = (_U(high) & _HIGH) | (_U(low) & _LOW)
    return np.uint32(_U(ahead) ^ (y >> _ONE) ^ (_MATRIX * (y & _ONE)))


@compiled
def _twist(key: EngineWords) -> None:
    for i in range(N_WORDS - _AHEAD):
        key[i] = _mixed(key[i], key[i + 1], key[i + _AHEAD])
    for i in range(N_WORDS - _AHEAD, N_WORDS - 1):
        key[i] = _mixed(key[i], key[i + 1], key[i + _AHEAD - N_WORDS])
    key[N_WORDS - 1] = _mixed(key[N_WORDS - 1], key[0], key[_AHEAD - 1])


@inlined
def tempered(word: Any) -> Any:
    """What is drawn for a word of the engine."""
    y = _U(word)
    y ^= y >> _S11
    y ^= (y << _S7) & _MIX_1
    y ^= (y << _S15) & _MIX_2
    return y ^ (y >> _S18)


@inlined
def ready(words: EngineWords) -> Any:
    """The place of the next word, after new ones are made where none is left."""
    if words[N_WORDS] == N_WORDS:
        _twist(words)
        words[N_WORDS] = 0
    return np.int64(words[N_WORDS])


@compiled
def _word(words: EngineWords) -> Any:
    at = ready(words)
    words[N_WORDS] = at + 1
    return tempered(words[at])


@compiled
def double(words: EngineWords) -> Any:
    """The next uniform number in [0, 1)."""
    high = _word(words)
    low = _word(words)
    return np.float64(((high << _S32) | low) & _BITS_53) * _UNIT


@compiled
def normal(words: EngineWords, spare: Doubles) -> Any:
    """The next standard normal number; the other one of a pair is kept."""
    if spare[KEPT]:
        spare[KEPT] = 0.0
        return spare[SPARE]
    u = double(words)
    v = double(words)
    radius, theta = math.sqrt(-2.0 * math.log1p(-v)), _TURN * u
    spare[SPARE], spare[KEPT] = radius * math.sin(theta), 1.0
    return radius * math.cos(theta)


@compiled
def doubles(words: EngineWords, out: Any) -> None:
    """Fill with uniform numbers in [0, 1) of 53 bits."""
    made = 0
    while made < out.size:
        at = np.int64(words[N_WORDS])
        pairs = min((N_WORDS - at) // 2, out.size - made)
        run, given = out[made : made + pairs], words[at : at + 2 * pairs]
        for k in range(run.size):
            high, low = tempered(given[2 * k]), tempered(given[2 * k + 1])
            run[k] = np.float64(np.int64(((high << _S32) | low) & _BITS_53)) * _UNIT
        words[N_WORDS] = at + 2 * pairs
        made += pairs
        if made < out.size:  # the words are spent, or one of a pair is left
            out[made] = double(words)
            made += 1


@compiled
def floats(words: EngineWords, out: Floats) -> None:
    """Fill with uniform numbers in [0, 1) of 24 bits."""
    made = 0
    while made < out.size:
        at = ready(words)
        run = out[made : made + N_WORDS - at]
        given = words[at : at + run.size]
        for k in range(run.size):
            run[k] = np.float32(np.int32(tempered(given[k]) & _BITS_24)) * _SINGLE_UNIT
        words[N_WORDS] = at + run.size
        made += run.size


@compiled
def _integers(words: EngineWords, size: Any, low: Any, out: Any) -> None:
    made, divisor = 0, np.float64(size)
    while made < out.size:
        at = ready(words)
        run = out[made : made + N_WORDS - at]
        given = words[at : at + run.size]
        for k in range(run.size):  # a quotient of numbers of 32 bits never rounds to the next one
            word = np.float64(tempered(given[k]))
            run[k] = low + np.int64(word - np.floor(word / divisor) * divisor)
        words[N_WORDS] = at + run.size
        made += run.size


@compiled
def _normals(words: EngineWords, spare: Doubles, mean: Any, std: Any, out: Any) -> None:
    for k in range(out.size):
        out[k] = fma(normal(words, spare), std, mean)


def uniform_doubles(words: EngineWords, count: int) -> Doubles:
    """Uniform numbers in [0, 1) of 53 bits, two words each."""
    out = np.empty(count)
    doubles(words, out)
    return out


def uniform_floats(words: EngineWords, count: int) -> Floats:
    """Uniform numbers in [0, 1) of 24 bits, one word each."""
    out = np.empty(count, np.float32)
    floats(words, out)
    return out


def integers(words: EngineWords, count: int, low: int, size: int) -> Any:
    """Whole numbers from ``low`` on, of ``size`` below 2**32 each a word's remainder."""
    out = np.empty(count, np.int64)
    _integers(words, size, low, out)
    return out


def normals(words: EngineWords, spare: Doubles, count: int, mean: float, std: float) -> Doubles:
    """Normal numbers one by one, scaled and moved with one rounding."""
    out = np.empty(count)
    _normals(words, spare, mean, std, out)
    return out
