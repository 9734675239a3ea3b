"""Indices of rows from one form to the other: a row for each element, or where each row begins.

What the layouts themselves use is in `forms.py`; here are the operators of that name, which
programs of graphs call on sorted lists of edges.
"""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.core.dtype import int32, int64
from maquette.core.errors import check
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

_coo_to_csr = define(
    "aten::_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) "
    "-> Tensor"
)
_coo_to_csr.describe("Where each of `size` rows begins in sorted row indices [n]: [size + 1].")


@_coo_to_csr.composite
def _convert_indices_from_coo_to_csr(self: Tensor, size: int, out_int32: bool) -> Tensor:
    check(
        self.ndim == 1,
        lambda: f"Input is supposed to be a vector, but got {self.ndim} dimensional tensor.",
    )
    rows = aten.arange(size + 1, dtype=self.dtype, device=self.device)
    found: Tensor = aten.searchsorted(self, rows, out_int32=out_int32)
    return found


_csr_to_coo = define(
    "aten::_convert_indices_from_csr_to_coo(Tensor crow_indices, Tensor col_indices, *, "
    "bool out_int32=False, bool transpose=False) -> Tensor"
)
_csr_to_coo.describe(
    "Rows and columns [2, n] of elements, from where rows begin [rows + 1] and columns [n]."
)


@_csr_to_coo.composite
def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, out_int32: bool, transpose: bool
) -> Tensor:
    check(
        crow_indices.ndim == 1 and col_indices.ndim == 1,
        lambda: (
            f"expected crow_indices and col_indices of one dimension, got {crow_indices.meta} and "
            f"{col_indices.meta}"
        ),
    )
    kind = int32 if out_int32 else int64
    numbers = aten.arange(crow_indices.shape[0] - 1, dtype=kind, device=crow_indices.device)
    rows = aten.repeat_interleave(numbers, crow_indices.diff(), output_size=col_indices.shape[0])
    columns = col_indices.to(kind)
    found: Tensor = aten.stack([columns, rows] if transpose else [rows, columns])
    return found
