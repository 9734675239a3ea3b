"""Normal numbers of single precision in blocks of sixteen: the steps of `random/box_muller.py`.

Every product that is fused with a sum there goes through double precision here too, where it is
exact: both give the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.random.box_muller import BLOCK, COS, LOG, QUARTERS, SIN
from maquette.backends.loops.compiler import compiled, inlined
from maquette.backends.loops.draws.engine import floats
from maquette.tensor.streams.mersenne import EngineWords

Single = npt.NDArray[np.float32]
_f = np.float32

_ONE, _MINUS_TWO, _HALF, _TURN = _f(1), _f(-2), _f(0.5), _f(2 * math.pi)
_ROOT_HALF = _f(math.sqrt(0.5))
_LOG = tuple(float(_f(c)) for c in LOG)
_SIN = tuple(float(_f(c)) for c in SIN)
_COS = tuple(float(_f(c)) for c in COS)
_LOG_2_LOW, _LOG_2_HIGH = _f(-2.12194440e-4), _f(0.693359375)
_Q0, _Q1, _Q2 = _f(QUARTERS[0]), _f(QUARTERS[1]), float(_f(QUARTERS[2]))
_OCTANTS = _f(4 / math.pi)
_I = np.int32
_HALVES = BLOCK // 2


@inlined
def _fused(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` of single numbers, rounded once: the product is exact in double precision."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


@inlined
def _log(x: Any) -> Any:
    """The logarithm of a number in (0, 1] that is not subnormal."""
    bits = np.float32(x).view(np.int32)
    exponent = (bits >> _I(23)) - _I(126)
    fraction = _I((bits & _I(0x007FFFFF)) | _I(0x3F000000)).view(np.float32)
    small = fraction < _ROOT_HALF
    exponent = exponent - _I(1) if small else exponent
    x = fraction - _ONE + (fraction if small else _f(0))
    power = np.float32(exponent)
    square = x * x
    value = _f(_LOG[0])
    value = _fused(value, x, _LOG[1])
    value = _fused(value, x, _LOG[2])
    value = _fused(value, x, _LOG[3])
    value = _fused(value, x, _LOG[4])
    value = _fused(value, x, _LOG[5])
    value = _fused(value, x, _LOG[6])
    value = _fused(value, x, _LOG[7])
    value = _fused(value, x, _LOG[8])
    value = value * x
    value = _fused(value, square, power * _LOG_2_LOW)
    value = value - square * _HALF
    value = value + x
    return power * _LOG_2_HIGH + value


@inlined
def _sine_cosine(x: Any) -> tuple[Any, Any]:
    """Sine and cosine of an angle that is not negative."""
    octant = (_I(x * _OCTANTS) + _I(1)) & _I(~1)
    turns = np.float32(octant)
    x = x + turns * _Q0
    x = x + turns * _Q1
    x = _fused(turns, _Q2, x)
    square = x * x
    even = _fused(_f(_COS[0]), square, _COS[1])
    even = _fused(even, square, _COS[2]) * square
    even = _fused(even, square, square * -_HALF) + _ONE
    odd = _fused(_f(_SIN[0]), square, _SIN[1])
    odd = _fused(odd, square, _SIN[2]) * square
    odd = _fused(odd, x, x)
    swaps = (octant & _I(2)) != _I(0)
    sine = even if swaps else odd
    cosine = odd if swaps else even
    sine = -sine if (octant & _I(4)) != _I(0) else sine
    cosine = -cosine if ((octant - _I(2)) & _I(4)) == _I(0) else cosine
    return sine, cosine


@compiled
def _make_normal(blocks: Any, mean: Any, std: Any) -> None:
    for b in range(blocks.shape[0]):
        for i in range(_HALVES):
            radius = np.sqrt(_log(_ONE - blocks[b, i]) * _MINUS_TWO)
            sine, cosine = _sine_cosine(blocks[b, _HALVES + i] * _TURN)
            blocks[b, i] = _fused(cosine * radius, std, mean)
            blocks[b, _HALVES + i] = _fused(sine * radius, std, mean)


@compiled
def _blocks(words: EngineWords, drawn: Any, mean: Any, std: Any, out: Single) -> None:
    whole = out.size - out.size % BLOCK
    floats(words, out[:drawn])
    _make_normal(out[:whole].reshape(-1, BLOCK), mean, std)
    if whole < out.size:
        last = out[out.size - BLOCK :]
        floats(words, last)
        _make_normal(last.reshape(1, BLOCK), mean, std)


def normal_blocks(
    words: EngineWords, count: int, mean: float, std: float, *, broken: bool
) -> Single:
    """``count`` >= 16 normal numbers, of the words of a stream's engine.

    broken: whether uniform numbers are drawn for a last block that is not whole, too.
    """
    out = np.empty(count, np.float32)
    drawn = count if broken else count - count % BLOCK
    _blocks(words, drawn, np.float32(mean), np.float32(std), out)
    return out
