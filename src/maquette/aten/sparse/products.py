"""Products of sparse matrices: with dense ones, with one another, sampled at a pattern."""

from __future__ import annotations

from maquette.aten.common.formula_helpers import conj
from maquette.aten.common.operators import aten
from maquette.aten.sparse.forms import (
    coalesced,
    coo_of,
    layout_name,
    places_of,
)
from maquette.aten.sparse.layouts import coo_indices
from maquette.aten.sparse.matrix_products import (
    compressed_pair_product,
    compressed_product,
    coo_coo_product,
    coo_product,
    sampled_products,
    sampled_sum,
)
from maquette.aten.sparse.parts import sparse_values_at, sparse_with_values
from maquette.core.errors import check
from maquette.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from maquette.core.strides import Shape
from maquette.library.page import Variant, define
from maquette.library.sparse_kernels import for_coo, for_sparse, overload
from maquette.tensor.sparse import (
    CompressedParts,
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    parts_of,
    with_values,
)
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex


def _check_matrices(name: str, left: Tensor, right: Tensor) -> None:
    a, b = left.meta, right.meta
    check(a.ndim == 2, lambda: f"{name}: mat1 must be a matrix, got {a.ndim}-D tensor")
    check(b.ndim == 2, lambda: f"{name}: mat2 must be a matrix, got {b.ndim}-D tensor")
    check(
        a.shape[1] == b.shape[0],
        lambda: (
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        ),
    )


def _triple(t: Tensor) -> tuple[Tensor, Tensor]:
    """Indices [2, nnz] and values [nnz] of a sparse matrix."""
    parts = coo_parts(coo_of(t))
    check(
        parts.indices.meta.shape[0] == 2,
        lambda: (
            f"mm: expected a matrix of two sparse dimensions, got {t.meta} with "
            f"{parts.indices.meta.shape[0]}"
        ),
    )
    return parts.indices, parts.values


def product(left: Tensor, right: Tensor) -> Tensor:
    """The product of two matrices of which at least one is sparse; sparse if both are."""
    _check_matrices("mm", left, right)
    _check_layouts(left, right)
    if left.meta.layout is strided:
        turned = _times_strided(right.t(), left.t()).t()
        return turned if right.meta.layout is sparse_coo else turned.contiguous()
    if right.meta.layout is strided:
        return _times_strided(left, right)
    made = _sparse_product(left, right)
    return made.to_sparse_csr() if made.meta.layout is sparse_csc else made


def _times_strided(left: Tensor, right: Tensor) -> Tensor:
    """A sparse matrix times a strided one, or a vector."""
    parts = parts_of(left)
    if isinstance(parts, CompressedParts) and left.meta.layout is not sparse_bsc:
        by_rows = left.meta.layout is not sparse_csc
        found: Tensor = compressed_product(*parts, left.meta.shape, right, by_rows)
        return found
    indices, values = _triple(left)
    made: Tensor = coo_product(indices, values, left.meta.shape, right)
    return made


def _check_layouts(left: Tensor, right: Tensor) -> None:
    """Refuse pairs of layouts without a product: mixed ones, and rows of blocks from the right."""
    pair = {left.meta.layout, right.meta.layout}
    check(
        right.meta.layout is not sparse_bsr
        and (strided in pair or pair == {sparse_coo} or pair <= {sparse_csr, sparse_csc}),
        lambda: (
            f"mm: computation on {left.device.type} is not implemented for {layout_name(left)} @ "
            f"{layout_name(right)}; convert one with to_sparse(layout=...) or to_dense()"
        ),
    )


def _sparse_product(left: Tensor, right: Tensor) -> Tensor:
    _check_matrices("_sparse_sparse_matmul", left, right)
    _check_layouts(left, right)
    check(
        left.dtype is right.dtype,
        lambda: f"mm: expected matrices of one dtype, got {left.dtype} and {right.dtype}",
    )
    shape = (left.meta.shape[0], right.meta.shape[1])
    if left.meta.layout is not sparse_coo:
        return _compressed_pair(left, right, shape)
    a, v = _triple(left)
    b, w = _triple(right)
    indices, values = coo_coo_product(a, v, left.meta.shape, b, w, right.meta.shape)
    return coo_tensor(shape, indices, values, coalesced=True)


def _compressed_pair(left: Tensor, right: Tensor, shape: Shape) -> Tensor:
    """Compressed rows and columns: columns if both are, by the product of both transposed."""
    if left.meta.layout is right.meta.layout is sparse_csc:
        first, second = right.t(), left.t()
        made = compressed_pair_product(
            *compressed_parts(first), first.meta.shape, *compressed_parts(second), second.meta.shape
        )
        return compressed_tensor(sparse_csc, shape, *made)
    first, second = left.to_sparse_csr(), right.to_sparse_csr()
    made = compressed_pair_product(
        *compressed_parts(first), left.meta.shape, *compressed_parts(second), right.meta.shape
    )
    return compressed_tensor(sparse_csr, shape, *made)


for_sparse("mm")(product)


@for_sparse("mv")
def mv_kernel(self: Tensor, vec: Tensor) -> Tensor:
    check(
        self.meta.ndim == 2 and vec.meta.ndim == 1,
        lambda: (
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {self.meta.ndim} "
            f"Tensor Dim: {vec.meta.ndim}"
        ),
    )
    check(
        self.meta.shape[1] == vec.meta.shape[0],
        lambda: (
            f"mv: expected self.size(-1) == vec.size(-1), size mismatch, got input "
            f"({self.meta.shape[0]}), mat ({self.meta.shape[0]}x{self.meta.shape[1]}), vec "
            f"({vec.meta.shape[0]})"
        ),
    )
    _check_layouts(self, vec)
    return _times_strided(self, vec)


@for_sparse("addmm")
def addmm_kernel(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Tensor:
    _check_matrices("addmm", mat1, mat2)
    _check_sum(self, mat1, mat2)
    found = _sparse_product(mat1, mat2) if self.meta.layout is sparse_csc else product(mat1, mat2)
    if self.meta.layout is strided:
        found = found.to_dense()
    scaled: Tensor = found if alpha == 1 else found * alpha
    if self.meta.layout is strided and found.meta.layout is strided:
        self = self.expand(found.meta.shape)
    if beta == 0:
        return scaled
    base: Tensor = self if beta == 1 else self * beta
    return base + scaled


def _check_sum(self: Tensor, mat1: Tensor, mat2: Tensor) -> None:
    """Refuse to add products of layouts that `addmm` does not take."""
    kinds = (self.meta.layout, mat1.meta.layout, mat2.meta.layout)
    one, two = kinds[1:]
    if kinds[0] is strided:
        good = sparse_coo not in kinds or kinds == (strided, sparse_coo, strided)
    elif kinds[0] is sparse_csr:
        good = {one, two} <= {sparse_csr, sparse_csc}
    else:
        good = kinds == (sparse_csc,) * 3
    check(
        good,
        lambda: (
            f"addmm: computation on {self.device.type} is not implemented for {layout_name(self)} "
            f"+ {layout_name(mat1)} @ {layout_name(mat2)}; convert with to_sparse(layout=...) or "
            f"to_dense()"
        ),
    )


@for_sparse("addmv")
def addmv_kernel(self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number) -> Tensor:
    found = mv_kernel(mat, vec)
    scaled: Tensor = found if alpha == 1 else found * alpha
    return scaled if beta == 0 else self * beta + scaled


@for_sparse("bmm")
def bmm_kernel(self: Tensor, mat2: Tensor) -> Tensor:
    """Batches of products: a slice of the batch after the other."""
    check(
        self.meta.ndim == mat2.meta.ndim == 3 and self.meta.shape[0] == mat2.meta.shape[0],
        lambda: f"bmm: expected two batches of matrices, got {self.meta} and {mat2.meta}",
    )
    count = self.meta.shape[0]
    if not count:
        return mat2.new_zeros((0, self.meta.shape[1], mat2.meta.shape[2]))
    rows = [product(self.select(0, i), mat2.select(0, i)) for i in range(count)]
    found: Tensor = aten.stack(rows)
    return found


# --- torch.sparse's ---------------------------------------------------------------------------

_sparse_addmm = define(
    "aten::_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor"
)
_sparse_mm = define("aten::_sparse_mm(Tensor sparse, Tensor dense) -> Tensor")
_sparse_sparse_matmul = define("aten::_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor")


@for_sparse("_sparse_addmm")
def _sparse_addmm_kernel(
    self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number
) -> Tensor:
    return addmm_kernel(self, mat1, mat2, beta, alpha)


@_sparse_addmm.explicit
def _dense_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Tensor:
    found: Tensor = aten.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return found


_sparse_addmm.derivative(
    self=lambda grad, beta: grad * conj(beta),
    mat1=lambda grad, mat1, mat2, alpha: _factor_gradient(grad, mat1, mat2) * conj(alpha),
    mat2=lambda grad, mat1, alpha: _dense_gradient(grad, mat1) * conj(alpha),
)


def _factor_gradient(grad: Tensor, factor: Tensor, dense: Tensor) -> Tensor:
    if factor.layout is strided:
        whole: Tensor = grad @ dense.t().conj()
        return whole
    return _sampled_gradient(grad, factor, dense)


def _sampled_gradient(grad: Tensor, sparse: Tensor, dense: Tensor) -> Tensor:
    """The gradient of a sparse factor where it specifies elements, without the rest."""
    pattern = sparse.coalesce() if sparse.layout is sparse_coo else sparse
    found: Tensor = sparse_with_values(pattern, _sampled(pattern, grad, dense.t().conj()))
    return found


def _dense_gradient(grad: Tensor, sparse: Tensor) -> Tensor:
    found: Tensor = sparse.t().conj() @ grad
    return found


def _sampled(pattern: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The elements of ``left @ right`` at the places of a pattern."""
    with_places = pattern.detach()
    if with_places.layout in (sparse_bsr, sparse_bsc):
        found: Tensor = sparse_values_at(left @ right, with_places)
        return found
    rows, columns = _rows_and_columns(with_places)
    sampled: Tensor = sampled_products(rows, columns, left, right)
    return sampled


def _rows_and_columns(t: Tensor) -> tuple[Tensor, Tensor]:
    if t.meta.layout is sparse_coo:
        rows, columns = coo_parts(t).indices.unbind(0)
        return rows, columns
    parts, by_rows = compressed_parts(t), t.meta.layout is sparse_csr
    rows, columns = coo_indices(parts.compressed, parts.plain, (1, 1), by_rows).unbind(0)
    return rows, columns


@_sparse_mm.composite
def _sparse_mm_composite(sparse: Tensor, dense: Tensor) -> Tensor:
    if sparse.layout is not strided and dense.layout is not strided:
        found: Tensor = _sparse_sparse_matmul(sparse, dense)
        return found
    if sparse.layout is strided and dense.layout is not strided:
        turned: Tensor = _sparse_mm(dense.t(), sparse.t()).t()
        return turned
    zeros = dense.new_zeros((sparse.size(0), dense.size(-1)))
    summed: Tensor = _sparse_addmm(zeros, sparse, dense, beta=0, alpha=1)
    return summed


for_sparse("_sparse_sparse_matmul")(_sparse_product)


def _of_pattern(grad: Tensor, pattern: Tensor) -> Tensor:
    where = pattern.coalesce() if pattern.layout is sparse_coo else pattern
    found: Tensor = grad.sparse_mask(where)
    return found


_sparse_sparse_matmul.derivative(
    self=lambda grad, self, other: _of_pattern(_sparse_sparse_matmul(grad, other.t().conj()), self),
    other=lambda grad, self, other: _of_pattern(
        _sparse_sparse_matmul(self.t().conj(), grad), other
    ),
)

sparse_sampled_addmm = define(
    "aten::sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, "
    "Scalar alpha=1) -> Tensor",
    variants=[Variant.OUT],
)
sparse_sampled_addmm.describe(
    "``beta * self + alpha * mat1 @ mat2`` at the positions that `self` stores: sparse."
)


@for_sparse("sparse_sampled_addmm")
def sparse_sampled_addmm_kernel(
    self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number
) -> Tensor:
    check(
        self.meta.layout is sparse_csr,
        lambda: (
            f"sampled_addmm: Expected self to have sparse csr layout, got {layout_name(self)}; "
            f"convert it with to_sparse_csr()"
        ),
    )
    kind = self.meta.dtype
    check(
        kind.category > 1 and kind.itemsize >= 4,
        lambda: (
            f"sparse_sampled_addmm: Expected self to be a floating-point or complex tensor, but "
            f"got {kind.scalar_name}"
        ),
    )
    check(
        mat1.meta.layout is strided and mat2.meta.layout is strided,
        lambda: "sampled_addmm: Expected mat1 and mat2 to have strided layout",
    )
    check(
        mat1.meta.shape[-1] == mat2.meta.shape[-2],
        lambda: (
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied "
            f"({'x'.join(map(str, mat1.meta.shape))} and {'x'.join(map(str, mat2.meta.shape))})"
        ),
    )
    check(
        self.meta.shape[-2:] == (mat1.meta.shape[-2], mat2.meta.shape[-1]),
        lambda: (
            f"sampled_addmm: self.shape {list(self.meta.shape)} is not the shape of the product"
        ),
    )
    if self.meta.ndim == 2 < max(mat1.meta.ndim, mat2.meta.ndim):
        self = _batched(self, aten.matmul(mat1, mat2).meta.shape)
    compressed, plain, values = compressed_parts(self)
    if self.meta.ndim == 2:
        return with_values(self, sampled_sum(compressed, plain, values, mat1, mat2, beta, alpha))
    sampled = (mat1 @ mat2)[tuple(places_of(self))]
    return with_values(self, values * beta + sampled * alpha)


def _batched(pattern: Tensor, shape: Shape) -> Tensor:
    """A compressed matrix as often as batches ask for it."""
    lead = shape[:-2]
    parts = [p.expand((*lead, *p.meta.shape)) for p in compressed_parts(pattern)]
    return compressed_tensor(pattern.meta.layout, shape, *parts)


sparse_sampled_addmm.derivative(
    self=lambda grad, beta: grad * conj(beta),
    mat1=lambda grad, mat2, alpha: grad @ mat2.mH * conj(alpha),
    mat2=lambda grad, mat1, alpha: mat1.mH @ grad * conj(alpha),
)

smm = define("aten::smm(Tensor self, Tensor mat2) -> Tensor")
smm.describe("The product of a sparse and a strided matrix, as a sparse one.")
sspaddmm = define(
    "aten::sspaddmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> "
    "Tensor"
)
sspaddmm.describe("``beta * self + alpha * mat1 @ mat2`` of a sparse `mat1`, as a sparse matrix.")
hspmm = define("aten::hspmm(Tensor mat1, Tensor mat2) -> Tensor")
hspmm.describe("The product of a sparse and a strided matrix, of which whole rows are stored.")


@for_coo("sspaddmm")
def sspaddmm_kernel(
    self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number
) -> Tensor:
    """``beta * self + alpha * mat1 @ mat2`` as a sparse tensor, not coalesced."""
    rows = coo_parts(hspmm_kernel(mat1, mat2))
    count, width = rows.values.meta.shape
    columns = aten.arange(width, device=self.device)
    places = aten.stack([rows.indices[0].repeat_interleave(width), columns.repeat(count)])
    own = coo_parts(self)
    indices = aten.cat([own.indices, places], 1)
    values = aten.cat([own.values * beta, (rows.values * alpha).reshape(-1)])
    return coo_tensor(self.meta.shape, indices, values)


@for_coo("hspmm")
def hspmm_kernel(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product as a hybrid tensor: the rows that ``mat1`` has elements in."""
    _check_matrices("hspmm", mat1, mat2)
    check(
        mat2.meta.layout is strided,
        lambda: f"hspmm: expected mat2 to be strided, got {layout_name(mat2)}; use to_dense()",
    )
    whole = product(mat1, mat2)
    rows = coo_parts(coalesced(mat1)).indices[0].unique()
    values = whole.index_select(0, rows)
    return coo_tensor(whole.meta.shape, rows.unsqueeze(0), values)


@smm.composite
def smm_composite(self: Tensor, mat2: Tensor) -> Tensor:
    base = empty_like_product(self, mat2)
    found: Tensor = sspaddmm(base, self, mat2, beta=0, alpha=1)
    return found


def empty_like_product(left: Tensor, right: Tensor) -> Tensor:
    """A COO tensor of the product's sizes that specifies nothing."""
    size = [left.size(0), right.size(1)]
    found: Tensor = overload("sparse_coo_tensor.size")(
        size, dtype=left.dtype, layout=sparse_coo, device=left.device
    )
    return found
