"""Sums of many floats by products with ones, which NumPy hands to BLAS.

NumPy adds 4 to 8 numbers at a time where they lie in a row, and one by one across short rows; BLAS
reads as fast as memory gives (10⁶ float32, NumPy 2.4: 0.17 to 0.07 ms, rows of 4: 4.1 to 0.4 ms).
A product takes at most `BLOCK` terms of a sum; its results are summed in the same way. So rounding
errors grow with the logarithm of the count, as in NumPy's pairwise sums.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Groups = list[tuple[int, bool]]

BLOCK = 128  # terms of a product: what NumPy's pairwise sums add in a row
_LEAST_BLOCK = 16  # a smaller divisor of a row's length makes too many products
_SOON = 1 << 15  # elements that NumPy has added by when a product is prepared (8 us)
_LONG_ROW = 64  # of its rows
_WIDE = 256  # elements that make the call of a product worth it
_NARROW = 8  # elements of a row that BLAS multiplies slowly (1,000 rows of 2: 1.6 to 0.3 ms)
_ROWS = 32  # rows that are added one after another
_LONG = 256  # complex numbers of a row
_FEW = 4  # elements of a row that are quicker added as columns (2 of 10⁶ rows: 3.2 to 0.3 ms)
_KEPT_ONES = 64


def sums_by_products(x: Array, axes: tuple[int, ...]) -> Array | None:
    """The sums of a float array with elements over axes; None where they are not in one piece."""
    if x.size <= _SOON and x.dtype.kind == "f" and x.flags.c_contiguous:
        last, all_of_it = x.ndim - 1, len(axes) == x.ndim
        if all_of_it or (axes == (last,) and x.shape[last] >= _LONG_ROW):
            whole: Array = np.add.reduce(x.reshape(-1) if all_of_it else x, axis=-1)
            return np.asarray(whole)
        if axes == (0,) and last == 1 and x.shape[0] <= BLOCK:
            return np.asarray(np.add.reduce(x, axis=0))
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    by_memory = x.transpose(order)
    if not by_memory.flags.c_contiguous:
        narrow = axes == (x.ndim - 1,) and 1 < x.shape[-1] <= _FEW
        return _sum_of_columns(x) if narrow else None
    kept = [axis for axis in order if axis not in axes]
    dims = [(x.shape[axis], axis in axes) for axis in order]
    flat, groups = by_memory.reshape(-1), _groups(dims)
    if x.dtype.kind == "c":  # both parts, along one more axis
        if groups and groups[-1][1] and not (x.dtype.char == "F" and _folds(groups[-1][0])):
            rows = flat.reshape(-1, groups.pop()[0])
            few = 1 < rows.shape[1] <= _NARROW
            flat = _sum_of_columns(rows) if few else np.add.reduce(rows, axis=1)
        groups = _groups([*groups, (2, False)])
    sums = _reduced(flat.view(x.real.dtype), groups).view(x.dtype)
    places = sorted(range(len(kept)), key=lambda i: kept[i])
    return sums.reshape([x.shape[axis] for axis in kept]).transpose(places)


def _folds(size: int) -> bool:
    """Whether rows of complex64 are quicker added as columns of two than by NumPy (2 times)."""
    return size >= _LONG and _divisor(size) > 0


def _groups(dims: Groups) -> Groups:
    """Neighbouring dimensions that are both summed, or both kept, as one."""
    found: Groups = []
    for size, summed in dims:
        if found and found[-1][1] == summed:
            found[-1] = (found[-1][0] * size, summed)
        elif size != 1:
            found.append((size, summed))
    return found


def _reduced(flat: Array, groups: Groups) -> Array:
    """The flat array of the sums over the groups of dimensions that are to be summed."""
    while len(groups) > 1 or (groups and groups[0][1]):
        size, summed = groups.pop()
        if summed:
            flat = _row_sums(flat.reshape(-1, size))
            continue
        inner = size
        size, _ = groups.pop()
        outer = prod(n for n, _ in groups)
        flat = _column_sums(flat.reshape(outer, size, inner)).reshape(-1)
        groups = _groups([*groups, (inner, False)])
    return flat


def _row_sums(rows: Array) -> Array:
    """The sum of each row of a matrix."""
    size = rows.shape[1]
    if 1 < size <= _FEW:
        return _sum_of_columns(rows)
    if size <= BLOCK:
        sums: Array = rows @ _ones(size, rows.dtype)
        return sums
    block = _divisor(size)
    if block:
        parts = (rows.reshape(-1, block) @ _ones(block, rows.dtype)).reshape(len(rows), -1)
        return _row_sums(parts)
    whole = size // BLOCK * BLOCK
    parts = rows[:, :whole].reshape(len(rows), -1, BLOCK) @ _ones(BLOCK, rows.dtype)
    return _row_sums(parts) + rows[:, whole:] @ _ones(size - whole, rows.dtype)


def _sum_of_columns(x: Array) -> Array:
    """The sums over a last dimension of a few elements, at least two."""
    total: Array = x[..., 0] + x[..., 1]
    for column in range(2, x.shape[-1]):
        total = total + x[..., column]
    return total


@lru_cache(256)
def _divisor(size: int) -> int:
    """The largest divisor of a size that a product may have as terms; 0 if there is no such."""
    return next((d for d in range(BLOCK, _LEAST_BLOCK - 1, -1) if size % d == 0), 0)


def _column_sums(x: Array) -> Array:
    """The sums over the middle axis of an array of three."""
    outer, size, inner = x.shape
    if outer >= _ROWS and inner <= _NARROW:
        return _narrow_column_sums(x)
    if size * inner < _WIDE:
        small: Array = np.add.reduce(x, axis=1)
        return small
    fold = min(size, BLOCK // inner) if outer == 1 else 1
    if fold > 1:  # rows that are short: several of them are one
        whole = size // fold * fold
        wide = _column_sums(x[:, :whole].reshape(1, -1, fold * inner)).reshape(1, fold, inner)
        return np.add.reduce(wide, axis=1) + np.add.reduce(x[:, whole:], axis=1)
    if size <= BLOCK:
        sums: Array = _ones(size, x.dtype) @ x
        return sums
    whole = size // BLOCK * BLOCK
    parts = _ones(BLOCK, x.dtype) @ x[:, :whole].reshape(outer, -1, BLOCK, inner)
    rest = _ones(size - whole, x.dtype) @ x[:, whole:]
    return _column_sums(parts) + rest


def _narrow_column_sums(x: Array) -> Array:
    """`_column_sums` of columns that lie so close that several of their rows are taken as one."""
    outer, size, inner = x.shape
    if size <= _ROWS:
        sums = x[:, 0].copy()
        for row in range(1, size):
            sums += x[:, row]
        return sums
    terms = _divisor(size) or _ROWS
    whole = size // terms * terms
    wide = _ones(terms, x.dtype) @ x[:, :whole].reshape(outer, terms, -1)
    sums = _column_sums(wide.reshape(outer, -1, inner))
    return sums if whole == size else sums + _narrow_column_sums(x[:, whole:])


@lru_cache(_KEPT_ONES)
def _ones(size: int, kind: np.dtype[Any]) -> Array:
    ones = np.ones(size, kind)
    ones.flags.writeable = False
    return ones
