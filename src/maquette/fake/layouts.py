"""Sparse tensors without data: of the layout, sizes and types of another, specifying nothing.

How many elements a real tensor specifies is its data's affair, so what stands for it has none
(M54, M55). `Pattern` says all that is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maquette.core.device import device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import int64
from maquette.core.layout import layout, sparse_coo
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.tensor.sparse import (
    BLOCKED,
    BY_ROWS,
    batch_dims,
    block_of,
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    sparse_dims,
)
from maquette.tensor.tensor import Tensor

Make = Callable[[TensorMeta], Tensor]


class Pattern(NamedTuple):
    """What is known of a sparse tensor without its elements."""

    layout: layout
    dtype: DType
    device: device
    sparse_dim: int
    dense_dim: int
    coalesced: bool
    index_dtype: DType
    batch: int
    block: tuple[int, int] | None


def pattern_of(t: Tensor) -> Pattern:
    """The pattern of a sparse tensor."""
    meta, (sparse, dense) = t.meta, sparse_dims(t)
    if meta.layout is sparse_coo:
        coalesced = coo_parts(t).coalesced
        return Pattern(
            meta.layout, meta.dtype, meta.device, sparse, dense, coalesced, int64, 0, None
        )
    index = compressed_parts(t).compressed.meta.dtype
    block = block_of(t) if meta.layout in BLOCKED else None
    return Pattern(
        meta.layout, meta.dtype, meta.device, 2, dense, False, index, batch_dims(t), block
    )


def specifying_nothing(pattern: Pattern, shape: Shape, make: Make) -> Tensor:
    """A tensor of a pattern and sizes whose parts ``make`` makes of their metas."""
    where = pattern.device

    def part(kind: DType, *sizes: int) -> Tensor:
        return make(TensorMeta.of(kind, tuple(sizes), None, 0, where))

    if pattern.layout is sparse_coo:
        sparse = pattern.sparse_dim
        indices = part(int64, sparse, 0)
        values = part(pattern.dtype, 0, *shape[sparse:])
        return coo_tensor(shape, indices, values, coalesced=pattern.coalesced)
    lead, block = shape[: pattern.batch], pattern.block or ()
    at = 0 if pattern.layout in BY_ROWS else 1
    majors = shape[pattern.batch + at]
    if block:
        majors = majors // block[at]
    index = pattern.index_dtype
    offsets, plain = part(index, *lead, majors + 1), part(index, *lead, 0)
    values = part(pattern.dtype, *lead, 0, *block, *shape[pattern.batch + 2 :])
    return compressed_tensor(pattern.layout, shape, offsets, plain, values)
