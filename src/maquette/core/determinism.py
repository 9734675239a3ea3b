"""Whether programs ask for determinism, and so for new memory to be filled.

Kernels are deterministic anyway. What a factory leaves unset is filled, while both settings are on,
with what a program is bound to notice: NaN, the largest integer, True.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.core.scalar_types import is_complex_type


class Determinism:
    """What `use_deterministic_algorithms` and `torch.utils.deterministic` set in this process."""

    enabled = False
    warn_only = False
    fill_uninitialized_memory = True


def left_unset(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array that a factory leaves unset, filled if programs ask for it."""
    if Determinism.enabled and Determinism.fill_uninitialized_memory:
        kind = array.dtype
        value: object = np.nan
        if is_complex_type(kind):
            value = complex(np.nan, np.nan)
        elif kind.kind in "iu":
            value = np.iinfo(kind).max
        elif kind.kind == "b":
            value = True
        array[...] = value
    return array
