"""From every layout to every other: `to_dense`, `to_sparse` and its forms, `sparse_mask`."""

from __future__ import annotations

from typing import cast

from maquette.aten.sparse.forms import (
    NAMES,
    check_same_layout,
    coalesced,
    compressed_of_coo,
    compressed_of_dense,
    coo_of,
    coo_of_dense,
    dense_of,
    layout_name,
    values_at,
)
from maquette.aten.sparse.layouts import turned_compressed
from maquette.aten.sparse.merging import coo_intersection
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.core.layout import layout as Layout
from maquette.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from maquette.core.meta import TensorMeta
from maquette.library.page import define, describe
from maquette.library.sparse_kernels import for_coo, for_sparse
from maquette.tensor.sparse import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    TURNED,
    batch_dims,
    block_of,
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    parts_of,
    sparse_dims,
    with_values,
)
from maquette.tensor.tensor import Tensor

# --- dense ------------------------------------------------------------------------------------

to_dense = define(
    "aten::to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor"
)
to_dense.describe("The strided tensor of a sparse one, zeros between its elements.")
_to_dense = define(
    "aten::_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor"
)


@to_dense.composite
def to_dense_composite(self: Tensor, dtype: DType | None, masked_grad: bool | None) -> Tensor:
    if self.meta.layout is strided:
        return self if dtype is None else self.to(dtype)
    found: Tensor = _to_dense(self, dtype, masked_grad)
    return found


@for_sparse("_to_dense")
def _to_dense_kernel(self: Tensor, dtype: DType | None, masked_grad: bool | None) -> Tensor:
    check(
        dtype is None,
        lambda: "dtype argument is not supported by sparse_to_dense",
    )
    return dense_of(self)


@_to_dense.linear("self")
def _to_dense_gradient(grad: Tensor, self: Tensor, masked_grad: bool | None) -> tuple[Tensor]:
    found: Tensor = to_dense_backward(grad, self, masked_grad)
    return (found,)


to_dense_backward = define(
    "aten::to_dense_backward(Tensor grad, Tensor input, bool? masked_grad=None) -> Tensor"
)


@to_dense_backward.composite
def to_dense_backward_composite(grad: Tensor, input: Tensor, masked_grad: bool | None) -> Tensor:
    if input.meta.layout is strided:
        return grad.to(input.dtype)
    if masked_grad is None or masked_grad:
        pattern = input.coalesce() if input.meta.layout is sparse_coo else input
        masked: Tensor = grad.sparse_mask(pattern)
        return masked
    if input.meta.layout is sparse_coo:
        whole: Tensor = grad.to_sparse(sparse_dims(input)[0])
        return whole
    dense = sparse_dims(input)[1]
    block = block_of(input) if input.meta.layout in BLOCKED else None
    found: Tensor = grad.to_sparse(layout=input.meta.layout, blocksize=block, dense_dim=dense)
    return found


# --- sparse -----------------------------------------------------------------------------------

to_sparse = define(
    "aten::to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, "
    "int? dense_dim=None) -> Tensor"
)
to_sparse.describe("The sparse tensor of a strided one, in a layout, by default COO.")
to_sparse_dim = define("aten::to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor")
_to_sparse = define(
    "aten::_to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, "
    "int? dense_dim=None) -> Tensor"
)
_to_sparse_dim = define("aten::_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor")

Block = tuple[int, int] | None


@to_sparse.composite
def to_sparse_composite(
    self: Tensor, layout: Layout | None, blocksize: Block, dense_dim: int | None
) -> Tensor:
    wanted = sparse_coo if layout is None else layout
    if wanted is strided and blocksize is None and dense_dim is None:
        return self if self.meta.layout is strided else dense_of(self)
    if self.meta.layout is wanted and (
        wanted not in BLOCKED or blocksize is None or tuple(blocksize) == block_of(self)
    ):
        _check_conversion(self, wanted, blocksize, dense_dim)
        return self
    if self.meta.layout in BLOCKED:
        return _of_blocks(self, wanted, blocksize, dense_dim, block_of(self))
    found: Tensor = _to_sparse(self, layout=layout, blocksize=blocksize, dense_dim=dense_dim)
    return found


@to_sparse_dim.composite
def to_sparse_dim_composite(self: Tensor, sparse_dim: int) -> Tensor:
    if self.meta.layout is sparse_coo:
        check(
            sparse_dim == sparse_dims(self)[0],
            lambda: (
                f"to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                f"!=self.sparse_dim() is not supported; got {sparse_dim} and {sparse_dims(self)[0]}"
            ),
        )
        return self
    found: Tensor = _to_sparse_dim(self, sparse_dim)
    return found


_FREELY = (sparse_coo, sparse_csr, sparse_csc)  # what all but blocks are converted to


def _check_conversion(self: Tensor, wanted: Layout, block: Block, dense_dim: int | None) -> None:
    if block is dense_dim is None and wanted in _FREELY and self.meta.layout not in BLOCKED:
        return
    both = f"conversion from {layout_name(self)} to {NAMES[wanted]}"
    check(
        wanted is not strided,
        lambda: f"to_sparse: {both} is not supported; use to_dense()",
    )
    check(
        self.meta.layout is strided or dense_dim is None,
        lambda: f"to_sparse: {both} with dense_dim argument given is not supported; leave it out",
    )
    check(
        wanted in BLOCKED or block is None,
        lambda: f"to_sparse: {both} with blocksize argument given is not supported; leave it out",
    )
    check(
        wanted not in BLOCKED or block is not None,
        lambda: f"to_sparse: {both} without blocksize argument given is not supported",
    )
    check(
        wanted not in BLOCKED or block is None or min(block) > 0,
        lambda: f"blocksize must be positive, got {block}",
    )
    if self.meta.layout in COMPRESSED:
        _check_compressed(self, wanted, block, both)


def _check_compressed(self: Tensor, wanted: Layout, block: Block, both: str) -> None:
    """What compressed layouts are not converted to in one step."""
    blocks = self.meta.layout in BLOCKED
    check(
        not blocks or wanted not in (sparse_csr, sparse_csc),
        lambda: (
            f"{both} is not supported. sparse_compressed_to_{wanted.name}: expected SparseCsr or "
            f"SparseCsc layout but got {layout_name(self)}; call to_sparse() first"
        ),
    )
    check(
        not blocks or wanted not in BLOCKED or tuple(block or ()) == block_of(self),
        lambda: (
            f"to_sparse: {both} with blocksize changed from {list(block_of(self))} to "
            f"{list(block or ())} is not supported; call to_sparse() first"
        ),
    )
    check(
        blocks or wanted not in BLOCKED or not batch_dims(self),
        lambda: (
            f"to_sparse: {both} for batched inputs is not supported; call to_dense() first, or "
            f"convert each"
        ),
    )


def sparse_of(self: Tensor, wanted: Layout, block: Block, dense_dim: int | None) -> Tensor:
    """A tensor, dense or sparse, in a sparse layout."""
    _check_conversion(self, wanted, block, dense_dim)
    given = self.meta.layout
    if given is strided:
        return _of_dense(self, wanted, block, dense_dim)
    if wanted is sparse_coo:
        return coo_of(self)
    if given in COMPRESSED and batch_dims(self):
        dense = sparse_dims(self)[1]
        return _like_index(compressed_of_dense(dense_of(self), wanted, block, dense), self)
    if TURNED.get(given) is wanted and not batch_dims(self):
        return _turned(self, wanted)
    if given is sparse_coo:
        check(
            sparse_dims(self)[0] == 2,
            lambda: (
                f"coo_to_{wanted.name}: conversion from Sparse to {NAMES[wanted]} for input "
                f"tensors with sparse_dim()!=2 is not supported"
            ),
        )
        return compressed_of_coo(self, wanted, block)
    return _like_index(compressed_of_coo(coo_of(self), wanted, block), self)


def _turned(self: Tensor, wanted: Layout) -> Tensor:
    """Columns compressed in place of rows, or rows in place of columns."""
    at = 0 if wanted in BY_ROWS else 1
    majors = self.meta.shape[at] // block_of(self)[at]
    made = turned_compressed(*compressed_parts(self), majors)
    return compressed_tensor(wanted, self.meta.shape, *made)


def _like_index(made: Tensor, given: Tensor) -> Tensor:
    """With indices of the type that those of ``given`` have."""
    kind = compressed_parts(given).compressed.meta.dtype
    parts = compressed_parts(made)
    if parts.compressed.meta.dtype is kind:
        return made
    return compressed_tensor(
        made.meta.layout,
        made.meta.shape,
        parts.compressed.to(kind),
        parts.plain.to(kind),
        parts.values,
    )


def _of_dense(self: Tensor, wanted: Layout, block: Block, dense_dim: int | None) -> Tensor:
    rank, dense = self.meta.ndim, dense_dim or 0
    if wanted is sparse_coo:
        return coo_of_dense(self, rank - dense)
    check(
        rank - dense >= 2,
        lambda: (
            f"to_sparse: dense tensor must have at least 2 dimensions besides dense_dim={dense} to "
            f"be converted to {wanted}, got {self.meta}"
        ),
    )
    check(
        dense >= 0 and rank - dense - 2 >= 0,
        lambda: f"number of dense dimensions (={dense}) must be less or equal to {rank - 2}",
    )
    return compressed_of_dense(self, wanted, block, dense)


def _to_sparse_any(
    self: Tensor, layout: Layout | None, blocksize: Block, dense_dim: int | None
) -> Tensor:
    block = None if blocksize is None else (blocksize[0], blocksize[1])
    return sparse_of(self, sparse_coo if layout is None else layout, block, dense_dim)


def _to_sparse_by_dim(self: Tensor, sparse_dim: int) -> Tensor:
    rank = self.meta.ndim
    check(
        sparse_dim > 0 if rank else sparse_dim >= 0,
        lambda: f"sparse_dim must be >0, but got {sparse_dim}",
    )
    check(
        sparse_dim <= rank,
        lambda: "sparse_dim must be less than or equal to self.dim()",
    )
    if self.meta.layout is not strided:
        check(sparse_dim == 2, lambda: f"sparse dim {sparse_dim} of a compressed tensor must be 2")
        return coo_of(self)
    return coo_of_dense(self, sparse_dim)


_to_sparse.explicit(_to_sparse_any)
for_sparse("_to_sparse")(_to_sparse_any)
_to_sparse_dim.explicit(_to_sparse_by_dim)
for_sparse("_to_sparse.sparse_dim")(_to_sparse_by_dim)


_of_blocks = define(
    "maquette::to_sparse_of_blocks(Tensor self, Layout layout, int[2]? blocksize, int? dense_dim, "
    "int[2] own) -> Tensor"
)
_of_blocks.describe(
    "A tensor of blocks of size `own` in another layout. Its gradient has such blocks again: what "
    "a tensor's metadata tells is not their size."
)
_of_blocks.node_name("ToSparseBackward0")


@for_sparse("maquette::to_sparse_of_blocks")
def _of_blocks_kernel(
    self: Tensor, layout: Layout, blocksize: Block, dense_dim: int | None, own: Block
) -> Tensor:
    return _to_sparse_any(self, layout, blocksize, dense_dim)


@_of_blocks.linear("self")
def _of_blocks_gradient(grad: Tensor, self_meta: TensorMeta, own: Block) -> tuple[Tensor]:
    found: Tensor = grad.to_sparse(layout=self_meta.layout, blocksize=own)
    return (found,)


def to_sparse_gradient(grad: Tensor, self_meta: TensorMeta) -> Tensor:
    """A gradient in the layout of what was converted."""
    wanted = self_meta.layout
    if wanted is strided:
        return grad.to_dense()
    if wanted in BLOCKED:
        return grad
    if grad.meta.layout in BLOCKED and wanted is not sparse_coo:
        grad = grad.to_sparse()  # blocks are not converted to other compressed layouts in one step
    found: Tensor = grad.to_sparse(layout=wanted)
    return found


for _page in (_to_sparse, _to_sparse_dim):
    _page.linear(self=to_sparse_gradient)
    _page.real_derivative()


def _to_compressed(name: str, wanted: Layout) -> None:
    blocks = "int[2] blocksize, " if wanted in BLOCKED else ""
    public = define(f"aten::{name}(Tensor self, {blocks}int? dense_dim=None) -> Tensor")
    private = define(f"aten::_{name}(Tensor self, {blocks}int? dense_dim=None) -> Tensor")

    def given(*rest: object) -> tuple[Block, int | None]:
        block = cast("tuple[int, int]", tuple(cast("list[int]", rest[0]))) if blocks else None
        return block, cast("int | None", rest[-1])

    @public.composite
    def public_composite(self: Tensor, *rest: object) -> Tensor:
        block, dense = given(*rest)
        return to_sparse_composite(self, wanted, block, dense)

    def converted(self: Tensor, *rest: object) -> Tensor:
        block, dense = given(*rest)
        return sparse_of(self, wanted, block, dense)

    private.explicit(converted)
    for_sparse(f"_{name}")(converted)
    private.linear(self=to_sparse_gradient)
    private.real_derivative()


_to_compressed("to_sparse_csr", sparse_csr)
describe("to_sparse_csr", "The tensor as compressed rows.")
_to_compressed("to_sparse_csc", sparse_csc)
describe("to_sparse_csc", "The tensor as compressed columns.")
_to_compressed("to_sparse_bsr", sparse_bsr)
describe("to_sparse_bsr", "The tensor as rows of blocks of `blocksize`, compressed.")
_to_compressed("to_sparse_bsc", sparse_bsc)
describe("to_sparse_bsc", "The tensor as columns of blocks of `blocksize`, compressed.")

# --- masks ------------------------------------------------------------------------------------

sparse_mask = define("aten::sparse_mask(Tensor self, Tensor mask) -> Tensor")
sparse_mask.describe(
    "The elements of a strided tensor at the positions of the sparse tensor `mask`: sparse."
)
_sparse_mask_projection = define(
    "aten::_sparse_mask_projection(Tensor self, Tensor mask, bool accumulate_matches=False) -> "
    "Tensor"
)


@for_sparse("sparse_mask")
def sparse_mask_kernel(self: Tensor, mask: Tensor) -> Tensor:
    check(
        mask.meta.layout is not strided,
        lambda: "sparse_mask: the mask must be sparse",
    )
    check(
        self.meta.shape == mask.meta.shape,
        lambda: (
            f"sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(self.meta.shape)} but mask has size {list(mask.meta.shape)}"
        ),
    )
    found = values_at(self, mask)
    if found is parts_of(self).values if self.meta.layout is not strided else False:
        found = found.clone()
    return with_values(mask, found)


@sparse_mask.derivative("self", "mask")
def sparse_mask_gradient(grad: Tensor, mask: Tensor, self_meta: TensorMeta) -> tuple[Tensor, None]:
    # The values of the mask are not looked at. A gradient may reach places that it leaves out
    # (`to_dense(masked_grad=False)`).
    masked: Tensor = grad.sparse_mask(mask)
    return masked.to_dense() if self_meta.layout is strided else masked, None


@for_coo("_sparse_mask_projection")
def _sparse_mask_projection_kernel(self: Tensor, mask: Tensor, accumulate_matches: bool) -> Tensor:
    """The elements of ``self`` that the mask specifies, too."""
    check_same_layout("_sparse_mask_projection", self, mask)
    pattern, own = coo_parts(coalesced(mask)), coo_parts(coalesced(self))
    dims = own.indices.meta.shape[0]
    here, _ = coo_intersection(own.indices, pattern.indices, self.meta.shape[:dims])
    return coo_tensor(
        self.meta.shape,
        own.indices.index_select(1, here),
        own.values.index_select(0, here),
        coalesced=True,
    )
