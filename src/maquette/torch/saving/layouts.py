"""Sparse and nested tensors in files: how they are taken apart, and made again of their parts.

The parts are strided tensors, which files hold as they do any; the functions that put them together
have the names that PyTorch gives them. A file may be crafted, so all that must hold of the parts is
checked before there is a tensor.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maquette.api.sparse_functions import sparse_compressed_tensor, sparse_coo_tensor
from maquette.core.layout import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from maquette.nested import NestedTensor, StridedNestedTensor
from maquette.nested.strided import Row
from maquette.tensor.tensor import Tensor

Parts = tuple[Callable[..., Tensor], tuple[object, ...]]

SPARSE = (sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)


class DimRange:
    """What PyTorch's files of jagged tensors note of a dimension for its compiler; not used."""

    def __setstate__(self, state: object) -> None:
        pass


def parts_of(t: Tensor) -> Parts | None:
    """The function and arguments that make a sparse or nested tensor; None for a strided one."""
    if isinstance(t, NestedTensor):
        return _rebuild_njt, (_jagged_parts(t),)
    if isinstance(t, StridedNestedTensor):
        return _rebuild_nested_tensor, (
            t._buffer.detach(),
            t._nested_tensor_size(),
            t._nested_tensor_strides(),
            t._nested_tensor_storage_offsets(),
        )
    if t.layout is sparse_coo:
        plain = t.detach()
        return _rebuild_sparse_tensor, (
            sparse_coo,
            (plain._indices(), plain._values(), plain.size(), plain.is_coalesced()),
        )
    if t.layout in SPARSE:
        plain, rows = t.detach(), t.layout in (sparse_csr, sparse_bsr)
        offsets = plain.crow_indices() if rows else plain.ccol_indices()
        indices = plain.col_indices() if rows else plain.row_indices()
        return _rebuild_sparse_tensor, (
            t.layout,
            (offsets, indices, plain.values(), plain.size()),
        )
    return None


def _jagged_parts(t: NestedTensor) -> dict[str, object]:
    # Detached, the offsets are without the number that they have in this process.
    values, offsets, lengths, ragged_idx, least, most = t._parts()
    known = {"min_seqlen": least, "max_seqlen": most}
    return {
        "values": values,
        "offsets": offsets,
        "lengths": lengths,
        "_ragged_idx": ragged_idx,
        "_metadata_cache": {name: n for name, n in known.items() if n is not None},
        "requires_grad": t.requires_grad,
    }


def _rebuild_sparse_tensor(kind: layout, data: Sequence[Any]) -> Tensor:
    """A sparse tensor of its parts; RuntimeError or ValueError if they contradict each other."""
    if kind is sparse_coo:
        indices, values, size, *coalesced = data
        return sparse_coo_tensor(
            indices,
            values,
            size,
            check_invariants=True,
            is_coalesced=bool(coalesced[0]) if coalesced else None,
        )
    if kind in SPARSE:
        offsets, indices, values, size = data
        return sparse_compressed_tensor(
            offsets, indices, values, size, layout=kind, check_invariants=True
        )
    raise NotImplementedError(f"rebuilding sparse tensor for layout {reprlib.repr(kind)}")


def _rebuild_nested_tensor(
    buffer: Tensor, sizes: Tensor, strides: Tensor, storage_offsets: Tensor
) -> Tensor:
    """A strided nested tensor; RuntimeError if a row reaches beyond the buffer."""
    rows = [
        Row(tuple(size), tuple(stride), offset)
        for size, stride, offset in zip(
            sizes.tolist(), strides.tolist(), storage_offsets.tolist(), strict=True
        )
    ]
    for row in rows:
        negative = min((*row.size, *row.stride, row.offset), default=0) < 0
        if negative or row.end > buffer.numel():
            raise RuntimeError(
                f"a row of sizes {row.size}, strides {row.stride} and offset {row.offset} reaches "
                f"beyond the buffer of {buffer.numel()} elements of its nested tensor"
            )
    return StridedNestedTensor(buffer, rows)


def _check_rows(offsets: Tensor, lengths: Tensor | None, extent: int) -> None:
    starts = offsets.tolist()
    ends = starts[1:] if lengths is None else [a + n for a, n in zip(starts, lengths.tolist())]
    if (starts[:1] != [0] and lengths is None) or any(
        not 0 <= a <= b <= extent for a, b in zip(starts, ends)
    ):
        raise RuntimeError(
            f"the rows of a nested tensor must lie within {extent} values, got offsets {starts}"
        )


def _rebuild_njt(constructor_kwargs: Mapping[str, Any]) -> Tensor:
    """A jagged nested tensor; RuntimeError if a row reaches beyond the values."""
    given = dict(constructor_kwargs)
    known = given.pop("_metadata_cache", None) or {}
    values, offsets, lengths = given["values"], given["offsets"], given.get("lengths")
    ragged = given.get("_ragged_idx", 1)
    if offsets.device.type != "meta":  # where a row ends is data
        _check_rows(offsets, lengths, values.shape[ragged - 1])
    made = NestedTensor(
        values,
        offsets,
        lengths=lengths,
        _ragged_idx=ragged,
        _min_seqlen_tensor=known.get("min_seqlen"),
        _max_seqlen_tensor=known.get("max_seqlen"),
    )
    return made.requires_grad_(bool(given.get("requires_grad")))
