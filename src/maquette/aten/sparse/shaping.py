"""Copies, transposes, selections and joins of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from maquette.aten.common.operators import aten
from maquette.aten.sparse.forms import coalesced, coo_of, layout_name
from maquette.aten.sparse.picking import (
    elements_between,
    index_rows,
    joined_indices,
    selected_elements,
)
from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_index
from maquette.core.layout import (
    contiguous_format,
    sparse_coo,
    strided,
)
from maquette.core.layout import layout as Layout
from maquette.core.strides import Shape
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.library.sparse_kernels import for_compressed, for_coo, for_sparse
from maquette.tensor.sparse import (
    BLOCKED,
    BY_ROWS,
    TURNED,
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
)
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex

# --- copies -----------------------------------------------------------------------------------


@for_sparse("clone")
def clone_kernel(self: Tensor, memory_format: object) -> Tensor:
    check(
        memory_format in (None, contiguous_format),  # copies of views ask for the latter
        lambda: f"clone: unsupported memory format option {memory_format} of a sparse tensor",
    )
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
    kept = mapped(
        parts._replace(values=values),
        lambda p: p if p is values else p.clone() if where is p.meta.device else p.to(where),
    )
    made = sparse_tensor(sparse_meta(self.meta.layout, self.meta.shape, values), kept)
    return made if layout is None else made.to_sparse(layout=layout)


@for_sparse("copy_")
def copy_kernel(self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    check(
        isinstance(src, Tensor) and self.meta.layout is not strided,
        lambda: (
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{layout_name(self)} and src type = {layout_name(src)}; use to_dense()"
        ),
    )
    if self.meta.layout is not sparse_coo:
        _check_same_pattern(self, src)
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
    kept = mapped(parts, lambda p: p.to(device=self.meta.device, copy=True))
    set_parts(self, kept._replace(values=kept.values.to(self.meta.dtype)))
    return self


def _check_same_pattern(self: Tensor, src: Tensor) -> None:
    """RuntimeError unless both are compressed alike and specify the same number of elements."""
    check(
        src.meta.layout is self.meta.layout,
        lambda: (
            f"torch.copy_: copy of sparse compressed tensors having different layouts is not "
            f"supported. self layout is {layout_name(self)} and src layout is {layout_name(src)}"
        ),
    )
    check(
        nnz_of(self) == nnz_of(src),
        lambda: (
            "torch.copy_: only sparse compressed tensors with the same number of specified "
            "elements are supported."
        ),
    )
    at = batch_dims(self) + (0 if self.meta.layout in BY_ROWS else 1)
    mine, theirs = self.meta.shape[at], src.meta.shape[at]
    check(
        mine == theirs,
        lambda: (
            f"torch.copy_: expected shapes of self and src to match along dimension {at} for "
            f"{layout_name(self)} layout but the corresponding dimensions of self and src are "
            f"{mine} and {theirs}, respectively."
        ),
    )
    check(
        block_of(self) == block_of(src),
        lambda: (
            f"torch.copy_: copy of sparse compressed tensors having different block sizes is not "
            f"supported. self and src block sizes are {list(block_of(self))} and "
            f"{list(block_of(src))}, respectively."
        ),
    )


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


# --- turned -----------------------------------------------------------------------------------


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
    return coo_tensor(shape, index_rows(parts.indices, order), parts.values, coalesced=none)


def _compressed_transposed(
    self: Tensor, parts: CompressedParts, a: int, b: int, shape: Sequence[int]
) -> Tensor:
    batch = batch_dims(self)
    low, high = min(a, b), max(a, b)
    if (low, high) == (batch, batch + 1):
        values = parts.values
        if self.meta.layout in BLOCKED:
            values = values.transpose(batch + 1, batch + 2)
        kind = TURNED[self.meta.layout]
        return compressed_tensor(kind, shape, parts.compressed, parts.plain, values)
    check(
        high < batch or low >= batch + 2,
        lambda: (
            f"transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), "
            f"got {a}({_kind_of(a, batch)}) and {b}({_kind_of(b, batch)})"
        ),
    )
    if high < batch:
        turned = [p.transpose(a, b) for p in parts]
        return compressed_tensor(self.meta.layout, shape, *turned)
    shift = 1 + (2 if self.meta.layout in BLOCKED else 0) - 2
    values = parts.values.transpose(a + shift, b + shift)
    return compressed_tensor(self.meta.layout, shape, parts.compressed, parts.plain, values)


def _kind_of(dim: int, batch: int) -> str:
    """What a dimension of a compressed tensor is, as messages name it."""
    return "Batch" if dim < batch else "Sparse" if dim < batch + 2 else "Dense"


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
    lead = list(range(sparse))
    values = parts.values.permute(inner)
    same = order[:sparse] == lead
    indices = parts.indices if same else index_rows(parts.indices, order[:sparse])
    # As in PyTorch, sorted indices are known by dimensions as they were given: not counted back.
    sorted_ = list(dims[:sparse]) == lead
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
    sparse = parts.indices.meta.shape[0]
    shape = [*self.meta.shape[:at], 1, *self.meta.shape[at:]]
    if at > sparse:
        values = parts.values.unsqueeze(at - sparse + 1)
        return coo_tensor(shape, parts.indices, values)
    indices = index_rows(parts.indices, [*range(at), -1, *range(at, sparse)])
    return coo_tensor(shape, indices, parts.values)


@for_coo("view_as_real")
def view_as_real_kernel(self: Tensor) -> Tensor:
    parts = coo_parts(self)
    values = aten.view_as_real(parts.values)
    return coo_tensor((*self.meta.shape, 2), parts.indices, values, coalesced=parts.coalesced)


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
    indices, values = selected_elements(parts.indices, parts.values, at, wanted)
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
    indices, values = elements_between(parts.indices, parts.values, at, number, 1, True)
    if sparse == 1:
        found: Tensor = values.sum(0, dtype=self.meta.dtype)
        return found
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
        batch == 0 or at >= batch + 2,
        lambda: (
            "selecting sparse dimensions is not supported for batched sparse compressed tensors. "
            "Select from the batch first."
        ),
    )
    if at < batch + 2:
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
    for i, t in enumerate(tensors):
        _check_layout(t, i)
    at, sparse = first._wrap(dim), sparse_dims(first)[0]
    for i, t in enumerate(tensors):
        _check_joins(first, t, at, i)
    shape = list(first.meta.shape)
    shape[at] = sum(t.meta.shape[at] for t in tensors)
    begin, values = [0], [coo_parts(t).values for t in tensors]
    for t in tensors[:-1]:
        begin.append(begin[-1] + t.meta.shape[at])
    if at >= sparse:
        pairs = zip(values, begin, strict=True)
        values = [_padded(v, at - sparse + 1, offset, shape[at]) for v, offset in pairs]
    row = at if at < sparse else -1
    indices = joined_indices([coo_parts(t).indices for t in tensors], row, begin)
    none = all(specifies_nothing(t) for t in tensors)
    return coo_tensor(shape, indices, aten.cat(values), coalesced=none)


def _check_layout(t: Tensor, i: int) -> None:
    """RuntimeError unless a tensor to be joined is COO; i: which it is."""
    what = "a dense tensor" if t.meta.layout is strided else f"a tensor of layout {t.meta.layout}"
    check(
        t.meta.layout is sparse_coo,
        lambda: f"Concatenating sparse tensors, but {what} was found at position {i}.",
    )


def _check_joins(first: Tensor, t: Tensor, at: int, i: int) -> None:
    """RuntimeError unless a tensor can stand after the first along a dimension."""
    sizes, other = first.meta.shape, t.meta.shape
    check(
        len(other) == len(sizes)
        and (*other[:at], *other[at + 1 :]) == (*sizes[:at], *sizes[at + 1 :]),
        lambda: (
            f"All tensors must have the same shape: {list(sizes)} (except in the concatenating "
            f"dimension), but found shape: {list(other)} at position {i}."
        ),
    )
    (sparse, dense), found = sparse_dims(first), sparse_dims(t)
    check(
        found == (sparse, dense),
        lambda: (
            f"All tensors must have the same sparse_dim and dense_dim: {sparse}, {dense}, but "
            f"tensor at position {i} has {found[0]}, {found[1]}."
        ),
    )


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
    at = dim
    check(
        0 <= dim < self.meta.ndim,
        lambda: f"Dimension {dim} out of range. Expecting 0 <= dim < {self.meta.ndim}.",
    )
    extent = self.meta.shape[at]
    check(
        0 <= start <= start + length <= extent,
        lambda: (
            f"Invalid range to narrow. range(start, start+length) must be a subset of "
            f"range(0, {extent}), got start {start} and length {length}"
        ),
    )
    parts = coo_parts(self)
    sparse = parts.indices.meta.shape[0]
    shape = [length if i == at else n for i, n in enumerate(self.meta.shape)]
    if at >= sparse:
        values = parts.values.narrow_copy(at - sparse + 1, start, length)
        return coo_tensor(shape, parts.indices, values, coalesced=parts.coalesced)
    indices, values = elements_between(parts.indices, parts.values, at, start, length, False)
    return coo_tensor(shape, indices, values, coalesced=parts.coalesced)


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
