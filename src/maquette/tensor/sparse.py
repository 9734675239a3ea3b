"""Sparse tensors: parts (indices and values) in the place of a run of bytes.

A sparse tensor is a `Tensor` whose meta has a sparse layout and whose storage, a `SparseStorage`,
holds its parts: tensors themselves, outside autograd. So aliases share parts as dense ones share
bytes. The layout's key (``SparseCPU``, ``SparseCsrCPU``) makes dispatch find the sparse kernels of
operators (`maquette.aten.sparse`); nothing else asks for the layout. Fake parts make fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

from maquette.core.device import device
from maquette.core.dtype import dtype as DType
from maquette.core.layout import (
    layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)
from maquette.core.meta import TensorMeta
from maquette.core.remembered import remembered
from maquette.core.strides import Shape
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls
from maquette.tensor.keys import ADINPLACE, FAKE, fake_keys_for, inference_keys, keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
"""The layouts that compress the indices of rows, or of columns."""
BY_ROWS = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)
SPARSE_LAYOUTS = (sparse_coo, *COMPRESSED)
TURNED = {
    sparse_csr: sparse_csc,
    sparse_csc: sparse_csr,
    sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}
"""The layout that compresses the other dimension."""


class CooParts(NamedTuple):
    """Indices int64 [sparse dims, nnz] and values [nnz, *dense sizes]."""

    indices: Tensor
    values: Tensor
    coalesced: bool


class CompressedParts(NamedTuple):
    """Offsets of rows (or columns), plain indices of the others, and values.

    Batches lead in each: [*batch, rows + 1], [*batch, nnz], [*batch, nnz, *block, *dense sizes].
    """

    compressed: Tensor
    plain: Tensor
    values: Tensor


Parts: TypeAlias = CooParts | CompressedParts


class SparseStorage(UntypedStorage):
    """What sparse tensors that alias one another share: the parts, and no bytes."""

    __slots__ = ("parts",)

    def __init__(self, on: device, parts: Parts) -> None:
        super().__init__(0, on)
        self.parts = parts


def parts_of(t: Tensor) -> Parts:
    """The parts of a sparse tensor; RuntimeError for another."""
    storage = t._storage
    if not isinstance(storage, SparseStorage):
        raise RuntimeError(f"expected a sparse tensor, got {t.meta} of layout {t.meta.layout}")
    return storage.parts


def tensors_of(parts: Parts) -> tuple[Tensor, ...]:
    """The parts that are tensors, the values last."""
    return parts[:2] if isinstance(parts, CooParts) else tuple(parts)


def mapped(parts: Parts, function: Callable[[Tensor], Tensor]) -> Parts:
    """The parts with ``function`` of each tensor in its place."""
    if isinstance(parts, CooParts):
        return CooParts(function(parts.indices), function(parts.values), parts.coalesced)
    return CompressedParts(*[function(p) for p in parts])


def coo_parts(t: Tensor) -> CooParts:
    """The parts of a COO tensor; RuntimeError for another."""
    parts = parts_of(t)
    if not isinstance(parts, CooParts):
        raise RuntimeError(f"expected a tensor of layout {sparse_coo}, got {t.meta.layout}")
    return parts


def compressed_parts(t: Tensor) -> CompressedParts:
    """The parts of a compressed sparse tensor; RuntimeError for another."""
    parts = parts_of(t)
    if not isinstance(parts, CompressedParts):
        raise RuntimeError(f"expected a compressed sparse tensor, got {t.meta.layout}")
    return parts


def set_parts(t: Tensor, parts: Parts) -> None:
    """Give a sparse tensor, and its aliases, other parts."""
    cast(SparseStorage, t._storage).parts = parts


def nnz_of(t: Tensor) -> int:
    """How many elements (or blocks) a sparse tensor specifies."""
    parts = parts_of(t)
    if isinstance(parts, CooParts):
        return parts.indices.meta.shape[1]
    return parts.plain.meta.shape[-1]


def sparse_dims(t: Tensor) -> tuple[int, int]:
    """How many dimensions are sparse, and how many are dense: batches are neither."""
    parts = parts_of(t)
    if isinstance(parts, CooParts):
        count = parts.indices.meta.shape[0]
        return count, t.meta.ndim - count
    return 2, t.meta.ndim - 2 - batch_dims(t)


def batch_dims(t: Tensor) -> int:
    """How many batch dimensions a compressed tensor has."""
    return compressed_parts(t).compressed.meta.ndim - 1


def block_of(t: Tensor) -> tuple[int, int]:
    """The block size of a compressed tensor: (1, 1) of CSR and CSC."""
    if t.meta.layout not in BLOCKED:
        return (1, 1)
    at = batch_dims(t) + 1
    rows, columns = compressed_parts(t).values.meta.shape[at : at + 2]
    return rows, columns


def sparse_meta(kind: layout, shape: Sequence[int], values: Tensor) -> TensorMeta:
    """The meta of a sparse tensor: it has no strides, so they are zeros."""
    meta = values.meta
    return _sparse_meta(meta.dtype, tuple(shape), meta.device, kind)


@remembered  # made anew for each result that nobody has kept, 10 of 20 us
def _sparse_meta(dtype: DType, shape: Shape, on: device, kind: layout) -> TensorMeta:
    return TensorMeta.of(dtype, shape, (0,) * len(shape), 0, on, kind)


def sparse_tensor(meta: TensorMeta, parts: Parts) -> Tensor:
    """A sparse tensor of these parts: fake where they are. Nothing is checked.

    The parts are kept as they are: who hands them over detaches them.
    """
    values = parts.values
    made: Tensor = object.__new__(type(values) if values.fake_mode is not None else Tensor)
    if values.fake_mode is None:
        keys = inference_keys(meta) if tls.st.inference else keys_for(meta)
    else:
        keys = fake_keys_for(meta)
        if tls.st.inference:
            keys &= ~(ADINPLACE | K.AUTOGRAD)
    made.meta = meta
    made._keys = keys
    made._storage = SparseStorage(meta.device, parts)
    made._mq_data = None
    made._vc = None
    made._base = None
    made._ag = None
    if values._keys & FAKE:
        made.fake_mode = values.fake_mode
        made.constant = None
    return made


def coo_tensor(
    shape: Sequence[int], indices: Tensor, values: Tensor, *, coalesced: bool | None = None
) -> Tensor:
    """A COO tensor of parts that nobody differentiates; nothing is checked.

    coalesced: whether the indices are sorted and each there once; None if only their count tells.
    """
    if coalesced is None:
        count = indices.meta.shape[1]
        coalesced = count.__class__ is int and count < 2  # nothing is asked of symbols
    return sparse_tensor(
        sparse_meta(sparse_coo, shape, values), CooParts(indices, values, coalesced)
    )


def compressed_tensor(
    kind: layout, shape: Sequence[int], compressed: Tensor, plain: Tensor, values: Tensor
) -> Tensor:
    """A compressed sparse tensor of parts that nobody differentiates; nothing is checked."""
    return sparse_tensor(
        sparse_meta(kind, shape, values), CompressedParts(compressed, plain, values)
    )


def with_values(t: Tensor, values: Tensor, *, shape: Sequence[int] | None = None) -> Tensor:
    """A sparse tensor of the same indices with other values."""
    parts = parts_of(t)
    meta = sparse_meta(t.meta.layout, t.meta.shape if shape is None else shape, values)
    return sparse_tensor(meta, parts._replace(values=values))


def specifies_nothing(t: Tensor) -> bool:
    """Whether there are no elements, as far as that is known: nothing is asked of symbols."""
    count = nnz_of(t)
    return count.__class__ is int and not count


def emptied(t: Tensor) -> Tensor:
    """A tensor of the same layout and sizes that specifies nothing."""
    if specifies_nothing(t):
        return t
    parts = parts_of(t)
    if isinstance(parts, CooParts):
        return coo_tensor(
            t.meta.shape, parts.indices[:, :0], parts.values[:0], coalesced=parts.coalesced
        )
    at = parts.plain.meta.ndim - 1
    return compressed_tensor(
        t.meta.layout,
        t.meta.shape,
        parts.compressed,
        parts.plain.narrow(at, 0, 0),
        parts.values.narrow(at, 0, 0),
    )
