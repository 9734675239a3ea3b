"""``a * b + c`` rounded once, as a CPU's fused instruction does it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maquette.aten.common.large_arrays import loops_of_floats

Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]


# So many numbers are made double at once: a billion bytes of draws take no more than a megabyte.
_AT_ONCE = 1 << 15


def fused_single(a: Single, b: np.float32 | float, c: np.float32) -> Single:
    """In single precision: the product of two floats is exact in a double.

    a: contiguous; of many numbers the result takes its memory.
    """
    if a.size > _AT_ONCE:
        numbers = a.reshape(-1)
        for start in range(0, numbers.size, _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            part[...] = fused_single(part, b, c)
        return a
    product = a.astype(np.float64)
    product *= np.asarray(b, np.float32)
    product += c
    return product.astype(np.float32)


def fused_double(a: Double, b: float, c: float) -> Double:
    """In double precision, by the exact products and sums of Dekker (1971)."""
    if b == 1.0 or c == 0.0:
        return a * b + c
    loops = loops_of_floats(np, a)
    if loops is not None:
        looped: Double = loops.fused_sum(a, b, c)
        return looped
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(np.asarray(b, np.float64))
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    part = total - product
    found: Double = total + (((product - (total - part)) + (c - part)) + lost)
    return found


def _halves(x: Double) -> tuple[Double, Double]:
    """A double as the sum of two of 26 bits each."""
    big = x * 134217729.0  # 2**27 + 1
    high = big - (big - x)
    return high, x - high
