"""Images whose channels are the last dimension of memory, and matrices of channels.

Kernels see [batch, channels, *space] whatever the order of memory. What has a loop for channels
in a row takes them so, without a copy to the order of dimensions and one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def with_channels_last(x: Array) -> Array | None:
    """[batch, channels, *space] as [batch, *space, channels], if that is how it fills its memory.

    None where channels are not in a row, or are just one.
    """
    if x.ndim < 2 or x.shape[1] == 1:
        return None
    turned = _turned(x)
    if not turned.flags.c_contiguous:
        return None
    # One place for each channel is both; so are no elements.
    return turned if not x.flags.c_contiguous or prod(x.shape[2:]) == 1 else None


def laid_last(x: Array) -> Array:
    """[batch, channels, *space] as a row-major [batch, *space, channels], copied if need be."""
    return np.ascontiguousarray(_turned(x))


def channels_second(x: Array) -> Array:
    """[batch, *space, channels] as [batch, channels, *space], in the same memory."""
    if prod(x.shape[1:-1]) == 1:
        return x.reshape(x.shape[0], x.shape[-1], *x.shape[1:-1])
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


def _turned(x: Array) -> Array:
    return x.transpose(0, *range(2, x.ndim), 1)


def empty_by_memory(xp: ModuleType, x: Array, shape: Sequence[int]) -> Array:
    """A new array of a shape [batch, channels, *space], its channels in a row if those of x are."""
    if xp is not np or x.ndim < 4 or with_channels_last(x) is None:
        made: Array = xp.empty(shape, x.dtype)
        return made
    return channels_second(np.empty((shape[0], *shape[2:], shape[1]), x.dtype))
