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
from maquette.tensor.streams.mersenne import MersenneStream

_f = np.float32
BLOCK = 16
# Blocks whose steps stay in the cache.
_AT_ONCE = 1024

LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
# Quarter of a turn in three parts, so that what remains of an angle is exact.
QUARTERS = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def normal_blocks(stream: MersenneStream, count: int, mean: float, std: float) -> Single:
    """``count`` >= 16 normal numbers of single precision.

    A last block that would not be whole is made of the last 16 places, with new uniforms.
    """
    return _single_blocks(stream, count, mean, std, broken=True)


def normal_blocks_half(stream: MersenneStream, count: int, mean: float, std: float) -> Single:
    """The same for dtypes of 16 bits, to be rounded: no uniform is drawn for the broken block."""
    return _single_blocks(stream, count, mean, std, broken=False)


def normal_blocks_double(stream: MersenneStream, count: int, mean: float, std: float) -> Double:
    """The same in double precision."""
    drawn = stream.doubles(count)
    tail = stream.doubles(BLOCK) if count % BLOCK else drawn[:0]
    whole = count - count % BLOCK
    drawn[:whole] = _double_block(drawn[:whole].reshape(-1, BLOCK), mean, std).reshape(-1)
    if tail.size:
        drawn[-BLOCK:] = _double_block(tail.reshape(1, BLOCK), mean, std)[0]
    return drawn


def _single_blocks(
    stream: MersenneStream, count: int, mean: float, std: float, *, broken: bool
) -> Single:
    loops = stream.loops(count, 100)
    if loops is not None:
        looped: Single = loops.normal_blocks(stream.engine_words(), count, mean, std, broken=broken)
        return looped
    whole = count - count % BLOCK
    drawn = stream.floats(count if broken else whole)
    tail = stream.floats(BLOCK) if count % BLOCK else drawn[:0]
    every = np.concatenate([drawn[:whole], tail]).reshape(-1, BLOCK)
    for start in range(0, len(every), _AT_ONCE):
        part = every[start : start + _AT_ONCE]
        part[...] = _single_block(part, mean, std)
    if not tail.size:
        return every.reshape(-1)
    # The last whole block's first numbers, then the sixteen that end all.
    return np.concatenate([every[:-1].reshape(-1)[: count - BLOCK], every[-1]])


def _double_block(u: Double, mean: float, std: float) -> Double:
    radius = np.sqrt(-2.0 * np.log(1.0 - u[:, :8]))
    theta = 2.0 * math.pi * u[:, 8:]
    unit = np.concatenate([radius * np.cos(theta), radius * np.sin(theta)], -1)
    return fused_double(unit, std, mean)


class _Steps:
    """Fused steps on blocks of one size, with the memory for what they need between them.

    Numbers are kept in double precision too where they are factors often, so that no pass converts
    an array that has been converted before: a million normals take a third of the time.
    """

    def __init__(self, size: int) -> None:
        self._product = np.empty(size)
        self._factor = np.empty(size)

    def fused(self, a: Single, b: Double | float, c: Single | float) -> None:
        """``a = a * b + c``; b and c hold numbers of single precision."""
        np.copyto(self._product, a)
        self._product *= b
        self._product += c
        np.copyto(a, self._product, casting="same_kind")

    def polynomial(self, x: Single, coefficients: tuple[float, ...]) -> Single:
        """A polynomial's value, the highest coefficient first; ``x`` is `factor` afterwards."""
        self._factor[...] = x
        first, *rest = [float(_f(coefficient)) for coefficient in coefficients]
        value = np.full_like(x, first)
        for coefficient in rest:
            self.fused(value, self._factor, coefficient)
        return value

    def factor(self, x: Single) -> Double:
        """A factor in double precision, until the next one."""
        self._factor[...] = x
        return self._factor


def _single_block(u: Single, mean: float, std: float) -> Single:
    first, second = np.subtract(_f(1), u[:, :8]), np.multiply(_f(2 * math.pi), u[:, 8:])
    steps = _Steps(first.size)
    radius = _log(steps, first.reshape(-1))
    radius *= _f(-2)
    np.sqrt(radius, out=radius)
    sine, cosine = _sine_cosine(steps, second.reshape(-1))
    unit = np.empty_like(u)
    for half, part in ((unit[:, :8], cosine), (unit[:, 8:], sine)):
        part *= radius
        half[...] = part.reshape(half.shape)
    return _scaled(unit, mean, std)


def _scaled(unit: Single, mean: float, std: float) -> Single:
    if std == 1.0:
        unit += _f(mean)
        return unit
    return fused_single(unit, std, _f(mean))


def _log(steps: _Steps, x: Single) -> Single:
    """The logarithm of numbers in (0, 1], none of them subnormal; their memory is used."""
    bits = x.view(np.int32)
    exponent = bits >> 23
    exponent -= 126
    bits &= 0x007FFFFF
    bits |= 0x3F000000  # from here on, ``x`` is the fraction in [0.5, 1)
    small = x < _f(math.sqrt(0.5))
    exponent -= small
    power = exponent.astype(np.float32)
    bits_added = np.negative(small.view(np.int8)).astype(np.int32)
    bits_added &= bits
    x = x - _f(1)
    x += bits_added.view(np.float32)
    square = x * x
    value = steps.polynomial(x, LOG)
    value *= x
    steps.fused(value, steps.factor(square), power * _f(-2.12194440e-4))
    square *= _f(0.5)
    value -= square
    value += x
    power *= _f(0.693359375)  # exact: few bits by few bits, so it rounds once without a fused step
    power += value
    return power


def _sine_cosine(steps: _Steps, x: Single) -> tuple[Single, Single]:
    """Sine and cosine of angles that are not negative; their memory is used."""
    octant = (x * _f(4 / math.pi)).astype(np.int32)
    octant += 1
    octant &= ~1
    turns = octant.astype(np.float32)
    for quarter in QUARTERS[:2]:  # these have few bits, so the products are exact
        x += turns * _f(quarter)
    steps.fused(turns, float(_f(QUARTERS[2])), x)
    x = turns
    square = x * x
    even = steps.polynomial(square, COS)
    even *= square
    steps.fused(even, steps.factor(square), square * _f(-0.5))
    even += _f(1)
    odd = steps.polynomial(square, SIN)
    odd *= square
    steps.fused(odd, steps.factor(x), x)
    # In every other quarter they change places; signs are set in the bits, too.
    swapped = np.left_shift(octant, 30) >> 31
    sine, cosine = odd.view(np.int32), even.view(np.int32)
    swapped &= sine ^ cosine
    sine ^= swapped
    cosine ^= swapped
    sine ^= (octant & 4) << 29
    cosine ^= (~(octant - 2) & 4) << 29
    return odd, even
