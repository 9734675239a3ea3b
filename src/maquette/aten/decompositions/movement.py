"""Views and what only moves elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, at_dim, by_vmap, counting, decomposes, overload
from maquette.core.layout import contiguous_format


@decomposes("_reshape_alias", wide=False)
def reshape_alias(self: Any, size: Ints, stride: Ints) -> Any:
    return aten.view(self, size)


@decomposes("_unsafe_view", wide=False)
def unsafe_view(self: Any, size: Ints) -> Any:
    return aten.view(self, size)


@decomposes("detach", wide=False)
def detach(self: Any) -> Any:
    return aten.alias(self)


@decomposes("t", wide=False)
def t(self: Any) -> Any:
    return aten.permute(self, list(reversed(range(self.ndim))))


@decomposes("transpose.int", wide=False)
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    if not self.ndim:
        return aten.alias(self)
    dims = list(range(self.ndim))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return aten.permute(self, dims)


@decomposes("squeeze", wide=False)
def squeeze(self: Any) -> Any:
    return aten.squeeze(self, [d for d, n in enumerate(self.shape) if n == 1])


@decomposes("squeeze.dim", wide=False)
def squeeze_dim(self: Any, dim: int) -> Any:
    return aten.squeeze(self, [dim])


@decomposes("unbind.int", wide=False)
def unbind(self: Any, dim: int) -> Any:
    return [aten.select(self, dim, i) for i in range(self.shape[dim])]


@decomposes("split.Tensor", "unsafe_split.Tensor", wide=False)
def split(self: Any, split_size: int, dim: int) -> Any:
    whole = self.shape[dim]
    if not split_size:
        return [aten.slice(self, dim, 0, whole)]
    return [
        aten.slice(self, dim, at, min(at + split_size, whole))
        for at in range(0, max(whole, 1), split_size)
    ]


@decomposes("unsafe_split_with_sizes", wide=False)
def unsafe_split_with_sizes(self: Any, split_sizes: Ints, dim: int) -> Any:
    ends = [sum(split_sizes[: i + 1]) for i in range(len(split_sizes))]
    return [aten.slice(self, dim, e - n, e) for e, n in zip(ends, split_sizes)]


@decomposes("stack", wide=False)
def stack(tensors: Any, dim: int) -> Any:
    return aten.cat([aten.unsqueeze(x, dim) for x in tensors], dim)


@decomposes("roll", wide=False)
def roll(self: Any, shifts: Ints, dims: Ints) -> Any:
    if not self.numel():
        return aten.clone(self)
    if not dims:
        return roll(aten.reshape(self, [-1]), shifts, (0,)).view(self.shape)
    for shift, dim in zip(shifts, dims):
        count = self.shape[dim]
        first = (count - shift) % count
        parts = [aten.slice(self, dim, first, count), aten.slice(self, dim, 0, first)]
        self = aten.cat(parts, dim)
    return self


@decomposes("rot90", wide=False)
def rot90(self: Any, k: int, dims: Ints) -> Any:
    first, second = dims
    k %= 4
    if k == 1:
        return aten.transpose(aten.flip(self, [second]), first, second)
    if k == 2:
        return aten.flip(self, dims)
    if k == 3:
        return aten.transpose(aten.flip(self, [first]), first, second)
    return aten.clone(self)


@decomposes("pixel_shuffle", wide=False)
def pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    r, (*batch, c, h, w) = upscale_factor, self.shape
    n = len(batch)
    x = self.reshape([*batch, c // (r * r), r, r, h, w])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return aten.permute(x, order).reshape([*batch, c // (r * r), h * r, w * r])


@decomposes("pixel_unshuffle", wide=False)
def pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    r, (*batch, c, h, w) = downscale_factor, self.shape
    n = len(batch)
    x = self.reshape([*batch, c, h // r, r, w // r, r])
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return aten.permute(x, order).reshape([*batch, c * r * r, h // r, w // r])


@decomposes("tril", wide=False)
def tril(self: Any, diagonal: int) -> Any:
    return aten.where(_columns_less_rows(self) <= diagonal, self, 0)


@decomposes("triu", wide=False)
def triu(self: Any, diagonal: int) -> Any:
    return aten.where(_columns_less_rows(self) >= diagonal, self, 0)


def _columns_less_rows(self: Any) -> Any:
    h, w = self.shape[-2:]
    return counting(w, self) - counting(h, self).unsqueeze(-1)


@decomposes("diag_embed", wide=False)
def diag_embed(self: Any, offset: int, dim1: int, dim2: int) -> Any:
    rank = self.ndim + 1
    dim1, dim2 = dim1 % rank, dim2 % rank
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    pads = (offset, 0) if offset > 0 else (0, -offset)
    whole = aten.constant_pad_nd(self, pads)  # by column
    count = whole.shape[-1]
    index = counting(count, self)
    here = index - index.unsqueeze(-1) == offset
    made = aten.where(here, whole.unsqueeze(-2), 0)
    return aten.movedim(made, [-2, -1], [dim1, dim2])


@decomposes("block_diag", wide=False)
def block_diag(tensors: Any) -> Any:
    blocks = [x if x.ndim == 2 else x.reshape([1, -1] if x.ndim else [1, 1]) for x in tensors]
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        rows.append(aten.constant_pad_nd(b, [before, width - before - b.shape[1]]))
        before += b.shape[1]
    return aten.cat(rows)


@decomposes("_chunk_cat", wide=False)
def chunk_cat(tensors: Any, dim: int, num_chunks: int) -> Any:
    parts = []
    for x in tensors:
        at = dim % x.ndim
        each = -(-x.shape[at] // num_chunks)
        pads = [0, 0] * (x.ndim - 1 - at) + [0, each * num_chunks - x.shape[at]]
        parts.append(aten.constant_pad_nd(x, pads).reshape([*x.shape[:at], num_chunks, -1]))
    return aten.cat(parts, parts[0].ndim - 1)


@decomposes("select_scatter", wide=False)
def select_scatter(self: Any, src: Any, dim: int, index: int) -> Any:
    dim %= self.ndim
    index %= self.shape[dim]
    here = at_dim(counting(self.shape[dim], self), dim, self.ndim) == index
    return aten.where(here, src.unsqueeze(dim), self)


def _copied(view: str) -> Callable[..., Any]:
    """A copy of a view."""

    def rule(*params: Any) -> Any:
        found = overload(view)(*params)
        if isinstance(found, (list, tuple)):
            return [aten.clone(part, memory_format=contiguous_format) for part in found]
        return aten.clone(found, memory_format=contiguous_format)

    return rule


for _copy, _view in (
    ("alias_copy", "alias"), ("diagonal_copy", "diagonal"), ("squeeze_copy", "squeeze"),
    ("split_with_sizes_copy", "split_with_sizes"), ("squeeze_copy.dim", "squeeze.dim"),
    ("squeeze_copy.dims", "squeeze.dims"), ("t_copy", "t"), ("unfold_copy", "unfold"),
    ("transpose_copy.int", "transpose.int"), ("unsqueeze_copy", "unsqueeze"),
):  # fmt: skip
    decomposes(_copy, wide=False)(_copied(_view))


@decomposes("expand_copy", wide=False)
def expand_copy(self: Any, size: Ints, implicit: bool) -> Any:
    return aten.clone(aten.expand(self, size, implicit=implicit), memory_format=contiguous_format)


by_vmap("channel_shuffle", wide=False)
by_vmap("diagonal_backward", "select_backward", "slice_backward", "unfold_backward", wide=False)
