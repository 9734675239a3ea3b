"""Arithmetic that kernels share: wide accumulation and scaling by Python numbers.

Half types accumulate in float32 and are rounded once, when the result is laid out, as PyTorch's
CPU kernels do. Nothing here knows tensors; `xp` is the array namespace.
"""

from __future__ import annotations

from functools import cache
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maquette.aten.common.narrow_floats import converted

Array: TypeAlias = npt.NDArray[Any]  # of any element type, in any array namespace
Index: TypeAlias = tuple[slice | int | EllipsisType, ...]
Number: TypeAlias = bool | int | float | complex

_SINGLE = np.dtype(np.float32)
_COMPLEX_OF_HALVES = "W"  # of complex32, which NumPy knows through ml_dtypes
_NARROW = frozenset(
    {
        "float16",
        "bfloat16",
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "float8_e4m3fnuz",
        "float8_e8m0fnu",
    }
)


def is_narrow(array: Array) -> bool:
    """Whether the elements are of a float type of 16 bits or less."""
    kind = array.dtype
    return kind.itemsize <= 2 and _is_narrow(kind)


@cache
def _is_narrow(kind: np.dtype[Any]) -> bool:
    return kind.name in _NARROW  # a dtype takes 3 us to tell its name


def wide(array: Array) -> Array:
    """The array in the type that sums and products of its elements are taken in."""
    if is_narrow(array):
        return converted(array, _SINGLE)
    # The letter, unlike the name, is told at once.
    return array.astype(np.complex64) if array.dtype.kind == _COMPLEX_OF_HALVES else array


def scaled(array: Array, factor: Number) -> Array:
    """``array * factor`` in the array's own type: integers take the factor's whole part."""
    if factor == 1:
        return array
    if array.dtype.kind in "iu":
        # Out of range it wraps around, as PyTorch's conversion to the element type does.
        return array * np.asarray(int(factor.real)).astype(array.dtype)[()]
    if array.dtype.kind == "b":
        factor = bool(factor)
    return array * array.dtype.type(factor)


def scaled_sum(base: Array, beta: Number, product: Array, alpha: Number) -> Array:
    """``beta * base + alpha * product``; a beta of 0 ignores the base, NaN and all."""
    product = scaled(product, alpha)
    if beta == 0:
        return product
    return scaled(wide(base), beta) + product
