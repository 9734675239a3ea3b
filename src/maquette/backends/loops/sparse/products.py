"""Elements of a product at given places: sums in any order, as BLAS takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import reordered

Array = npt.NDArray[Any]


@reordered
def _dots(rows: Array, columns: Array, left: Array, right: Array, out: Array) -> None:
    for e in range(rows.size):
        a, b = left[rows[e]], right[columns[e]]
        total = a.dtype.type(0)
        for k in range(a.size):
            total += a[k] * b[k]
        out[e] = total


def sampled_products(rows: Array, columns: Array, left: Array, right: Array) -> Array:
    """``(left @ right)[rows, columns]`` of matrices of one type of floats, an element at a time."""
    out = np.empty(rows.size, left.dtype)
    turned = np.ascontiguousarray(right.T)
    _dots(
        rows.astype(np.uint64, copy=False),
        columns.astype(np.uint64, copy=False),
        np.ascontiguousarray(left),
        turned,
        out,
    )
    return out
