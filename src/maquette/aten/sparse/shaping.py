"""Copies, transposes, selections and joins of sparse tensors, and those that specify nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.sparse.construction import empty_compressed, empty_coo
from maquette.aten.sparse.forms import coalesced, coo_of, layout_name
from maquette.aten.sparse.primitives import selected_columns
from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_index
from maquette.core.layout import layout as Layout
from maquette.core.layout import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from maquette.core.strides import Shape
from maquette.dispatch.tags import Tag
from maquette.library.page import define, describe
from maquette.library.sparse_kernels import for_compressed, for_coo, for_sparse, overload
from maquette.tensor.sparse import (
    BLOCKED,
    CompressedParts,
    CooParts,
    batch_dims,
    block_of,
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    emptied,
    mapped,
    nnz_of,
    parts_of,
    set_parts,
    sparse_dims,
    sparse_meta,
    sparse_tensor,
    specifies_nothing,
    with_values,
)
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import relayout

Number = bool | int | float | complex

# --- copies -----------------------------------------------------------------------------------


@for_sparse("clone")
def clone_kernel(self: Tensor, memory_format: object) -> Tensor:
    return sparse_tensor(self.meta, mapped(parts_of(self), lambda p: p.clone()))


@for_sparse("detach")
def detach_kernel(self: Tensor) -> Tensor:
    return self._alias()


@for_sparse("detach_")
def detach_inplace_kernel(self: Tensor) -> Tensor:
    return self  # what it forgets is autograd's


@for_sparse("alias")
def alias_kernel(self: Tensor) -> Tensor:
    return self._alias()


@for_sparse("_to_copy")
def _to_copy_kernel(
    self: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    *rest: object,
) -> Tensor:
    parts = parts_of(self)
    where = self.meta.device if device is None else canonical(device)
    if where.type == "meta" and self.meta.device.type != "meta":
        parts = parts_of(emptied(self))
    values = parts.values.to(device=where, dtype=dtype or self.meta.dtype, copy=True)
    kept = mapped(parts, lambda p: p.to(device=where, copy=True))._replace(values=values)
    made = sparse_tensor(sparse_meta(self.meta.layout, self.meta.shape, values), kept)
    return made if layout is None else made.to_sparse(layout=layout)


@for_sparse("copy_")
def copy_kernel(self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    check(
        isinstance(src, Tensor) and self.meta.layout is not strided,
        lambda: f"copy_() between {layout_name(self)} and dense tensors is not supported",
    )
    check(
        src.meta.layout is self.meta.layout,
        lambda: (
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{layout_name(self)} and src type = {layout_name(src)}"
        ),
    )
    check(
        src.meta.shape == self.meta.shape,
        lambda: (
            f"copy_: expected both of one size, got {list(self.meta.shape)} and "
            f"{list(src.meta.shape)}"
        ),
    )
    parts = parts_of(src)
    if self.meta.layout is not sparse_coo:
        check(
            nnz_of(self) == nnz_of(src),
            lambda: (
                "copy_: only sparse compressed tensors with the same number of specified elements "
                "are supported."
            ),
        )
    kept = mapped(parts, lambda p: p.to(device=self.meta.device, copy=True))
    set_parts(self, kept._replace(values=kept.values.to(self.meta.dtype)))
    return self


copy_sparse_to_sparse_ = define(
    "aten::copy_sparse_to_sparse_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> "
    "Tensor(a!)",
    tags=[Tag.inplace],
)
copy_sparse_to_sparse_.functional_form("`copy` is the functional form for all layouts")
for_coo("copy_sparse_to_sparse_")(copy_kernel)


@for_sparse("zero_")
def zero_kernel(self: Tensor) -> Tensor:
    """Specify nothing any more."""
    parts = mapped(parts_of(emptied(self)), lambda p: p.clone())
    if isinstance(parts, CooParts):
        set_parts(self, parts._replace(coalesced=True))
    else:
        set_parts(self, parts._replace(compressed=parts.compressed.zero_()))
    return self


@for_compressed("fill_.Scalar")
def fill_kernel(self: Tensor, value: Number) -> Tensor:
    parts_of(self).values.fill_(value)
    return self


@for_sparse("contiguous")
def contiguous_kernel(self: Tensor, memory_format: object) -> Tensor:
    return self


# --- those that specify nothing ---------------------------------------------------------------


def empty_of(
    size: Shape, dtype: DType | None, layout: Layout | None, device: Device | None
) -> Tensor:
    """A tensor of a sparse layout that specifies nothing."""
    if layout is sparse_coo:
        return empty_coo(size, len(size), dtype, device)
    assert layout is not None
    check_blocks_known(layout)
    check(
        len(size) >= 2,
        lambda: f"a tensor of layout {layout} has at least 2 dimensions, got size {list(size)}",
    )
    return empty_compressed(size, layout, dtype, device)


def check_blocks_known(layout: Layout) -> None:
    """RuntimeError for a layout of blocks: nothing tells their size."""
    check(
        layout not in BLOCKED,
        lambda: f"empty: of layout {layout} the size of blocks is not known; use to_sparse_bsr()",
    )


@for_sparse("zeros", "empty.memory_format")
def zeros_kernel(
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    *rest: object,
) -> Tensor:
    return empty_of(size, dtype, layout, device)


@for_sparse("zeros_like")
def zeros_like_kernel(
    self: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    *rest: object,
) -> Tensor:
    kind, where = dtype or self.meta.dtype, device or self.meta.device
    wanted = layout or self.meta.layout
    shape = self.meta.shape
    if wanted is strided:
        found: Tensor = aten.zeros(shape, dtype=kind, device=where)
        return found
    if self.meta.layout is strided:
        return empty_of(shape, kind, wanted, where)
    sparse, dense = sparse_dims(self)
    parts = parts_of(self)
    if wanted is sparse_coo:
        return empty_coo(shape, len(shape) - dense, kind, where)
    if isinstance(parts, CooParts):
        check_blocks_known(wanted)
        return empty_compressed(shape, wanted, kind, where, dense_dim=dense if sparse == 2 else 0)
    if wanted in BLOCKED and self.meta.layout not in BLOCKED:
        check_blocks_known(wanted)
    block = block_of(self) if wanted in BLOCKED else ()
    index = parts.compressed.meta.dtype
    return empty_compressed(shape, wanted, kind, where, block, index, dense)


@for_coo("zeros.out")
def zeros_out_kernel(size: Shape, out: Tensor) -> Tensor:
    found: Tensor = out.sparse_resize_and_clear_(size, len(size), 0)
    return found


@for_compressed("zeros.out")
def zeros_out_compressed_kernel(size: Shape, out: Tensor) -> Tensor:
    found: Tensor = out.zero_()
    if tuple(size) != out.meta.shape:
        made = empty_of(size, out.meta.dtype, out.meta.layout, out.meta.device)
        set_parts(out, parts_of(made))
        relayout(out, made.meta)
    return found


@for_coo("empty_like")
def empty_like_kernel(self: Tensor, *options: Any) -> Tensor:
    return zeros_like_kernel(self, *options)


def _values_like(name: str, numbers: int = 0) -> None:
    """A factory that keeps a compressed tensor's indices; numbers: parameters before the dtype."""
    op = overload(name)

    @for_compressed(name)
    def kernel(self: Tensor, *params: Any) -> Tensor:
        given, (dtype, layout, device, *_) = params[:numbers], params[numbers:]
        if layout not in (None, self.meta.layout):
            if name == "empty_like":
                return zeros_like_kernel(self, dtype, layout, device)
            raise RuntimeError(f"{name}: expected layout {self.meta.layout}, got {layout}")
        values = op(parts_of(self).values, *given, dtype=dtype, device=device)
        return with_values(self, values)


_values_like("empty_like")
_values_like("ones_like")
_values_like("randn_like")
_values_like("full_like", 1)


def _dense_like(name: str, numbers: int = 0) -> None:
    """A factory that makes no COO tensor, but a strided one of a COO tensor's size."""
    op = overload(name)

    @for_coo(name)
    def kernel(self: Tensor, *params: Any) -> Tensor:
        given, (dtype, layout, device, *_) = params[:numbers], params[numbers:]
        check(
            layout is strided,
            lambda: (
                f"{name} is not implemented for sparse layout, got {layout or sparse_coo}; ask for "
                f"layout=torch.strided, or use zeros_like"
            ),
        )
        kind, where = dtype or self.meta.dtype, device or self.meta.device
        pattern = aten.zeros(self.meta.shape, dtype=kind, device=where)
        return op(pattern, *given)


_dense_like("ones_like")
_dense_like("full_like", 1)
_dense_like("rand_like")
_dense_like("randn_like")


@for_sparse("ones", "full")
def full_kernel(*args: object) -> Tensor:
    raise RuntimeError("full(...) is not implemented for sparse layout")


@for_sparse("new_zeros", "new_empty")
def new_zeros_kernel(
    self: Tensor,
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    *rest: object,
) -> Tensor:
    wanted = layout or self.meta.layout
    kind, where = dtype or self.meta.dtype, device or self.meta.device
    if wanted is strided:
        found: Tensor = aten.zeros(size, dtype=kind, device=where)
        return found
    return empty_of(size, kind, wanted, where)


# --- sizes ------------------------------------------------------------------------------------


def _resize(self: Tensor, size: Shape, sparse_dim: int, dense_dim: int, *, clear: bool) -> Tensor:
    parts = coo_parts(self)
    check(
        sparse_dim + dense_dim == len(size),
        lambda: (
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), "
            f"but got {len(size)}"
        ),
    )
    same = sparse_dim == parts.indices.meta.shape[0] and size[sparse_dim:] == tuple(
        parts.values.meta.shape[1:]
    )
    if clear or not parts.indices.meta.shape[1] or not same:
        check(
            clear or not parts.indices.meta.shape[1],
            lambda: (
                "changing the number of sparse dimensions or the sizes of dense ones on a tensor "
                "with elements is not supported; clear it first: sparse_resize_and_clear_()"
            ),
        )
        indices = parts.indices.new_empty((sparse_dim, 0))
        values = parts.values.new_empty((0, *size[sparse_dim:]))
        parts = CooParts(indices, values, True)
    else:
        smaller = [a < b for a, b in zip(size, self.meta.shape[: len(size)], strict=True)]
        check(
            not any(smaller),
            lambda: (
                "shrinking the size of sparse dimensions (from "
                f"{list(self.meta.shape[:sparse_dim])} to {list(size[:sparse_dim])}) on a tensor "
                "with elements is not supported"
            ),
        )
    self.meta = sparse_meta(sparse_coo, size, parts.values)
    set_parts(self, parts)
    return self


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


# --- turned -----------------------------------------------------------------------------------

_TURNED = {
    sparse_csr: sparse_csc,
    sparse_csc: sparse_csr,
    sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}


@for_sparse("transpose.int")
def transpose_kernel(self: Tensor, dim0: int, dim1: int) -> Tensor:
    a, b = self._wrap(dim0), self._wrap(dim1)
    shape = list(self.meta.shape)
    shape[a], shape[b] = shape[b], shape[a]
    if a == b:
        return self._alias()
    parts = parts_of(self)
    if isinstance(parts, CompressedParts):
        return _compressed_transposed(self, parts, a, b, shape)
    sparse = parts.indices.meta.shape[0]
    check(
        (a < sparse) == (b < sparse),
        lambda: (
            f"transpose_: a sparse and a dense dimension cannot be exchanged, got dims {a} and "
            f"{b} of a tensor with {sparse} sparse dimensions"
        ),
    )
    if a >= sparse:
        turned = parts.values.transpose(a - sparse + 1, b - sparse + 1)
        return coo_tensor(shape, parts.indices, turned, coalesced=parts.coalesced)
    order = list(range(sparse))
    order[a], order[b] = order[b], order[a]
    # Turned indices are not sorted any more.
    none = specifies_nothing(self)
    return coo_tensor(shape, parts.indices[order], parts.values, coalesced=none)


def _compressed_transposed(
    self: Tensor, parts: CompressedParts, a: int, b: int, shape: Sequence[int]
) -> Tensor:
    batch = batch_dims(self)
    low, high = min(a, b), max(a, b)
    if (low, high) == (batch, batch + 1):
        values = parts.values
        if self.meta.layout in BLOCKED:
            values = values.transpose(batch + 1, batch + 2)
        kind = _TURNED[self.meta.layout]
        return compressed_tensor(kind, shape, parts.compressed, parts.plain, values)
    check(
        high < batch or low >= batch + 2,
        lambda: (
            f"transpose(): can only transpose two batch dimensions, two dense dimensions, or the "
            f"two sparse dimensions, got dims {a} and {b}"
        ),
    )
    if high < batch:
        turned = [p.transpose(a, b) for p in parts]
        return compressed_tensor(self.meta.layout, shape, *turned)
    shift = 1 + (2 if self.meta.layout in BLOCKED else 0) - 2
    values = parts.values.transpose(a + shift, b + shift)
    return compressed_tensor(self.meta.layout, shape, parts.compressed, parts.plain, values)


@for_sparse("t")
def t_kernel(self: Tensor) -> Tensor:
    sparse, dense = sparse_dims(self)
    check(
        sparse <= 2 and dense == 0,
        lambda: (
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} "
            f"sparse and {dense} dense dimensions"
        ),
    )
    return transpose_kernel(self, 0, 0 if self.meta.ndim < 2 else 1)


def _take_over(self: Tensor, made: Tensor) -> Tensor:
    """Have a tensor be what was made of it, as operators that change sizes in place do."""
    self.meta = made.meta
    set_parts(self, parts_of(made))
    return self


@for_coo("transpose_")
def transpose__kernel(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return _take_over(self, transpose_kernel(self, dim0, dim1))


@for_coo("t_")
def t__kernel(self: Tensor) -> Tensor:
    return _take_over(self, t_kernel(self))


@for_coo("permute")
def permute_kernel(self: Tensor, dims: Sequence[int]) -> Tensor:
    order = [self._wrap(d) for d in dims]
    parts = coo_parts(self)
    sparse = parts.indices.meta.shape[0]
    check(
        len(order) == self.meta.ndim,
        lambda: (
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {self.meta.ndim} is "
            f"not equal to len(dims) = {len(order)}"
        ),
    )
    check(
        len(set(order)) == len(order),
        lambda: f"permute(sparse_coo): duplicate dims are not allowed, got {list(dims)}",
    )
    check(
        all(d < sparse for d in order[:sparse]),
        lambda: (
            "transpositions between sparse and dense dimensions are not allowed. Got "
            f"dims={list(dims)}, sparse_dim={sparse}"
        ),
    )
    shape = [self.meta.shape[d] for d in order]
    inner = [0, *(d - sparse + 1 for d in order[sparse:])]
    sorted_ = order[:sparse] == list(range(sparse))
    values = parts.values.permute(inner)
    indices = parts.indices if sorted_ else parts.indices[order[:sparse]]
    return coo_tensor(shape, indices, values, coalesced=parts.coalesced and sorted_)


@for_coo("unsqueeze")
def unsqueeze_kernel(self: Tensor, dim: int) -> Tensor:
    rank = self.meta.ndim + 1
    check_index(
        -rank <= dim < rank,
        lambda: (
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got "
            f"{dim})"
        ),
    )
    at = dim % rank
    parts = coo_parts(self)
    sparse, count = parts.indices.meta.shape
    shape = [*self.meta.shape[:at], 1, *self.meta.shape[at:]]
    if at > sparse:
        values = parts.values.unsqueeze(at - sparse + 1)
        return coo_tensor(shape, parts.indices, values)
    row = parts.indices.new_zeros((1, count))
    indices = aten.cat([parts.indices[:at], row, parts.indices[at:]])
    return coo_tensor(shape, indices, parts.values)


# --- selected and joined ----------------------------------------------------------------------


@for_coo("index_select")
def index_select_kernel(self: Tensor, dim: int, index: Tensor) -> Tensor:
    at = self._wrap(dim)
    check(
        index.meta.ndim == 1,
        lambda: f"index_select() argument index must be 1-D, got {index.meta.ndim}-D",
    )
    parts = coo_parts(self)
    sparse = parts.indices.meta.shape[0]
    shape = [*self.meta.shape]
    shape[at] = index.meta.shape[0]
    if at >= sparse:
        values = parts.values.index_select(at - sparse + 1, index)
        return coo_tensor(shape, parts.indices, values, coalesced=parts.coalesced)
    extent = self.meta.shape[at]
    wanted = aten.where(index < 0, index + extent, index)
    here, which = selected_columns(parts.indices[at].contiguous(), wanted)
    indices = parts.indices.index_select(1, here)
    indices = aten.cat([indices[:at], which.unsqueeze(0), indices[at + 1 :]])
    values = parts.values.index_select(0, here)
    return coo_tensor(shape, indices, values)


@for_sparse("select.int")
def select_kernel(self: Tensor, dim: int, index: int) -> Tensor:
    at = self._wrap(dim)
    extent = self.meta.shape[at]
    check_index(
        -extent <= index < extent,
        lambda: (
            f"select(): index {index} out of range for tensor of size {list(self.meta.shape)} at "
            f"dimension {at}"
        ),
    )
    number = index % extent
    if self.meta.layout is not sparse_coo:
        return _selected_of_compressed(self, at, number)
    parts = coo_parts(self)
    sparse = parts.indices.meta.shape[0]
    shape = [n for i, n in enumerate(self.meta.shape) if i != at]
    if at >= sparse:
        values = parts.values.select(at - sparse + 1, number)
        return coo_tensor(shape, parts.indices, values, coalesced=parts.coalesced)
    wanted = aten.arange(number, number + 1, device=parts.indices.device)
    here, _ = selected_columns(parts.indices[at].contiguous(), wanted)
    values = parts.values.index_select(0, here)
    if sparse == 1:
        found: Tensor = values.sum(0, dtype=self.meta.dtype)
        return found
    kept = [i for i in range(sparse) if i != at]
    indices = parts.indices[kept].index_select(1, here)
    return coo_tensor(shape, indices, values)


@for_sparse("unbind.int")
def unbind_kernel(self: Tensor, dim: int) -> list[Tensor]:
    at = self._wrap(dim)
    return [select_kernel(self, at, i) for i in range(self.meta.shape[at])]


@for_sparse("_local_scalar_dense")
def number_kernel(self: Tensor) -> Number:
    check(
        self.meta.numel == 1,
        lambda: f"a Tensor with {self.meta.numel} elements cannot be converted to Scalar",
    )
    found: Number = parts_of(self).values.sum().to(self.meta.dtype).item()
    return found


def _selected_of_compressed(self: Tensor, at: int, number: int) -> Tensor:
    batch, parts = batch_dims(self), compressed_parts(self)
    shape = [n for i, n in enumerate(self.meta.shape) if i != at]
    if at < batch:
        taken = [p.select(at, number) for p in parts]
        return compressed_tensor(self.meta.layout, shape, *taken)
    check(
        batch == 0,
        lambda: (
            "selecting sparse dimensions is not supported for batched sparse compressed tensors. "
            "Select from the batch first."
        ),
    )
    if at < 2:
        found: Tensor = coo_of(self).select(at, number)
        return coalesced(found)
    values = parts.values.select(at - 1 + (2 if self.meta.layout in BLOCKED else 0), number)
    return compressed_tensor(self.meta.layout, shape, parts.compressed, parts.plain, values)


@for_coo("stack")
def stack_kernel(tensors: Sequence[Tensor], dim: int) -> Tensor:
    return cat_kernel([t.unsqueeze(dim) for t in tensors], dim)


@for_coo("cat")
def cat_kernel(tensors: Sequence[Tensor], dim: int) -> Tensor:
    first = tensors[0]
    check(
        all(t.meta.layout is first.meta.layout for t in tensors),
        lambda: "Concatenating sparse tensors, but a tensor is not sparse",
    )
    at, (sparse, dense) = first._wrap(dim), sparse_dims(first)
    check(
        all(sparse_dims(t) == (sparse, dense) for t in tensors),
        lambda: "All tensors must have the same sparse and dense dimensions",
    )
    rest = [(*t.meta.shape[:at], *t.meta.shape[at + 1 :]) for t in tensors]
    check(
        all(r == rest[0] for r in rest),
        lambda: f"All tensors must have the same sizes but for dimension {at}, got {rest}",
    )
    shape = list(first.meta.shape)
    shape[at] = sum(t.meta.shape[at] for t in tensors)
    pieces, offset = [], 0
    for t in tensors:
        parts = coo_parts(t)
        indices, values = parts.indices, parts.values
        if at < sparse:
            step = indices.new_zeros((sparse, 1))
            step[at] = offset
            indices = indices + step
        else:
            values = _padded(values, at - sparse + 1, offset, shape[at])
        pieces.append((indices, values))
        offset += t.meta.shape[at]
    indices = aten.cat([p[0] for p in pieces], 1)
    none = all(specifies_nothing(t) for t in tensors)
    return coo_tensor(shape, indices, aten.cat([p[1] for p in pieces]), coalesced=none)


def _padded(values: Tensor, dim: int, offset: int, extent: int) -> Tensor:
    """Values with zeros before and after along a dense dimension."""
    shape = list(values.meta.shape)
    before, after = list(shape), list(shape)
    before[dim] = offset
    after[dim] = extent - offset - shape[dim]
    found: Tensor = aten.cat([values.new_zeros(before), values, values.new_zeros(after)], dim)
    return found


@for_coo("narrow_copy")
def narrow_copy_kernel(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    at = self._wrap(dim)
    extent = self.meta.shape[at]
    check(
        0 <= start <= start + length <= extent,
        lambda: (
            f"Invalid range to narrow. range(start, start+length) must be a subset of "
            f"range(0, {extent}), got start {start} and length {length}"
        ),
    )
    numbers = aten.arange(start, start + length, device=self.meta.device)
    found = index_select_kernel(self, at, numbers)
    if not coo_parts(self).coalesced:
        return found
    return coalesced(found)  # those of a number stand together, in another order where at > 0


_sparse_broadcast_to = define("aten::_sparse_broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)")


@for_coo("_sparse_broadcast_to")
def _sparse_broadcast_to_kernel(self: Tensor, size: Shape) -> Tensor:
    """Each element as often as the sparse dimensions grow; dense ones grow in the values."""
    parts = coo_parts(self)
    sparse, count = parts.indices.meta.shape
    lead = len(size) - self.meta.ndim
    check(
        lead >= 0 and all(n in (1, m) for n, m in zip(self.meta.shape, size[lead:], strict=True)),
        lambda: f"sparse tensor of size {list(self.meta.shape)} does not broadcast to {list(size)}",
    )
    grown = [d for d in range(lead + sparse) if d < lead or self.meta.shape[d - lead] != size[d]]
    times = prod(size[d] for d in grown)
    number, rows = aten.arange(times, device=parts.indices.device), []
    for d in range(lead + sparse):
        if d in grown:
            inner = prod(size[e] for e in grown if e > d)
            rows.append((number // max(inner, 1) % max(size[d], 1)).repeat(count))
        else:
            rows.append(parts.indices[d - lead].repeat_interleave(times))
    values = parts.values.expand(count, *size[lead + sparse :]).repeat_interleave(times, 0)
    indices = aten.stack(rows) if rows else parts.indices
    return coo_tensor(size, indices, values, coalesced=parts.coalesced if times == 1 else None)
