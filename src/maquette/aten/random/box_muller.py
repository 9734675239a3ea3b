"""Normal numbers in blocks of sixteen, as PyTorch's vectorized CPU kernel makes them.

Eight uniform numbers give radii, the next eight angles. In single precision PyTorch takes
logarithm, sine and cosine from the polynomials of Cephes (Moshier, netlib.org/cephes, `logf`,
`sinf`, `cosf`), with products and sums fused as a CPU with AVX2 and FMA does them; the same steps
here give the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from maquette.aten.random.fused import Double, Single, fused_double, fused_single
from maquette.tensor.mersenne import MersenneStream

_f = np.float32
BLOCK = 16
# Blocks whose steps stay in the cache: a million normals take 70 ms, 160 ms all at once.
_AT_ONCE = 1024

_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
# Quarter of a turn in three parts, so that what remains of an angle is exact.
_QUARTERS = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def normal_blocks(stream: MersenneStream, count: int, mean: float, std: float) -> Single:
    """``count`` >= 16 normal numbers of single precision.

    A last block that would not be whole is made of the last 16 places, with new uniforms.
    """
    drawn = stream.floats(count)
    tail = stream.floats(BLOCK) if count % BLOCK else drawn[:0]
    return _single_blocks(drawn, tail, mean, std)


def normal_blocks_half(stream: MersenneStream, count: int, mean: float, std: float) -> Single:
    """The same for dtypes of 16 bits, to be rounded: no uniform is drawn for the broken block."""
    drawn = stream.floats(count - count % BLOCK)
    tail = stream.floats(BLOCK) if count % BLOCK else drawn[:0]
    return _single_blocks(np.resize(drawn, count), tail, mean, std)


def normal_blocks_double(stream: MersenneStream, count: int, mean: float, std: float) -> Double:
    """The same in double precision."""
    drawn = stream.doubles(count)
    tail = stream.doubles(BLOCK) if count % BLOCK else drawn[:0]
    whole = count - count % BLOCK
    drawn[:whole] = _double_block(drawn[:whole].reshape(-1, BLOCK), mean, std).reshape(-1)
    if tail.size:
        drawn[-BLOCK:] = _double_block(tail.reshape(1, BLOCK), mean, std)[0]
    return drawn


def _single_blocks(drawn: Single, tail: Single, mean: float, std: float) -> Single:
    whole = len(drawn) - len(drawn) % BLOCK
    blocks = drawn[:whole].reshape(-1, BLOCK)
    for start in range(0, len(blocks), _AT_ONCE):
        part = blocks[start : start + _AT_ONCE]
        part[...] = _single_block(part, mean, std)
    if tail.size:
        drawn[-BLOCK:] = _single_block(tail.reshape(1, BLOCK), mean, std)[0]
    return drawn


def _double_block(u: Double, mean: float, std: float) -> Double:
    radius = np.sqrt(-2.0 * np.log(1.0 - u[:, :8]))
    theta = 2.0 * math.pi * u[:, 8:]
    unit = np.concatenate([radius * np.cos(theta), radius * np.sin(theta)], -1)
    return fused_double(unit, std, mean)


def _single_block(u: Single, mean: float, std: float) -> Single:
    radius = np.sqrt(_f(-2) * _log(_f(1) - u[:, :8]))
    sine, cosine = _sine_cosine(_f(2 * math.pi) * u[:, 8:])
    unit = np.concatenate([radius * cosine, radius * sine], -1)
    return fused_single(unit, std, _f(mean))


def _polynomial(x: Single, coefficients: tuple[float, ...]) -> Single:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = fused_single(value, x, _f(coefficient))
    return value


def _log(x: Single) -> Single:
    part, exponent = np.frexp(x)
    small = part < _f(math.sqrt(0.5))
    power = exponent.astype(np.float32) - small.astype(np.float32)
    x = (part - _f(1)) + np.where(small, part, _f(0))
    square = x * x
    value = fused_single(_polynomial(x, _LOG) * x, square, power * _f(-2.12194440e-4))
    value = value - square * _f(0.5)
    return fused_single(power, 0.693359375, x + value)


def _sine_cosine(x: Single) -> tuple[Single, Single]:
    """Sine and cosine of angles that are not negative."""
    octant = ((x * _f(4 / math.pi)).astype(np.int32) + 1) & ~1
    turns = octant.astype(np.float32)
    for quarter in _QUARTERS:
        x = fused_single(turns, quarter, x)
    square = x * x
    even = _polynomial(square, _COS) * square
    even = fused_single(even, square, -(square * _f(0.5))) + _f(1)
    odd = fused_single(_polynomial(square, _SIN) * square, x, x)
    swapped = (octant & 2) != 0
    sine = np.where(swapped, even, odd)
    cosine = np.where(swapped, odd, even)
    sine = np.where((octant & 4) != 0, -sine, sine)
    cosine = np.where(((octant - 2) & 4) == 0, -cosine, cosine)
    return sine, cosine
