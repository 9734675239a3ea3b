"""Batching rules of views and of what rearranges elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.aten.batching.forms import (
    VmapInfo,
    along,
    aten,
    elementwise,
    laid_out,
    leading,
    rank_of,
    sized,
    to_front,
    wrapped,
)
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import decomposition_for, family, rule_for
from maquette.transforms.wrappers import BatchedTensor, hidden

family(
    "alias detach _conj _neg_view lift lift_fresh view_as_real _conj_physical resolve_conj "
    "resolve_neg positive",
    elementwise,
)
family("_to_copy clone", laid_out)
family("view _unsafe_view repeat", sized)
family(
    "select.int slice.Tensor unbind.int split.Tensor split_with_sizes "
    "unsafe_split.Tensor unsafe_split_with_sizes flip glu unsafe_chunk",
    along,
)
family("tril triu constant_pad_nd pixel_shuffle pixel_unshuffle view_as_complex", leading)

_Dims = Sequence[Any]


@rule_for("permute")
def permute_batching(info: VmapInfo, in_dims: _Dims, self: Tensor, dims: Sequence[int]) -> Any:
    rank = rank_of(self, in_dims[0])
    x = to_front(self, in_dims[0])
    return x.permute([0, *(wrapped(d, rank) + 1 for d in dims)]), 0


@rule_for("transpose.int")
def transpose_batching(info: VmapInfo, in_dims: _Dims, self: Tensor, dim0: int, dim1: int) -> Any:
    rank = rank_of(self, in_dims[0])
    dim0, dim1 = wrapped(dim0, rank), wrapped(dim1, rank)
    x = to_front(self, in_dims[0])
    return (x.transpose(dim0 + 1, dim1 + 1) if rank else aten.alias(x)), 0


@rule_for("t")
def t_batching(info: VmapInfo, in_dims: _Dims, self: Tensor) -> Any:
    rank = rank_of(self, in_dims[0])
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    x = to_front(self, in_dims[0])
    return (x.transpose(1, 2) if rank == 2 else aten.alias(x)), 0


@rule_for("unsqueeze")
def unsqueeze_batching(info: VmapInfo, in_dims: _Dims, self: Tensor, dim: int) -> Any:
    rank = rank_of(self, in_dims[0])
    return to_front(self, in_dims[0]).unsqueeze(wrapped(dim, rank + 1) + 1), 0


@rule_for("squeeze squeeze.dim squeeze.dims")
def squeeze_batching(info: VmapInfo, in_dims: _Dims, self: Tensor, dim: Any = None) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if dim is None:
        dims = list(range(rank))
    else:
        dims = [wrapped(d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    ones = [d + 1 for d in dims if d < rank and x.shape[d + 1] == 1]
    return aten.squeeze.dims(x, ones), 0


@rule_for("expand")
def expand_batching(
    info: VmapInfo, in_dims: _Dims, self: Tensor, size: Sequence[int], *, implicit: bool = False
) -> Any:
    x = to_front(self, in_dims[0], rank=len(size))
    return x.expand((x.shape[0], *size), implicit=implicit), 0


@rule_for("_reshape_alias")
def reshape_alias_batching(
    info: VmapInfo, in_dims: _Dims, self: Tensor, size: Sequence[int], stride: Sequence[int]
) -> Any:
    return to_front(self, in_dims[0]).reshape((info.batch_size, *size)), 0


@rule_for("as_strided")
def as_strided_batching(
    info: VmapInfo,
    in_dims: _Dims,
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    step = self.stride(in_dims[0])
    made = aten.as_strided(self, (info.batch_size, *size), (step, *stride), storage_offset)
    return made, 0


@rule_for("diagonal")
def diagonal_batching(
    info: VmapInfo, in_dims: _Dims, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    rank = rank_of(self, in_dims[0])
    x = to_front(self, in_dims[0])
    return x.diagonal(offset, wrapped(dim1, rank) + 1, wrapped(dim2, rank) + 1), 0


@rule_for("diag_embed")
def diag_embed_batching(
    info: VmapInfo, in_dims: _Dims, self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Any:
    rank = rank_of(self, in_dims[0]) + 1
    x = to_front(self, in_dims[0])
    return aten.diag_embed(x, offset, wrapped(dim1, rank) + 1, wrapped(dim2, rank) + 1), 0


@rule_for("roll")
def roll_batching(info: VmapInfo, in_dims: _Dims, self: Tensor, shifts: Any, dims: Any = ()) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not dims:
        return aten.roll(x.flatten(1) if rank else x.unsqueeze(1), shifts, [1]).view(x.shape), 0
    if not rank:
        return aten.roll(x.unsqueeze(1), shifts, [1] * len(dims)).squeeze(1), 0
    return aten.roll(x, shifts, [wrapped(d, rank) + 1 for d in dims]), 0


@rule_for("rot90")
def rot90_batching(
    info: VmapInfo, in_dims: _Dims, self: Tensor, k: int = 1, dims: Any = (0, 1)
) -> Any:
    rank = rank_of(self, in_dims[0])
    return aten.rot90(to_front(self, in_dims[0]), k, [wrapped(d, rank) + 1 for d in dims]), 0


@rule_for("view.dtype")
def view_dtype_batching(info: VmapInfo, in_dims: _Dims, self: Tensor, dtype: Any) -> Any:
    x = to_front(self, in_dims[0])
    if rank_of(self, in_dims[0]) == 0:
        return x.unsqueeze(-1).view(dtype).squeeze(-1), 0
    return aten.view.dtype(x, dtype), 0


@rule_for("cat")
def cat_batching(info: VmapInfo, in_dims: _Dims, tensors: Any, dim: int = 0) -> Any:
    ranks = [rank_of(t, d) for t, d in zip(tensors, in_dims[0])]
    given = [to_front(t, d, info.batch_size) for t, d in zip(tensors, in_dims[0])]
    rank = max(ranks)
    # As everywhere, cat passes over empty tensors of rank 1.
    kept = [t for t, r in zip(given, ranks) if r == rank or t.shape[1:] != (0,)]
    return aten.cat(kept, wrapped(dim, rank) + 1), 0


@rule_for("stack")
def stack_batching(info: VmapInfo, in_dims: _Dims, tensors: Any, dim: int = 0) -> Any:
    given = [to_front(t, d, info.batch_size) for t, d in zip(tensors, in_dims[0])]
    rank = given[0].meta.ndim
    return aten.stack(given, wrapped(dim, rank) + 1), 0


@rule_for("block_diag")
def block_diag_batching(info: VmapInfo, in_dims: _Dims, tensors: Any) -> Any:
    given = [to_front(t, d, info.batch_size, 2) for t, d in zip(tensors, in_dims[0])]
    rows, columns = sum(t.shape[1] for t in given), sum(t.shape[2] for t in given)
    kind = given[0].dtype
    for t in given[1:]:
        kind = (aten.add(t.new_empty(1), t.new_empty(1, dtype=kind))).dtype
    out = given[0].new_zeros((info.batch_size, rows, columns), dtype=kind)
    row = column = 0
    for t in given:
        out.narrow(1, row, t.shape[1]).narrow(2, column, t.shape[2]).copy_(t)
        row, column = row + t.shape[1], column + t.shape[2]
    return out, 0


@decomposition_for("select_backward")
def select_backward(grad: Tensor, input_sizes: Any, dim: int, index: int) -> Tensor:
    made = grad.new_zeros(input_sizes)
    made.select(dim, index).copy_(grad)
    return made


@decomposition_for("slice_backward")
def slice_backward(
    grad: Tensor, input_sizes: Any, dim: int, start: int, end: int, step: int
) -> Tensor:
    made = grad.new_zeros(input_sizes)
    aten.slice.Tensor(made, dim, start, end, step).copy_(grad)
    return made


@decomposition_for("diagonal_backward")
def diagonal_backward(grad: Tensor, input_sizes: Any, offset: int, dim1: int, dim2: int) -> Tensor:
    made = grad.new_zeros(input_sizes)
    made.diagonal(offset, dim1, dim2).copy_(grad)
    return made


@decomposition_for("select_scatter")
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    made = _writable(self, src)
    made.select(dim, index).copy_(src)
    return made


@decomposition_for("slice_scatter")
def slice_scatter(
    self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    made = _writable(self, src)
    aten.slice.Tensor(made, dim, start, end, step).copy_(src)
    return made


@decomposition_for("diagonal_scatter")
def diagonal_scatter(self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    made = _writable(self, src)
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


@decomposition_for("as_strided_scatter")
def as_strided_scatter(
    self: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None
) -> Tensor:
    made = _writable(self, src)
    made.as_strided(size, stride, storage_offset).copy_(src)
    return made


def _writable(self: Tensor, src: Tensor) -> Tensor:
    """A copy of ``self`` that has the batches of both."""
    made = aten.empty_like(self + aten.zeros_like(src.flatten()[:1].sum()).to(self.dtype))
    return made.copy_(self)


@decomposition_for("unfold_backward")
def unfold_backward(grad: Tensor, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    made = grad.new_zeros(input_sizes)
    if not len(input_sizes):
        return made + grad.reshape(())
    dim = wrapped(dim, len(input_sizes))
    count = grad.shape[dim]
    index = aten.arange(count, device=grad.device) * step
    whole = index.unsqueeze(-1) + aten.arange(size, device=grad.device)
    source = grad.movedim(-1, dim + 1).flatten(dim, dim + 1)
    return made.index_add(dim, whole.flatten(), source)


@decomposition_for("glu_backward")
def glu_backward(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    first, second = self.chunk(2, dim)
    gate = second.sigmoid()
    return aten.cat([grad * gate, grad * first * gate * (1 - gate)], dim)


@decomposition_for("channel_shuffle")
def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    return self.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


def _in_place(name: str) -> None:
    """A view in place: the tensor is given the value of the view."""

    @decomposition_for(name)
    def in_place(self: Tensor, *args: Any) -> Tensor:
        packet, _, overload = name.partition(".")
        view = getattr(getattr(aten, packet.removesuffix("_")), overload or "default")(self, *args)
        assert isinstance(self, BatchedTensor)
        self._value, self._bdim, self.meta = view._value, view._bdim, view.meta
        return self


for _name in "unsqueeze_ squeeze_ squeeze_.dim squeeze_.dims t_".split():
    _in_place(_name)


@decomposition_for("transpose_ swapaxes_ swapdims_")
def transpose_in_place(self: Tensor, dim0: int, dim1: int) -> Tensor:
    view = self.transpose(dim0, dim1)
    assert isinstance(self, BatchedTensor)
    assert isinstance(view, BatchedTensor)
    self._value, self._bdim, self.meta = view._value, view._bdim, view.meta
    return self


@decomposition_for("as_strided_")
def as_strided_in_place(self: Tensor, size: Any, stride: Any, offset: int | None) -> Tensor:
    view = aten.as_strided(self, size, stride, offset)
    assert isinstance(self, BatchedTensor)
    self._value, self._bdim, self.meta = view._value, view._bdim, view.meta
    return self


@rule_for("unfold")
def unfold_batching(
    info: VmapInfo, in_dims: _Dims, self: Tensor, dimension: int, size: int, step: int
) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not rank:
        return aten.unfold(x.unsqueeze(1), 1, size, step).squeeze(1), 0
    return aten.unfold(x, wrapped(dimension, rank) + 1, size, step), 0


@decomposition_for("resize_")
def resize_in_place(self: Tensor, size: Any, memory_format: Any = None) -> Tensor:
    assert isinstance(self, BatchedTensor)
    level = self._interpreter
    with level.lower():
        front = to_front(self._value, self._bdim)
        if front is not self._value:
            front = front.contiguous()
        front.resize_((front.shape[0], *size))
    self._value, self._bdim, self.meta = front, 0, hidden(front.meta, 0)
    return self


@decomposition_for("resize_as_")
def resize_as_in_place(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    return self.resize_(the_template.shape)
