"""Where the elements of sparse matrices are, on arrays: offsets, sorted orders, blocks.

What the kernels of `layouts.py`, `matrix_products.py` and `primitives.py` share. SciPy's compiled
functions do what would take a sort. They read and write where indices say, so `checked_compressed`
or `checked_within` come first.
"""

from __future__ import annotations

import functools
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.core.errors import check_data

Sizes = tuple[int, ...]

_ROOM = 8  # counting sorts and tables of blocks are taken up to this many places for an element


@functools.cache
def compiled_tools() -> ModuleType:
    """SciPy's functions of the parts of sparse matrices, which its matrices are made on.

    They are called without such matrices: to make one takes 20 us and to ask it 20 us, where
    PyTorch's product of a small matrix and a vector takes 6 us (scipy 1.17). The first call imports
    `scipy.sparse` (0.2 s).
    """
    from scipy.sparse import _sparsetools

    tools: ModuleType = _sparsetools
    return tools


# --- checks -----------------------------------------------------------------------------------


def checked_within(row: Array, extent: int) -> None:
    """RuntimeError for an index that is not in a dimension of this size."""
    if row.size == 0:
        return
    unsigned = row.view(np.uint64 if row.itemsize == 8 else np.uint32)  # what is negative is large
    check_data(
        bool(unsigned.max() < extent),
        lambda: (
            f"found an index out of range: {int(row.min())} to {int(row.max())} in a dimension of "
            f"size {extent}"
        ),
    )


def checked_compressed(compressed: Array, plain: Array, minors: int) -> None:
    """RuntimeError unless these are the indices of a compressed matrix, sorted or not."""
    checked_within(plain, minors)
    checked_offsets(compressed, plain.size)


def checked_offsets(compressed: Array, count: int) -> None:
    """RuntimeError unless offsets divide this many elements among rows."""
    check_data(
        compressed[0] == 0
        and compressed[-1] == count
        and bool((compressed[1:] >= compressed[:-1]).all()),
        lambda: "crow_indices must not decrease, and run from 0 to the number of elements",
    )


# --- offsets and orders -----------------------------------------------------------------------


def offsets_of(majors: Array, count: int) -> Array:
    """Where each of ``count`` rows begins among sorted elements; they are within them."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(majors, minlength=count), out=offsets[1:])
    return offsets


def checked_ends(row: Array, extent: int) -> None:
    """`checked_within` for sorted indices."""
    if row.size and not 0 <= row[0] <= row[-1] < extent:
        checked_within(row, extent)


def majors_of_offsets(compressed: Array) -> Array:
    """The row of each element, int64."""
    return np.repeat(np.arange(compressed.size - 1), compressed[1:] - compressed[:-1])


def turned(compressed: Array, plain: Array, minors: int) -> tuple[Array, Array, Array]:
    """The other way to compress a matrix: its indices, and which element comes where."""
    majors = compressed.size - 1
    kind = compressed.dtype
    offsets, rows = np.empty(minors + 1, kind), np.empty(plain.size, kind)
    order = np.empty(plain.size, np.int64)
    numbers = np.arange(plain.size)
    tools = compiled_tools()
    tools.csr_tocsc(majors, minors, compressed, plain, numbers, offsets, rows, order)
    return offsets, rows, order


def stable_order(numbers: Array) -> Array:
    """Where the sorted numbers, from 0, were; NumPy counts those of 16 bits (9 times as fast)."""
    narrow = numbers.size and numbers.max() < 1 << 16
    return np.argsort(numbers.astype(np.uint16) if narrow else numbers, kind="stable")


def flat_index(indices: Array, size: Sizes) -> Array:
    """The number of each column of indices, row by row, of a tensor of ``size``."""
    if len(indices) == 0:
        return np.zeros(indices.shape[1], np.int64)
    flat = indices[0]
    for row, extent in zip(indices[1:], size[1:], strict=True):
        flat = flat * int(extent) + row
    return flat


def unflat(flat: Array, size: Sizes) -> Array:
    """Columns of indices from their numbers."""
    rows = np.empty((len(size), flat.size), np.int64)
    for d in range(len(size) - 1, 0, -1):
        whole = flat // max(int(size[d]), 1)  # `divmod` takes 5 times as long
        rows[d] = flat - whole * int(size[d])
        flat = whole
    if len(size):
        rows[0] = flat
    return rows


def sorted_order(indices: Array, size: Sizes) -> Array:
    """Where the columns of indices were, sorted, equal ones in the order that they have."""
    if len(indices) != 2 or sum(size) > _ROOM * indices.shape[1] or indices.shape[1] < 64:
        return stable_order(flat_index(indices, size))
    for row, extent in zip(indices, size, strict=True):
        checked_within(row, extent)
    # By columns, then by rows: two counting sorts (9,000 elements: 550 to 60 us).
    (rows, columns), (majors, minors) = indices, map(int, size)
    count, tools = rows.size, compiled_tools()
    at, first, by_columns = np.empty(minors + 1, np.int64), *np.empty((2, count), np.int64)
    tools.coo_tocsr(minors, majors, count, columns, rows, np.arange(count), at, first, by_columns)
    again, second, order = np.empty(majors + 1, np.int64), *np.empty((2, count), np.int64)
    tools.csr_tocsc(minors, majors, at, first, by_columns, again, second, order)
    return order


# --- blocks -----------------------------------------------------------------------------------


def in_blocks(
    rows: Array, columns: Array, values: Array, grid: Sizes, block: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """Elements, each there once, as blocks: rows and columns of blocks, sorted by rows; values.

    grid: how many blocks there are in each direction.
    """
    r, c = block
    block_rows, block_columns = rows // r, columns // c
    numbers = block_rows * grid[1] + block_columns
    places = grid[0] * grid[1]
    if places <= _ROOM * max(numbers.size, 1) + 4096:
        there = np.zeros(places, np.bool_)
        there[numbers] = True
        found = np.flatnonzero(there)
        which = np.empty(places, np.int64)
        which[found] = np.arange(found.size)
        at = which[numbers]
    else:
        found, at = np.unique(numbers, return_inverse=True)
    made = np.zeros((found.size * r * c, *values.shape[1:]), values.dtype)
    made[(at * r + (rows - block_rows * r)) * c + (columns - block_columns * c)] = values
    first = found // max(grid[1], 1)
    blocks = made.reshape(found.size, r, c, *values.shape[1:])
    return first, found - first * grid[1], blocks
