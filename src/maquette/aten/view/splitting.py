"""One tensor as a list of views: split, unbind and what is defined by them."""

from __future__ import annotations

import operator
from collections.abc import Callable

from maquette.aten.common.axes import wrap_existing_dim
from maquette.aten.common.batching_forms import along
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.operators import aten
from maquette.aten.view.joining import cat, stack
from maquette.aten.view.views import share_storage
from maquette.core.broadcast import wrap_dim
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.remembered import remembered
from maquette.core.symbols import is_true
from maquette.core.views import select_view
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]
Metas = tuple[TensorMeta, ...]

split = define(
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"
)
split.describe(
    "The tensor in parts of `split_size` along `dim`, the last maybe shorter, or of the sizes"
    " given: views."
)
split_sizes = define(
    "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"
)
split_with_sizes = define(
    "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    tags=[Tag.core],
)
split_with_sizes.describe("The tensor in parts of `split_sizes` along `dim`: views.")
unsafe_split = define(
    "aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"
)
unsafe_split.describe("`split`, whose parts autograd takes for no views.")
unsafe_split.batching(along)
unsafe_split.hides_aliases()
unsafe_split_with_sizes = define(
    "aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"
)
unsafe_split_with_sizes.describe("`split_with_sizes`, whose parts autograd takes for no views.")
unsafe_split_with_sizes.batching(along)
unsafe_split_with_sizes.hides_aliases()


def even_sizes(self: TensorMeta, split_size: int, dim: int) -> Ints:
    """Sizes of the pieces of ``split``: the last may be smaller."""
    check(self.ndim > 0, lambda: "split expects at least a 1-dimensional tensor")
    check(
        split_size >= 0,
        lambda: f"split expects split_size be non-negative, but got split_size={split_size}",
    )
    size = self.shape[wrap_dim(dim, self.ndim)]
    check(
        split_size > 0 or size == 0,
        lambda: (
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
        ),
    )
    if is_true(size == 0):
        return (0,)
    # How many pieces there are must be a number: of symbolic sizes that is guarded here.
    count = operator.index((size + split_size - 1) // split_size)
    return (split_size,) * (count - 1) + (size - split_size * (count - 1),)


def pieces(self: TensorMeta, sizes: Ints, dim: int) -> Metas:
    """The metas of consecutive parts of a dimension; that the sizes add up to it has been asked."""
    axis = wrap_dim(dim, self.ndim)
    before, after = self.shape[:axis], self.shape[axis + 1 :]
    offset = self.offset
    found: list[TensorMeta] = []
    for size in sizes:
        found.append(self.view((*before, size, *after), self.strides, offset))
        offset = offset + size * self.strides[axis]
    return tuple(found)


@split.shape
def split_shape(self: TensorMeta, split_size: int, dim: int) -> Metas:
    return pieces(self, even_sizes(self, split_size, dim), dim)


split.batching(along)


def check_sizes(self: TensorMeta, split_sizes: Ints, dim: int) -> None:
    """Refuse sizes that are negative or do not add up to the dimension's."""
    check(self.ndim > 0, lambda: "split expects at least a 1-dimensional tensor")
    size = self.shape[wrap_dim(dim, self.ndim)]
    for piece in split_sizes:  # each asked alone: what depends on data is asserted later
        check(
            piece >= 0,
            lambda: (
                f"split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={list(split_sizes)}"
            ),
        )
    check(
        sum(split_sizes) == size,
        lambda: (
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={list(split_sizes)}"
        ),
    )


@split_with_sizes.shape
def split_with_sizes_shape(self: TensorMeta, split_sizes: Ints, dim: int) -> Metas:
    check_sizes(self, split_sizes, dim)
    return pieces(self, split_sizes, dim)


split_with_sizes.batching(along)


split_sizes.composite(lambda self, split_size, dim: split_with_sizes(self, split_size, dim))


def _joined(grads: list[Tensor | None], self: TensorMeta, sizes: Ints, dim: int) -> Tensor:
    """The gradients of consecutive slices side by side; zeros where one is undefined."""
    known = next(g for g in grads if g is not None)
    axis = wrap_dim(dim, self.ndim)
    parts = [
        zeros_beside(known, (*self.shape[:axis], size, *self.shape[axis + 1 :])) if g is None else g
        for g, size in zip(grads, sizes, strict=True)
    ]
    joined = cat(parts, axis)
    assert isinstance(joined, Tensor)
    return joined


for _page in (split, unsafe_split):
    _page.linear(
        self=lambda grads, self_meta, split_size, dim: _joined(
            grads, self_meta, even_sizes(self_meta, split_size, dim), dim
        )
    )
for _page in (split_with_sizes, unsafe_split_with_sizes):
    _page.linear(
        self=lambda grads, self_meta, split_sizes, dim: _joined(grads, self_meta, split_sizes, dim)
    )
share_storage(unsafe_split, split, split_shape)
share_storage(unsafe_split_with_sizes, split_with_sizes, split_with_sizes_shape)

unbind = define("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]")
unbind.describe("The slices along `dim`, without it: views.")


@unbind.shape
def unbind_shape(self: TensorMeta, dim: int) -> Metas:
    axis = wrap_existing_dim(dim, self.ndim)
    return tuple(
        self.view(*select_view(self.shape, self.strides, self.offset, axis, index))
        for index in range(self.shape[axis])
    )


@unbind.linear("self")
def unbind_grad(grads: list[Tensor | None], self_meta: TensorMeta, dim: int) -> tuple[object]:
    known = next(g for g in grads if g is not None)
    shape = known.meta.shape
    given = [zeros_beside(known, ()).expand(shape) if g is None else g for g in grads]
    return (stack(given, dim),)


unbind.batching(along)


# --- defined by these ----------------------------------------------------------------


@remembered
def chunk_size(shape: Ints, chunks: int, dim: int) -> int:
    """The size of all chunks but the last, 0 if there is nothing to divide."""
    check(len(shape) > 0, lambda: "chunk expects at least a 1-dimensional tensor")
    check(chunks > 0, lambda: f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return (shape[wrap_dim(dim, len(shape))] + chunks - 1) // chunks


def _chunked(divide: OperatorPage, by_sizes: OperatorPage) -> Callable[..., object]:
    def chunk(self: Tensor, chunks: int, dim: int) -> object:
        size = chunk_size(self.meta.shape, chunks, dim)
        return divide(self, size, dim) if size else by_sizes(self, (0,) * chunks, dim)

    return chunk


chunk = define("aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]")
chunk.describe(
    "The tensor in at most `chunks` parts of equal size along `dim`, the last maybe shorter: views."
)
chunk.composite(_chunked(split, split_with_sizes))
unsafe_chunk = define(
    "aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
    tags=[Tag.maybe_aliasing_or_mutating],
)
unsafe_chunk.describe("`chunk`, whose parts autograd takes for no views.")
unsafe_chunk.composite(_chunked(unsafe_split, unsafe_split_with_sizes))
unsafe_chunk.batching(along)


def _in_sections(self: Tensor, sections: int, dim: int) -> list[object]:
    _check_dimensional(self.meta)
    axis = wrap_dim(dim, self.meta.ndim)
    check(sections > 0, lambda: f"number of sections must be larger than 0, got {sections}")
    size = self.meta.shape[axis]
    begin = 0
    found: list[object] = []
    for section in range(sections):
        # The first of them get one more where they do not come out even; no branch, for symbols.
        end = begin + (size + sections - 1 - section) // sections
        found.append(aten.slice(self, axis, begin, end, 1))
        begin = end
    return found


def _at_indices(self: Tensor, indices: Ints, dim: int) -> list[object]:
    _check_dimensional(self.meta)
    axis = wrap_dim(dim, self.meta.ndim)
    begins = (0, *indices)
    ends = (*indices, self.meta.shape[axis])
    return [aten.slice(self, axis, b, e, 1) for b, e in zip(begins, ends, strict=True)]


def _check_dimensional(self: TensorMeta) -> None:
    check(
        self.ndim > 0,
        lambda: (
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        ),
    )


tensor_split_sections = define(
    "aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"
)
tensor_split_sections.describe(
    "The tensor in parts along `dim`: so many, or cut at the positions given: views."
)
tensor_split_sections.composite(_in_sections)
tensor_split_indices = define(
    "aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"
)
tensor_split_indices.composite(_at_indices)
tensor_split_tensor = define(
    "aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, "
    "Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]"
)


@tensor_split_tensor.composite
def tensor_split_tensor_composite(
    self: Tensor, tensor_indices_or_sections: Tensor, dim: int
) -> object:
    given = tensor_indices_or_sections
    check(
        given.is_cpu,
        lambda: (
            f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
            f"{given.device}"
        ),
    )
    check(
        given.meta.dtype.name == "int64",
        lambda: (
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{given.meta.dtype.scalar_name}"
        ),
    )
    check(
        given.meta.ndim <= 1,
        lambda: (
            f"tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {given.meta.ndim} dims"
        ),
    )
    if given.meta.ndim == 0:
        return _in_sections(self, operator.index(given), dim)
    return _at_indices(self, tuple(int(i) for i in given.tolist()), dim)


def _along(name: str, least: int, axis_of: Callable[[int], int]) -> None:
    """``hsplit``, ``vsplit``, ``dsplit``: tensor_split along a fixed dimension."""

    def checked_axis(self: Tensor) -> int:
        ndim = self.meta.ndim
        check(
            ndim >= least,
            lambda: (
                f"torch.{name} requires a tensor with at least {least} dimension"
                f"{'s' if least == 3 else ''}, but got a tensor with {ndim} dimensions!"
            ),
        )
        return axis_of(ndim)

    def by_sections(self: Tensor, sections: int) -> object:
        axis = checked_axis(self)
        size = self.meta.shape[axis]
        check(
            sections != 0 and size % sections == 0,
            lambda: (
                f"torch.{name} attempted to split along dimension {axis}, but the size of the "
                f"dimension {size} is not divisible by the split_size {sections}!"
            ),
        )
        return aten.tensor_split.sections(self, sections, axis)

    def by_indices(self: Tensor, indices: Ints) -> object:
        return aten.tensor_split.indices(self, indices, checked_axis(self))

    define(f"aten::{name}.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]").composite(
        by_sections
    )
    define(f"aten::{name}.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]").composite(
        by_indices
    )


_along("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
describe("hsplit", "The tensor in parts along its second dimension, or the only one: views.")
_along("vsplit", 2, lambda ndim: 0)
describe("vsplit", "The tensor in parts along its first dimension: views.")
_along("dsplit", 3, lambda ndim: 2)
describe("dsplit", "The tensor in parts along its third dimension: views.")
