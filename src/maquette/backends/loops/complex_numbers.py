"""Reciprocals of complex numbers of single precision, in double precision: exact but for rounding.

NumPy scales by the larger part, which a branch chooses that is guessed wrong for half of random
numbers; of normal numbers its results are within 4 ulps of these. Zeros and what is not finite are
left to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled
from maquette.backends.loops.elementwise import flat

Array = npt.NDArray[Any]

_ONE = np.float64(1)


@compiled
def _reciprocals(x: Array, out: Array) -> Any:
    """Whether the squares of all magnitudes are positive and finite; only then all are right."""
    usual = True
    for i in range(x.shape[0]):
        real, imag = np.float64(x[i, 0]), np.float64(x[i, 1])
        square = real * real + imag * imag
        scale = _ONE / square
        usual &= (square > 0) & (square < np.inf)
        out[i, 0], out[i, 1] = real * scale, -imag * scale
    return usual


def reciprocals(x: Array) -> Array:
    """``1 / x``."""
    row = flat(x)
    out = np.empty(row.shape, x.dtype)
    if not _reciprocals(row.view(np.float32).reshape(-1, 2), out.view(np.float32).reshape(-1, 2)):
        odd = (row == 0) | ~np.isfinite(row)
        out[odd] = np.divide(1, row[odd])
    return out.reshape(x.shape)
