"""Conversions between float32 and the floats of 16 bits, by their bits: NumPy's, 20 times as fast.

Numbers are rounded to the nearest, ties to even; NaN stays NaN, of its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled
from maquette.backends.loops.elementwise import flat

Array = npt.NDArray[Any]

_U = np.uint32
_SIGN, _REST, _LOW = _U(0x8000), _U(0x7FFF), _U(0xFFFF)
_INFINITY = _U(0x7F800000)
_HALF_INFINITY = _U(0x7C00)
_HALF_SCALE = np.float32(2.0**112)  # from the bias of float16's exponent to that of float32's
_TOO_LARGE = _U(0x47800000)  # 65,536
_NORMAL = _U(0x38800000)  # 2**-14, the least normal float16
_SHIFTER = np.float32(0.5)  # added to it, a subnormal float16 is in the lowest bits
_SHIFTER_BITS = _U(0x3F000000)
_REBIAS = _U(0xC8000FFF)  # (15 - 127) << 23 and all but half of what is cut off


@compiled
def _widen_half(bits: Array, out: Array) -> None:
    for i in range(bits.size):
        given = _U(bits[i])
        size = _U((given & _REST) << _U(13))
        number = np.float32(size.view(np.float32) * _HALF_SCALE).view(np.uint32)
        number = (size | _INFINITY) if (given & _HALF_INFINITY) == _HALF_INFINITY else number
        out[i] = number | _U((given & _SIGN) << _U(16))


@compiled
def _narrow_half(bits: Array, out: Array) -> None:
    for i in range(bits.size):
        sign = _U(_U(bits[i] >> _U(16)) & _SIGN)
        size = _U(bits[i] & _U(0x7FFFFFFF))
        odd = _U(_U(size >> _U(13)) & _U(1))
        shifted = np.float32(size.view(np.float32) + _SHIFTER).view(np.uint32)
        small = _U(shifted - _SHIFTER_BITS)
        normal = _U(_U(size + _REBIAS + odd) >> _U(13))
        quiet = _U(_U(0x7E00) | _U(_U(size >> _U(13)) & _U(0x3FF)))
        large = quiet if size > _INFINITY else _HALF_INFINITY
        found = small if size < _NORMAL else normal
        found = large if size >= _TOO_LARGE else found
        out[i] = np.uint16(_U(found | sign))


@compiled
def _widen_bfloat(bits: Array, out: Array) -> None:
    for i in range(bits.size):
        out[i] = _U(bits[i]) << _U(16)


@compiled
def _narrow_bfloat(bits: Array, out: Array) -> None:
    for i in range(bits.size):
        given = bits[i]
        odd = _U(_U(given >> _U(16)) & _U(1))
        rounded = _U(_U(given + _REST + odd) >> _U(16))
        quiet = _U(_U(_U(given >> _U(16)) & _SIGN) | _U(0x7FC0))
        out[i] = np.uint16(quiet if _U(given & _U(0x7FFFFFFF)) > _INFINITY else rounded)


_LOOPS: dict[tuple[str, str], Callable[[Array, Array], None]] = {
    ("float16", "float32"): _widen_half,
    ("float32", "float16"): _narrow_half,
    ("bfloat16", "float32"): _widen_bfloat,
    ("float32", "bfloat16"): _narrow_bfloat,
}
_BITS: dict[int, npt.DTypeLike] = {2: np.uint16, 4: np.uint32}
_BLOCK = 1 << 16  # elements that stay in a core's cache


def converted(x: Array, kind: np.dtype[Any]) -> Array | None:
    """``x.astype(kind)``; None where there is no loop for the two types."""
    loop = _LOOPS.get((x.dtype.name, kind.name))
    if loop is None:
        return None
    out = np.empty(x.shape, kind)
    loop(flat(x).view(_BITS[x.itemsize]), out.reshape(-1).view(_BITS[kind.itemsize]))
    return out


def of_halves(act: Callable[..., Array], a: Array, b: Array) -> Array:
    """``act(a, b)`` on row-major arrays of one shape and 16-bit type, computed in float32."""
    found, name = np.empty(a.shape, a.dtype), a.dtype.name
    x, y, out = (array.reshape(-1).view(np.uint16) for array in (a, b, found))
    widen, narrow = _LOOPS[name, "float32"], _LOOPS["float32", name]
    first, second = np.empty((2, min(_BLOCK, x.size)), np.uint32)
    for start in range(0, x.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        size = len(x[part])
        widen(x[part], first[:size])
        widen(y[part], second[:size])
        acted = act(first[:size].view(np.float32), second[:size].view(np.float32))
        narrow(acted.view(np.uint32), out[part])
    return found
