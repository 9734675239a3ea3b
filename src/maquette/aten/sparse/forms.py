"""One layout made of another, and values looked up: functions of tensors below autograd, no pages.

The one idea: a compressed tensor is where its elements are (`places_of`), and every layout is made
from COO indices or from a dense mask. Batches and dense dimensions go along.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from maquette.aten.common.operators import aten
from maquette.aten.sparse import layouts, primitives
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.layout import (
    layout as Layout,
)
from maquette.core.layout import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from maquette.tensor.sparse import (
    BLOCKED,
    BY_ROWS,
    CompressedParts,
    CooParts,
    batch_dims,
    block_of,
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    nnz_of,
    parts_of,
    sparse_dims,
)
from maquette.tensor.tensor import Tensor

NAMES = {
    strided: "Strided",
    sparse_coo: "Sparse",
    sparse_csr: "SparseCsr",
    sparse_csc: "SparseCsc",
    sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}


def layout_name(t: Tensor) -> str:
    """The layout as messages name it: ``SparseCsr``."""
    return NAMES.get(t.meta.layout, str(t.meta.layout))


# --- COO --------------------------------------------------------------------------------------


def coalesced(t: Tensor) -> Tensor:
    """The COO tensor itself, or with sorted indices of which each comes once."""
    parts = coo_parts(t)
    if parts.coalesced:
        return t
    dims, count = parts.indices.meta.shape
    if count == 0 or (count == 1 and dims > 0):
        return coo_tensor(t.meta.shape, parts.indices, parts.values, coalesced=True)
    found, summed = primitives.coo_coalesce(parts.indices, parts.values, t.meta.shape[:dims])
    return coo_tensor(t.meta.shape, found, summed, coalesced=True)


def dense_of(t: Tensor) -> Tensor:
    """A sparse tensor's elements, and zeros between them."""
    parts = parts_of(t)
    shape = t.meta.shape
    if isinstance(parts, CompressedParts):
        if is_batched(t):
            filled: Tensor = parts.values.new_zeros(shape).index_put(places_of(t), parts.values)
            return filled
        by_rows = t.meta.layout in BY_ROWS
        found: Tensor = layouts.strided_of_compressed(*parts, shape, block_of(t), by_rows)
        return found
    if parts.indices.meta.shape[0] == 0:
        summed: Tensor = parts.values.sum(0).to(t.meta.dtype)
        return summed
    added: Tensor = layouts.strided_of_coo(*parts[:2], shape, parts.coalesced)
    return added


def coo_of_dense(t: Tensor, sparse_dim: int) -> Tensor:
    """The nonzero elements of a dense tensor; of a hybrid one, those not all zero."""
    indices, values = layouts.coo_of_strided(t, sparse_dim)
    return coo_tensor(t.meta.shape, indices, values, coalesced=True)


def _any_of(mask: Tensor, dims: int) -> Tensor:
    """Whether any element holds along the last dimensions."""
    for _ in range(dims):
        mask = aten.any(mask, -1)
    return mask


def _at_indices(t: Tensor, indices: Tensor) -> Tensor:
    """The values of a dense tensor at COO indices."""
    if indices.meta.shape[0] == 0:
        found: Tensor = t.unsqueeze(0).expand((indices.meta.shape[1], *t.meta.shape)).clone()
        return found
    return t[tuple(indices.unbind(0))]


def coo_of(t: Tensor) -> Tensor:
    """A compressed tensor as COO: batches are sparse dimensions, blocks are taken apart."""
    if t.meta.layout is sparse_coo:
        return t
    parts = compressed_parts(t)
    if is_batched(t):
        places = aten.broadcast_tensors(places_of(t))
        indices = aten.stack([p.reshape((-1,)) for p in places]).to(int64)
    else:
        by_rows = t.meta.layout in BY_ROWS
        indices = layouts.coo_indices(parts.compressed, parts.plain, block_of(t), by_rows)
        if t.meta.layout in (sparse_csr, sparse_csc):
            sorted_ = t.meta.layout is sparse_csr or nnz_of(t) in (0, 1)
            return coo_tensor(t.meta.shape, indices, parts.values, coalesced=sorted_)
    dense = t.meta.shape[t.meta.ndim - sparse_dims(t)[1] :]
    values = parts.values.reshape((indices.meta.shape[1], *dense))
    sorted_ = t.meta.layout is sparse_csr or nnz_of(t) in (0, 1)
    return coo_tensor(t.meta.shape, indices, values, coalesced=sorted_)


# --- compressed layouts -----------------------------------------------------------------------


def majors_of(parts: CompressedParts) -> Tensor:
    """The row (or column) of each element, from the offsets: [*batch, nnz]."""
    *batch, count = parts.plain.meta.shape
    if not batch:
        rows = aten.arange(parts.compressed.meta.shape[0] - 1, device=parts.plain.device)
        spread: Tensor = aten.repeat_interleave(
            rows, parts.compressed.diff().to(int64), output_size=count
        )
        return spread
    numbers = aten.arange(count, dtype=parts.compressed.dtype, device=parts.plain.device)
    bounds = parts.compressed[..., 1:].contiguous()
    found: Tensor = aten.searchsorted(
        bounds, numbers.expand((*batch, count)).contiguous(), right=True
    )
    return found


def places_of(t: Tensor) -> list[Tensor]:
    """Where the elements of a compressed tensor are, as index tensors that broadcast.

    One for each batch dimension, the rows and the columns, of shape [*batch, nnz, *block].
    """
    parts = compressed_parts(t)
    return _places(parts, t.meta.layout, block_of(t))


def _places(parts: CompressedParts, kind: Layout, block: tuple[int, int]) -> list[Tensor]:
    majors, plain = majors_of(parts), parts.plain.to(int64)
    rows, columns = (majors, plain) if kind in BY_ROWS else (plain, majors)
    batch = parts.plain.meta.shape[:-1]
    tail = 1
    if kind in BLOCKED:
        tail = 3
        steps = [aten.arange(n, device=rows.device) for n in block]
        rows = rows[..., None, None] * block[0] + steps[0][:, None]
        columns = columns[..., None, None] * block[1] + steps[1]
    places = []
    for i, size in enumerate(batch):
        shape = [1] * (len(batch) + tail)
        shape[i] = size
        places.append(aten.arange(size, device=rows.device).view(shape))
    return [*places, rows, columns]


def compressed_of_dense(
    t: Tensor, kind: Layout, block: tuple[int, int] | None, dense_dim: int
) -> Tensor:
    """The nonzero elements (or blocks with any) of a dense matrix, or of a batch of them."""
    batch = t.meta.ndim - 2 - dense_dim
    if kind in BLOCKED:
        assert block is not None
        check_divides(t.meta.shape[batch : batch + 2], block)
    if batch == dense_dim == 0:
        made = layouts.compressed_of_strided(t, block, kind in BY_ROWS)
        return compressed_tensor(kind, t.meta.shape, *made)
    tiles = t
    if kind in BLOCKED:
        assert block is not None
        tiles = _tiles(t, batch, block)
    mask = _any_of(tiles != 0, tiles.meta.ndim - 2 - batch)
    if kind not in BY_ROWS:
        mask = mask.transpose(-1, -2)
    compressed, plain = primitives.compressed_places(mask)
    parts = CompressedParts(compressed, plain, t)
    values = tiles[tuple(_places(parts, sparse_csr if kind in BY_ROWS else sparse_csc, (1, 1)))]
    return compressed_tensor(kind, t.meta.shape, parts.compressed, parts.plain, values)


def _tiles(t: Tensor, batch: int, block: tuple[int, int]) -> Tensor:
    """A matrix cut into blocks: [*batch, rows / r, columns / c, r, c, *dense]."""
    shape = t.meta.shape
    lead, rest = shape[:batch], shape[batch + 2 :]
    rows, columns = shape[batch : batch + 2]
    r, c = block
    tiled = t.reshape((*lead, rows // r, r, columns // c, c, *rest))
    order = [*range(batch), batch, batch + 2, batch + 1, batch + 3]
    found: Tensor = tiled.permute([*order, *range(batch + 4, tiled.meta.ndim)])
    return found


def check_divides(size: Sequence[int], block: tuple[int, int]) -> None:
    """RuntimeError unless a matrix can be cut into blocks."""
    (rows, columns), (r, c) = size, block
    check(
        rows % r == 0 and columns % c == 0,
        lambda: (
            f"tensor sparse size ({rows},{columns}) must be divisible by given blocksize ({r},{c})"
        ),
    )


def compressed_of_coo(t: Tensor, kind: Layout, block: tuple[int, int] | None) -> Tensor:
    """A COO matrix in a compressed layout."""
    shape = t.meta.shape
    if block is not None:
        check_divides(shape[:2], block)
    parts = coo_parts(coalesced(t))
    if kind is sparse_csr:
        offsets, plain = layouts.row_offsets(parts.indices, shape[0])
        return compressed_tensor(kind, shape, offsets, plain, parts.values)
    made = layouts.compressed_of_columns(
        parts.indices, parts.values, shape[:2], block, kind in BY_ROWS
    )
    return compressed_tensor(kind, shape, *made)


# --- values at the places of another ----------------------------------------------------------


def values_at(t: Tensor, pattern: Tensor) -> Tensor:
    """The values of ``t``, dense or sparse, where ``pattern`` specifies elements; else zeros."""
    parts = parts_of(pattern)
    if t.meta.layout is strided:
        if isinstance(parts, CooParts):
            return _at_indices(t, parts.indices)
        return t[tuple(places_of(pattern))]
    if t.meta.layout is pattern.meta.layout and parts[0] is parts_of(t)[0]:
        if not isinstance(parts, CooParts) or parts.coalesced or coo_parts(t).coalesced:
            return parts_of(t).values  # of an index that comes twice the sum is wanted
    if isinstance(parts, CooParts) and t.meta.layout is sparse_coo:
        known = coo_parts(t)
        if known.indices.meta.shape[0] == parts.indices.meta.shape[0]:
            return _coo_at(t, parts)
    return values_at(dense_of(t), pattern)


def _coo_at(t: Tensor, wanted: CooParts) -> Tensor:
    parts = coo_parts(coalesced(t))
    dims, count = parts.indices.meta.shape
    at = primitives.coo_lookup(parts.indices, wanted.indices, t.meta.shape[:dims])
    padded = aten.cat([parts.values, parts.values.new_zeros((1, *parts.values.meta.shape[1:]))])
    found: Tensor = padded.index_select(0, at.masked_fill(at < 0, count))
    return found


def check_same_layout(name: str, a: Tensor, b: Tensor) -> None:
    """Refuse two sparse tensors of different layouts."""
    check(
        a.meta.layout is b.meta.layout,
        lambda: (
            f"{name}: expected tensors of one layout, got {layout_name(a)} and {layout_name(b)}"
        ),
    )


def is_batched(t: Tensor) -> bool:
    """Whether a compressed tensor has batch dimensions."""
    return batch_dims(t) > 0 and prod(t.meta.shape[: batch_dims(t)]) >= 0
