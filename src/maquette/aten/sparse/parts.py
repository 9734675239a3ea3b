"""What sparse tensors are made of: indices, values, how many, coalesced or not.

Tensors are made in `construction.py`, conversions are in `conversion.py`. Values are a view of
their tensor, as in PyTorch; indices never carry gradients and are none.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.aten.sparse.forms import coalesced, layout_name, values_at
from maquette.core.errors import check
from maquette.core.layout import layout as Layout
from maquette.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.library.page import OperatorPage, define
from maquette.library.sparse_kernels import for_compressed, for_coo, for_sparse
from maquette.tensor.aliasing import BELOW
from maquette.tensor.sparse import (
    CooParts,
    compressed_parts,
    coo_parts,
    nnz_of,
    set_parts,
    sparse_dims,
    with_values,
)
from maquette.tensor.tensor import Tensor


def _refusing(page: OperatorPage, kind: str) -> None:
    """Refuse tensors of other layouts."""
    name = page.op._opname

    def refuse(self: Tensor) -> None:
        raise RuntimeError(f"{name} expected {kind} tensor layout but got {layout_name(self)}")

    page.explicit(refuse)


# --- how many ---------------------------------------------------------------------------------

_nnz = define("aten::_nnz(Tensor self) -> int")
sparse_dim = define("aten::sparse_dim(Tensor self) -> int")
sparse_dim.describe("How many of the dimensions a sparse tensor's positions have.")
dense_dim = define("aten::dense_dim(Tensor self) -> int")
dense_dim.describe("How many of the dimensions each stored element of a sparse tensor has.")
_dimI = define("aten::_dimI(Tensor self) -> int")
_dimV = define("aten::_dimV(Tensor self) -> int")
is_coalesced = define("aten::is_coalesced(Tensor self) -> bool")
is_coalesced.describe("Whether a sparse tensor's positions are in order, each there once.")

for_sparse("_nnz")(nnz_of)
for_sparse("sparse_dim")(lambda self: sparse_dims(self)[0])
for_sparse("dense_dim")(lambda self: sparse_dims(self)[1])
for_coo("_dimI")(lambda self: sparse_dims(self)[0])
for_coo("_dimV")(lambda self: sparse_dims(self)[1])
sparse_dim.explicit(lambda self: 0)
dense_dim.explicit(lambda self: self.meta.ndim)
for_coo("is_coalesced")(lambda self: coo_parts(self).coalesced)
_refusing(is_coalesced, "sparse coordinate")

# --- the parts --------------------------------------------------------------------------------

_indices = define("aten::_indices(Tensor(a) self) -> Tensor(a)")
_values = define("aten::_values(Tensor(a) self) -> Tensor(a)")
indices = define("aten::indices(Tensor(a) self) -> Tensor(a)")
indices.describe(
    "The positions of a coalesced sparse tensor's elements: int64, [sparse_dim, count]."
)
values = define("aten::values(Tensor(a) self) -> Tensor(a)")
values.describe("The stored elements of a sparse tensor, which must be coalesced if it is COO.")
crow_indices = define("aten::crow_indices(Tensor(a) self) -> Tensor(a)")
crow_indices.describe(
    "Where each row of a compressed tensor begins among its elements: int64, [..., rows + 1]."
)
col_indices = define("aten::col_indices(Tensor(a) self) -> Tensor(a)")
col_indices.describe("The column of each element of a compressed tensor of rows: int64.")
ccol_indices = define("aten::ccol_indices(Tensor(a) self) -> Tensor(a)")
ccol_indices.describe(
    "Where each column of a compressed tensor begins among its elements: int64, [..., columns + 1]."
)
row_indices = define("aten::row_indices(Tensor(a) self) -> Tensor(a)")
row_indices.describe("The row of each element of a compressed tensor of columns: int64.")


def _checked(self: Tensor, what: str) -> CooParts:
    parts = coo_parts(self)
    check(
        parts.coalesced,
        lambda: f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first",
    )
    return parts


for_coo("_indices")(lambda self: coo_parts(self).indices.detach())
for_coo("_values")(lambda self: coo_parts(self).values.detach())
for_coo("indices")(lambda self: _checked(self, "indices").indices.detach())
for_coo("values")(lambda self: _checked(self, "values").values.detach())
for_compressed("values")(lambda self: compressed_parts(self).values.detach())
_refusing(indices, "sparse coordinate")
_refusing(values, "sparse")


def _compressed_part(page: OperatorPage, kind: str, part: int, *layouts: Layout) -> None:
    name = page.op._opname

    @for_sparse(name)
    def part_of(self: Tensor) -> Tensor:
        if self.meta.layout not in layouts:
            raise RuntimeError(f"{name} expected {kind} tensor layout but got {layout_name(self)}")
        found: Tensor = compressed_parts(self)[part].detach()
        return found

    _refusing(page, kind)


_ROWS, _COLUMNS = "sparse row compressed", "sparse column compressed"
_compressed_part(crow_indices, _ROWS, 0, sparse_csr, sparse_bsr)
_compressed_part(col_indices, _ROWS, 1, sparse_csr, sparse_bsr)
_compressed_part(ccol_indices, _COLUMNS, 0, sparse_csc, sparse_bsc)
_compressed_part(row_indices, _COLUMNS, 1, sparse_csc, sparse_bsc)

for _page in (_indices, _values, indices, crow_indices, col_indices, ccol_indices, row_indices):
    _page.nondifferentiable()


def _view_of_tensor(op: OpOverload, ks: int) -> Callable[..., object]:
    """The kernel at ADInplaceOrView of ``values``: its result is a view of the sparse tensor.

    They share no storage, by which aliases are told otherwise.
    """
    low = ks & BELOW
    below = op.resolved(low)

    def kernel(ks: int, self: Tensor) -> object:
        found = below(low, self)
        assert isinstance(found, Tensor)
        found._base = self if self._base is None else self._base
        found._vc = self._version_counter()
        if not tls.st.grad_enabled:
            creation = "INFERENCE_MODE" if tls.st.inference else "NO_GRAD_MODE"
            found._autograd().creation_meta = creation
        return found

    return kernel


values.op.register(DispatchKey.ADInplaceOrView, Kernel(_view_of_tensor))

# --- values at the places of another ----------------------------------------------------------

sparse_with_values = define("maquette::sparse_with_values(Tensor pattern, Tensor values) -> Tensor")
sparse_values_at = define("maquette::sparse_values_at(Tensor self, Tensor pattern) -> Tensor")


@for_sparse("maquette::sparse_with_values")
def sparse_with_values_kernel(pattern: Tensor, values: Tensor) -> Tensor:
    """A sparse tensor of the same indices with other values."""
    return with_values(pattern, values.detach())


for_sparse("maquette::sparse_values_at")(lambda self, pattern: values_at(self, pattern).detach())
sparse_with_values.linear(values=lambda grad, pattern: sparse_values_at(grad, pattern))
sparse_with_values.flat("pattern")
sparse_values_at.linear(self=lambda grad, pattern: sparse_with_values(pattern, grad))
sparse_values_at.flat("pattern")
values.linear(self=lambda grad, self: sparse_with_values(self, grad))

# --- coalescing -------------------------------------------------------------------------------

coalesce = define("aten::coalesce(Tensor(a) self) -> Tensor(a)")
coalesce.describe(
    "A sparse tensor with equal positions added up, in order; itself, if it is so already."
)
_coalesce = define("aten::_coalesce(Tensor self) -> Tensor")


@coalesce.composite
def coalesce_composite(self: Tensor) -> Tensor:
    if self.meta.layout is not sparse_coo:
        raise RuntimeError(
            f"coalesce expected sparse coordinate tensor layout but got {layout_name(self)}"
        )
    if coo_parts(self).coalesced:
        return self
    found: Tensor = _coalesce(self)
    return found


for_coo("_coalesce")(coalesced)
_coalesce.linear(self=lambda grad: grad)

_coalesced_ = define(
    "aten::_coalesced_(Tensor(a!) self, bool coalesced) -> Tensor(a!)", tags=[Tag.inplace]
)
_coalesced_.functional_form("it only notes what its caller knows of the indices")


@for_coo("_coalesced_")
def _coalesced_kernel(self: Tensor, coalesced: bool) -> Tensor:
    set_parts(self, coo_parts(self)._replace(coalesced=coalesced))
    return self
