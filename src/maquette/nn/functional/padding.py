"""Padding of borders."""

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.tensor import Tensor


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Extend (or, by negative numbers, cut) dimensions from the last one backwards.

    pad: (before, after) of the last dimension, then of the one before it, and so on. mode:
    'constant' (by `value`, else zero), 'reflect', 'replicate' or 'circular'.
    """
    return mq.pad(input, pad, mode, value)
