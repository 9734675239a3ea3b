"""Sums, norms and softmax of sparse tensors: of the elements that they specify."""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.aten.sparse.forms import coalesced, compressed_of_coo, coo_of
from maquette.aten.sparse.parts import sparse_values_at
from maquette.aten.sparse.picking import index_rows
from maquette.aten.sparse.primitives import compressed_sums, coo_softmax, coo_softmax_backward
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.core.layout import sparse_coo, sparse_csc, sparse_csr, strided
from maquette.library.page import define
from maquette.library.sparse_kernels import for_coo, for_sparse
from maquette.tensor.sparse import (
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    parts_of,
    sparse_dims,
    with_values,
)
from maquette.tensor.tensor import Tensor

Dims = tuple[int, ...]


@for_sparse("sum")
def sum_kernel(self: Tensor, dtype: DType | None) -> Tensor:
    found: Tensor = parts_of(self).values.sum(dtype=dtype)
    return found


@for_sparse("sum.dim_IntList")
def sum_dims_kernel(self: Tensor, dim: Dims | None, keepdim: bool, dtype: DType | None) -> Tensor:
    dims = _dims(self, dim)
    if keepdim and self.meta.layout in (sparse_csr, sparse_csc) and self.meta.ndim == 2:
        return _sums_of_compressed(self, dims, dtype)
    t = self if self.meta.layout is sparse_coo else coo_of(self)
    found = summed_along(t if dtype is None else with_values(t, parts_of(t).values.to(dtype)), dims)
    if not keepdim or found.meta.layout is strided:
        shape = [1 if i in dims else n for i, n in enumerate(self.meta.shape)]
        return found.reshape(shape) if keepdim else found
    for d in sorted(dims):
        found = found.unsqueeze(d)
    if self.meta.layout in (sparse_csr, sparse_csc):
        return compressed_of_coo(found, self.meta.layout, None)
    return found


def _sums_of_compressed(self: Tensor, dims: Dims, dtype: DType | None) -> Tensor:
    """The sums of a compressed matrix, with a size of 1 for each dimension summed along."""
    compressed, plain, values = compressed_parts(self)
    if dtype is not None:
        values = values.to(dtype)
    elif values.meta.dtype.category < 2:
        values = values.long()  # as sums of integers are
    major = 0 if self.meta.layout is sparse_csr else 1
    minors = self.meta.shape[1 - major]
    made = compressed_sums(compressed, plain, values, minors, major in dims, 1 - major in dims)
    shape = [1 if d in dims else n for d, n in enumerate(self.meta.shape)]
    return compressed_tensor(self.meta.layout, shape, *made)


def _dims(self: Tensor, dim: Dims | None) -> Dims:
    rank = self.meta.ndim
    if not dim:
        return tuple(range(rank))
    return tuple(sorted({self._wrap(d) for d in dim})) if rank else ()


def summed_along(self: Tensor, dims: Dims) -> Tensor:
    """The sum along dimensions: dense if no sparse one is left."""
    self = coalesced(self)
    parts = coo_parts(self)
    sparse = parts.indices.meta.shape[0]
    values = parts.values
    inner = tuple(d - sparse + 1 for d in dims if d >= sparse)
    kept = [d for d in range(sparse) if d not in dims]
    if inner:
        values = values.sum(inner)
    elif values.meta.dtype.category < 2:
        values = values.long()  # as sums of integers are
    if not kept:
        found: Tensor = values.sum(0)
        return found
    shape = [n for i, n in enumerate(self.meta.shape) if i not in dims]
    if len(kept) == sparse:
        return coo_tensor(shape, parts.indices, values, coalesced=parts.coalesced)
    indices = index_rows(parts.indices, kept)
    return coalesced(coo_tensor(shape, indices, values))


_sparse_sum = define("aten::_sparse_sum(Tensor self) -> Tensor")
_sparse_sum_dtype = define("aten::_sparse_sum.dtype(Tensor self, *, ScalarType dtype) -> Tensor")
_sparse_sum_dim = define("aten::_sparse_sum.dim(Tensor self, int[1] dim) -> Tensor")
_sparse_sum_dim_dtype = define(
    "aten::_sparse_sum.dim_dtype(Tensor self, int[1] dim, *, ScalarType dtype) -> Tensor"
)
_sparse_sum_backward = define(
    "aten::_sparse_sum_backward(Tensor grad, Tensor self, int[] dim) -> Tensor"
)
_sparse_sum.composite(lambda self: self.coalesce().values().sum())
_sparse_sum_dtype.composite(lambda self, dtype: self.coalesce().values().sum(dtype=dtype))
_sparse_sum_dim_dtype.composite(lambda self, dim, dtype: _sparse_sum_dim(self.to(dtype), dim))


@for_coo("_sparse_sum.dim")
def _sparse_sum_dim_kernel(self: Tensor, dim: Dims) -> Tensor:
    check(
        len(dim) > 0,
        lambda: "_sparse_sum: no dimensions were given to sum over",
    )
    wrapped = [self._wrap(d) for d in dim]
    check(
        len(set(wrapped)) == len(wrapped),
        lambda: f"_sparse_sum: a dim appears multiple times in the list of dims {list(dim)}",
    )
    found = summed_along(self, _dims(self, dim))
    if found.meta.layout is strided or max(wrapped) >= sparse_dims(self)[0]:
        return found
    return with_values(found, parts_of(found).values.to(self.meta.dtype))  # unlike `sum`'s


_sparse_sum_dim.derivative(self=lambda grad, self, dim: _sparse_sum_backward(grad, self, dim))


@for_coo("_sparse_sum_backward")
def _sparse_sum_backward_kernel(grad: Tensor, self: Tensor, dim: Dims) -> Tensor:
    """Each element of ``self`` gets the gradient of the sum that it is in."""
    t = coalesced(self)
    parts, dims = coo_parts(t), _dims(self, dim)
    sparse = parts.indices.meta.shape[0]
    kept = [d for d in range(sparse) if d not in dims]
    inner = [d - sparse + 1 for d in dims if d >= sparse]
    values = parts.values
    if not kept:
        found = grad.unsqueeze(0)
    else:
        shape = [n for i, n in enumerate(self.meta.shape) if i not in dims]
        rest = [n for i, n in enumerate(values.meta.shape) if i not in inner]
        pattern = coo_tensor(shape, parts.indices[kept], values.new_zeros(rest))
        found = sparse_values_at(grad, pattern)
    for d in inner:
        found = found.unsqueeze(d)
    return with_values(t, found.expand(values.meta.shape).clone())


# --- norms ------------------------------------------------------------------------------------


@for_coo("linalg_vector_norm")
def norm_kernel(
    self: Tensor, ord: float, dim: Dims | None, keepdim: bool, dtype: DType | None
) -> Tensor:
    check(
        not keepdim,
        lambda: "norm_sparse currently does not support keepdim=True",
    )
    check(
        dim is None or len(dim) in (0, self.meta.ndim),
        lambda: (
            f"norm_sparse currently only supports full reductions, so 'dim' must either be empty "
            f"or contain all dimensions of the input, got {list(dim or ())}"
        ),
    )
    check(
        dtype is None,
        lambda: "norm_sparse currently does not support 'dtype' argument",
    )
    found: Tensor = aten.linalg_vector_norm(parts_of(coalesced(self)).values, ord)
    return found


@for_coo("any")
def any_kernel(self: Tensor) -> Tensor:
    found: Tensor = parts_of(self).values.any()
    return found


# --- softmax ----------------------------------------------------------------------------------


def _softmax(name: str, *, log: bool) -> None:
    base = f"_sparse_{name}"
    main = define(f"aten::{base}(Tensor self, int dim, bool half_to_float) -> Tensor")
    public = define(f"aten::{base}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
    backward = define(
        f"aten::{base}_backward_data(Tensor grad_output, Tensor output, int dim, Tensor self) -> "
        f"Tensor"
    )

    @public.composite
    def public_composite(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
        given = self if dtype is None else self.to(dtype)
        found: Tensor = main(given, dim, False)
        return found

    @for_coo(base)
    def kernel(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
        t, at = coalesced(self), self._wrap(dim)
        parts, sparse = coo_parts(t), sparse_dims(t)[0]
        if at >= sparse:
            method = "log_softmax" if log else "softmax"
            return with_values(t, getattr(parts.values, method)(at - sparse + 1))
        found = coo_softmax(parts.indices, parts.values, self.meta.shape[:sparse], at, log)
        return with_values(t, found)

    @for_coo(f"{base}_backward_data")
    def backward_kernel(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
        at = output._wrap(dim)
        parts, sparse = coo_parts(output), sparse_dims(output)[0]
        grads: Tensor = sparse_values_at(grad_output, output)
        if at >= sparse:
            inner, y = at - sparse + 1, parts.values
            found = (
                grads - y.exp() * grads.sum(inner, True)
                if log
                else y * (grads - (grads * y).sum(inner, True))
            )
        else:
            size = output.meta.shape[:sparse]
            found = coo_softmax_backward(parts.indices, grads, parts.values, size, at, log)
        return with_values(output, found)

    main.derivative(self=lambda grad, result, dim, self: backward(grad, result, dim, self))


_softmax("softmax", log=False)
_softmax("log_softmax", log=True)
