"""LAPACK's routines over many small matrices: SciPy's own, called without Python in between.

SciPy's wrappers take 3 us a matrix, of which a routine on eight rows takes a tenth. The routines
are those that the wrappers call, so results have the same bits. Matrices are given column by
column: an item of a batch is the transpose of an item of a NumPy array.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.extending import get_cython_function_address

from maquette.backends.loops.compiler import called_at, compiled

Array = npt.NDArray[Any]

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


@cache
def _address(name: str) -> int:
    found: int = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return found


@compiled
def _each(address: int, count: int, arguments: tuple[int, ...], steps: tuple[int, ...]) -> None:
    for i in range(count):
        called_at(address, i, arguments, steps)


def for_each(name: str, like: Array, count: int, *arguments: Array | str | int) -> None:
    """Call a routine for each of ``count`` items, in place.

    name: without the letter of the type, which is that of ``like``. arguments: letters; whole
    numbers; arrays whose first dimension is the batch, each item contiguous.
    """
    given = [(a, a.ctypes.data) if isinstance(a, np.ndarray) else _constant(a) for a in arguments]
    _each(
        _address(_LETTERS[like.dtype.char] + name),
        count,
        tuple([place for _, place in given]),
        tuple([a.strides[0] if a.ndim else 0 for a, _ in given]),
    )


@lru_cache(maxsize=1024)
def _constant(value: str | int) -> tuple[Array, int]:
    """A letter or a whole number in memory that is kept, and where: routines only read it."""
    kept = np.array(ord(value), np.uint8) if isinstance(value, str) else np.array(value, np.int32)
    return kept, kept.ctypes.data
