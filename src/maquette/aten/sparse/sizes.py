"""Sizes of COO tensors changed in place: elements stay where they are."""

from __future__ import annotations

from math import prod

from maquette.core.errors import check
from maquette.core.layout import sparse_coo
from maquette.core.strides import Shape
from maquette.dispatch.tags import Tag
from maquette.library.page import define, describe
from maquette.library.sparse_kernels import for_coo
from maquette.tensor.sparse import (
    CooParts,
    coo_parts,
    nnz_of,
    set_parts,
    sparse_dims,
    sparse_meta,
)
from maquette.tensor.tensor import Tensor


def _resize(self: Tensor, size: Shape, sparse_dim: int, dense_dim: int, *, clear: bool) -> Tensor:
    parts = coo_parts(self)
    check(
        sparse_dim + dense_dim == len(size),
        lambda: (
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), "
            f"but got {len(size)}"
        ),
    )
    if clear or not parts.indices.meta.shape[1]:
        indices = parts.indices.new_empty((sparse_dim, 0))
        values = parts.values.new_empty((0, *size[sparse_dim:]))
        parts = CooParts(indices, values, True)
    else:
        _check_only_grows(self, size, sparse_dim)
        parts = parts._replace(values=_grown(parts.values, size[sparse_dim:]))
    self.meta = sparse_meta(sparse_coo, size, parts.values)
    set_parts(self, parts)
    return self


def _check_only_grows(self: Tensor, size: Shape, sparse_dim: int) -> None:
    """RuntimeError where elements would be lost, or have other numbers of dimensions."""
    before, shape = sparse_dims(self), self.meta.shape
    _check_kept("sparse", before[0], sparse_dim)
    _check_kept("dense", before[1], len(size) - sparse_dim)
    _check_larger("sparse", shape[:sparse_dim], size[:sparse_dim])
    _check_larger("dense", shape[sparse_dim:], size[sparse_dim:])


_ADVICE = "a non-empty sparse tensor is not supported; sparse_resize_and_clear_() drops what is set"


def _check_kept(kind: str, old: int, new: int) -> None:
    check(
        old == new,
        lambda: f"changing the number of {kind} dimensions (from {old} to {new}) on {_ADVICE}",
    )


def _check_larger(kind: str, old: Shape, new: Shape) -> None:
    check(
        all(a >= b for a, b in zip(new, old, strict=True)),
        lambda: (
            f"shrinking the size of {kind} dimensions (from {list(old)} to {list(new)}) on "
            f"{_ADVICE}"
        ),
    )


def _grown(values: Tensor, dense: Shape) -> Tensor:
    """Values of larger dense sizes: the numbers follow one another as before, then come zeros."""
    if tuple(values.meta.shape[1:]) == tuple(dense):
        return values
    count = values.meta.shape[0]
    grown = values.new_zeros((count * prod(dense),))
    grown.narrow(0, 0, values.meta.numel).copy_(values.reshape((-1,)))
    return grown.reshape((count, *dense))


for _name, _clear in (("sparse_resize_", False), ("sparse_resize_and_clear_", True)):
    define(
        f"aten::{_name}(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) -> Tensor(a!)",
        tags=[Tag.inplace],
    ).functional_form("it changes what the tensor itself specifies")
    for_coo(_name)(
        lambda self, size, sparse_dim, dense_dim, clear=_clear: _resize(
            self, size, sparse_dim, dense_dim, clear=clear
        )
    )
describe(
    "sparse_resize_and_clear_",
    "Give a sparse tensor sizes and numbers of sparse and dense dimensions, and no elements.",
)
describe(
    "sparse_resize_",
    "Give a sparse tensor sizes and numbers of sparse and dense dimensions; its elements stay.",
)

resize_as_sparse_ = define(
    "aten::resize_as_sparse_(Tensor(a!) self, Tensor the_template) -> Tensor(a!)",
    tags=[Tag.inplace],
)
resize_as_sparse_.describe("Give a sparse tensor the sizes and the sparse dimensions of another.")
resize_as_sparse_.functional_form("it changes what the tensor itself specifies")


@for_coo("resize_as_sparse_")
def resize_as_sparse_kernel(self: Tensor, the_template: Tensor) -> Tensor:
    sparse, dense = sparse_dims(the_template)
    if (self.meta.shape, sparse_dims(self)) == (the_template.meta.shape, (sparse, dense)):
        return self
    return _resize(self, the_template.meta.shape, sparse, dense, clear=not nnz_of(self))


@for_coo("resize_as_")
def resize_as_kernel(self: Tensor, the_template: Tensor, memory_format: object) -> Tensor:
    return resize_as_sparse_kernel(self, the_template)
