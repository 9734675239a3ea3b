"""From one layout to another, on arrays: matrices without batches, each way one loop or two.

Private operators (namespace ``maquette``), called by `forms.py` on the parts. Batches go other ways
there. Where there is no data nothing is found, as in `primitives.py`.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.large_arrays import added_at
from maquette.aten.sparse.places import (
    Sizes,
    checked_compressed,
    checked_ends,
    checked_within,
    compiled_tools,
    flat_index,
    in_blocks,
    majors_of_offsets,
    offsets_of,
    turned,
    unflat,
)
from maquette.core.dtype import int64
from maquette.core.errors import check_data
from maquette.core.meta import TensorMeta
from maquette.library.page import define
from maquette.library.sparse_kernels import counting_nothing

Block = tuple[int, int]
Compressed = tuple[TensorMeta, TensorMeta, TensorMeta]


def _nothing(t: TensorMeta, majors: int, block: Block | None) -> Compressed:
    """The parts of a compressed matrix that specifies nothing."""
    inner = () if block is None else tuple(block)
    return (
        t.fresh((majors + 1,), int64),
        t.fresh((0,), int64),
        t.fresh((0, *inner)),
    )


# --- to COO -----------------------------------------------------------------------------------

coo_indices = define(
    "maquette::coo_indices(Tensor compressed, Tensor plain, int[2] block, bool by_rows) -> Tensor"
)


@counting_nothing(coo_indices, lambda compressed, plain, block, by_rows: plain.fresh((2, 0), int64))
@on_host
def coo_indices_kernel(
    xp: ModuleType, compressed: Array, plain: Array, block: Block, by_rows: bool
) -> Array:
    """Rows and columns of the elements of a compressed matrix, in its order."""
    return _coo_indices(compressed, plain, block, by_rows)


def _coo_indices(compressed: Array, plain: Array, block: Block, by_rows: bool) -> Array:
    majors = majors_of_offsets(compressed)
    check_data(
        majors.size == plain.size,
        lambda: f"the offsets tell of {majors.size} elements, but there are {plain.size}",
    )
    r, c = block
    first, second = (majors, plain) if by_rows else (plain, majors)
    indices = np.empty((2, plain.size * r * c), np.int64)
    if r == c == 1:
        indices[0], indices[1] = first, second
    else:
        tiles = indices.reshape(2, plain.size, r * c)
        tiles[0] = (first * r)[:, None] + np.repeat(np.arange(r), c)
        tiles[1] = (second * c)[:, None] + np.tile(np.arange(c), r)
    return indices


coo_of_strided = define("maquette::coo_of_strided(Tensor t, int sparse_dim) -> (Tensor, Tensor)")


@counting_nothing(
    coo_of_strided,
    lambda t, sparse_dim: (
        t.fresh((sparse_dim, 0), int64),
        t.fresh((0, *t.shape[sparse_dim:])),
    ),
)
@on_host
def coo_of_strided_kernel(xp: ModuleType, t: Array, sparse_dim: int) -> tuple[Array, Array]:
    """The nonzero elements; of a hybrid tensor, the slices that are not all zero."""
    mask = t != 0
    if sparse_dim == 0:
        kept = bool(mask.any())
        return np.zeros((0, int(kept)), np.int64), t[None][: int(kept)].copy()
    if sparse_dim < t.ndim:
        mask = mask.any(tuple(range(sparse_dim, t.ndim)))
    flat = np.flatnonzero(mask)  # of one row 8 times as fast as `nonzero` of many
    indices = unflat(flat, mask.shape)
    if t.flags.c_contiguous:
        return indices, t.reshape(mask.size, *t.shape[sparse_dim:])[flat]
    return indices, t[tuple(indices)]


# --- to compressed layouts --------------------------------------------------------------------

compressed_of_strided = define(
    "maquette::compressed_of_strided(Tensor t, int[2]? block, bool by_rows) -> "
    "(Tensor, Tensor, Tensor)"
)


def _of_strided_shape(t: TensorMeta, block: Block | None, by_rows: bool) -> Compressed:
    r, c = block or (1, 1)
    return _nothing(t, t.shape[0] // r if by_rows else t.shape[1] // c, block)


@counting_nothing(compressed_of_strided, _of_strided_shape)
@on_host
def compressed_of_strided_kernel(
    xp: ModuleType, t: Array, block: Block | None, by_rows: bool
) -> tuple[Array, Array, Array]:
    """The nonzero elements of a matrix, or the blocks with any."""
    if block is not None:
        rows, columns = unflat(np.flatnonzero(t != 0), t.shape)
        values = np.ones(rows.size, np.bool_)
        grid = (t.shape[0] // block[0], t.shape[1] // block[1])
        at, plain, _ = _compressed_blocks(rows, columns, values, grid, block, by_rows)
        majors = majors_of_offsets(at)
        first, second = (majors, plain) if by_rows else (plain, majors)
        tiles = t.reshape(grid[0], block[0], grid[1], block[1])
        return at, plain, tiles[first, :, second, :]
    x = t if by_rows else t.T
    mask = np.ascontiguousarray(x != 0)
    flat = np.flatnonzero(mask)
    majors, minors = mask.shape
    offsets = np.searchsorted(flat, np.arange(majors + 1) * minors)
    rows = majors_of_offsets(offsets)
    plain = flat - rows * minors
    values = x.reshape(-1)[flat] if x.flags.c_contiguous else x[rows, plain]
    return offsets.astype(np.int64, copy=False), plain, values


compressed_of_columns = define(
    "maquette::compressed_of_columns(Tensor indices, Tensor values, SymInt[] size, int[2]? block, "
    "bool by_rows) -> (Tensor, Tensor, Tensor)"
)


def _of_columns_shape(
    indices: TensorMeta, values: TensorMeta, size: Sizes, block: Block | None, by_rows: bool
) -> Compressed:
    r, c = block or (1, 1)
    offsets, plain, _ = _nothing(values, size[0] // r if by_rows else size[1] // c, block)
    inner = () if block is None else tuple(block)
    return offsets, plain, values.fresh((0, *inner, *values.shape[1:]))


@counting_nothing(compressed_of_columns, _of_columns_shape)
@on_host
def compressed_of_columns_kernel(
    xp: ModuleType, indices: Array, values: Array, size: Sizes, block: Block | None, by_rows: bool
) -> tuple[Array, Array, Array]:
    """A compressed matrix of COO indices that are sorted, each there once; or of blocks of any."""
    rows, columns = indices
    checked_within(rows, size[0])
    checked_within(columns, size[1])
    if block is not None:
        grid = (size[0] // block[0], size[1] // block[1])
        return _compressed_blocks(rows, columns, values, grid, block, by_rows)
    offsets = offsets_of(rows, size[0])
    if by_rows:
        return offsets, columns.copy(), values.copy()
    at, plain, order = turned(offsets, columns, int(size[1]))
    return at, plain, values[order]


def _compressed_blocks(
    rows: Array, columns: Array, values: Array, grid: Sizes, block: Block, by_rows: bool
) -> tuple[Array, Array, Array]:
    first, second, blocks = in_blocks(rows, columns, values, grid, block)
    offsets = offsets_of(first, grid[0])
    if by_rows:
        return offsets, second, blocks
    at, plain, order = turned(offsets, second, int(grid[1]))
    return at, plain, blocks[order]


row_offsets = define("maquette::row_offsets(Tensor indices, SymInt rows) -> (Tensor, Tensor)")


@counting_nothing(
    row_offsets,
    lambda indices, rows: (indices.fresh((rows + 1,)), indices.fresh((0,))),
)
@on_host
def row_offsets_kernel(xp: ModuleType, indices: Array, rows: int) -> tuple[Array, Array]:
    """The indices of compressed rows from those of a coalesced COO matrix."""
    checked_ends(indices[0], rows)
    return offsets_of(indices[0], rows), indices[1].copy()


turned_compressed = define(
    "maquette::turned_compressed(Tensor compressed, Tensor plain, Tensor values, SymInt minors) -> "
    "(Tensor, Tensor, Tensor)"
)


@counting_nothing(
    turned_compressed,
    lambda compressed, plain, values, minors: (
        compressed.fresh((minors + 1,)),
        plain.fresh((0,)),
        values.fresh((0, *values.shape[1:])),
    ),
)
@on_host
def turned_compressed_kernel(
    xp: ModuleType, compressed: Array, plain: Array, values: Array, minors: int
) -> tuple[Array, Array, Array]:
    """Rows compressed instead of columns, or columns instead of rows: elements in a new order."""
    checked_compressed(compressed, plain, minors)
    offsets, rows, order = turned(compressed, plain, minors)
    return offsets, rows, values[order]


# --- to strided -------------------------------------------------------------------------------


def _is_plain(values: Array, block: Block) -> bool:
    """Whether SciPy knows the elements of a matrix: numbers that are no blocks."""
    kind = values.dtype
    return values.ndim == 1 and block == (1, 1) and kind.kind in "iufc" and kind != np.float16


strided_of_compressed = define(
    "maquette::strided_of_compressed(Tensor compressed, Tensor plain, Tensor values, SymInt[] "
    "size, int[2] block, bool by_rows) -> Tensor"
)
strided_of_compressed.shape(
    lambda compressed, plain, values, size, *rest: values.fresh(tuple(size))
)


@strided_of_compressed.kernel
@on_host
def strided_of_compressed_kernel(
    xp: ModuleType,
    compressed: Array,
    plain: Array,
    values: Array,
    size: Sizes,
    block: Block,
    by_rows: bool,
) -> Array:
    """A compressed matrix with zeros between its elements; dense dimensions go along."""
    r, c = block
    rows, columns = size[0] // max(r, 1), size[1] // max(c, 1)
    checked_compressed(compressed, plain, int(columns if by_rows else rows))
    if _is_plain(values, block) and by_rows:
        found = np.zeros(size, values.dtype)
        compiled_tools().csr_todense(rows, columns, compressed, plain, values, found.reshape(-1))
        return found
    majors = majors_of_offsets(compressed)
    first, second = (majors, plain) if by_rows else (plain, majors)
    if r == c == 1:
        found = np.zeros((size[0] * size[1], *size[2:]), values.dtype)
        found[first * int(size[1]) + second] = values.reshape(plain.size, *size[2:])
        return found.reshape(size)
    tiles = np.zeros((rows, r, columns, c, *size[2:]), values.dtype)
    tiles[first, :, second] = values
    return tiles.reshape(size)


strided_of_coo = define(
    "maquette::strided_of_coo(Tensor indices, Tensor values, SymInt[] size, bool coalesced) -> "
    "Tensor"
)
strided_of_coo.shape(lambda indices, values, size, coalesced: values.fresh(tuple(size)))


@strided_of_coo.kernel
@on_host
def strided_of_coo_kernel(
    xp: ModuleType, indices: Array, values: Array, size: Sizes, coalesced: bool
) -> Array:
    """COO elements in a tensor of zeros, added where they meet."""
    found = np.zeros(size, values.dtype)
    if not coalesced:
        return _added_to(found, indices, values, coalesced)
    flat = _flat_within(indices, size)
    _lines(found, len(indices))[flat] = values
    return found


plus_coo = define(
    "maquette::plus_coo(Tensor base, Tensor indices, Tensor values, bool coalesced) -> Tensor"
)
plus_coo.shape(lambda base, indices, values, coalesced: base.like())


@plus_coo.kernel
@on_host
def plus_coo_kernel(
    xp: ModuleType, base: Array, indices: Array, values: Array, coalesced: bool
) -> Array:
    """A strided tensor with COO elements of its dtype added."""
    if base.flags.c_contiguous:
        return _added_to(base.copy(), indices, values, coalesced)
    return _added_to(np.ascontiguousarray(base), indices, values, coalesced)


def _lines(whole: Array, sparse_dim: int) -> Array:
    """A tensor with its sparse dimensions as one, also where there are no elements."""
    size = whole.shape
    return whole.reshape(math.prod(size[:sparse_dim]), *size[sparse_dim:])


def _flat_within(indices: Array, size: Sizes) -> Array:
    """`flat_index` of indices that are checked."""
    for row, extent in zip(indices, size, strict=False):
        checked_within(row, extent)
    return flat_index(indices, size[: len(indices)])


def _added_to(target: Array, indices: Array, values: Array, coalesced: bool) -> Array:
    size = target.shape
    flat = _flat_within(indices, size)
    lines = _lines(target, len(indices))
    if coalesced:
        lines[flat] = lines[flat] + values
    elif wide(values) is values:
        added_at(lines, flat, values)
    else:
        sums = wide(lines)
        added_at(sums, flat, wide(values))
        target = sums.astype(target.dtype).reshape(size)
    return target


plus_compressed = define(
    "maquette::plus_compressed(Tensor base, Tensor compressed, Tensor plain, Tensor values, int[2] "
    "block, bool by_rows) -> Tensor"
)
plus_compressed.shape(lambda base, *rest: base.like())


@plus_compressed.kernel
@on_host
def plus_compressed_kernel(
    xp: ModuleType,
    base: Array,
    compressed: Array,
    plain: Array,
    values: Array,
    block: Block,
    by_rows: bool,
) -> Array:
    """A strided tensor with the elements of a compressed matrix of its dtype added."""
    rows, columns = map(int, base.shape[:2])
    if _is_plain(values, block) and by_rows and base.dtype == values.dtype:
        checked_compressed(compressed, plain, columns)
        found = base.copy(order="C")
        compiled_tools().csr_todense(rows, columns, compressed, plain, values, found.reshape(-1))
        return found
    indices = _coo_indices(compressed, plain, block, by_rows)
    elements = values.reshape(indices.shape[1], *base.shape[2:])
    return plus_coo_kernel(xp, base, indices, elements, False)
