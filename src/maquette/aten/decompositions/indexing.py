"""Indexing by `index` and `index_put`."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, by_vmap, decomposes


@decomposes("_unsafe_index.Tensor", wide=False)
def unsafe_index(self: Any, indices: Any) -> Any:
    return aten.index(self, list(indices))


@decomposes("_unsafe_index_put", wide=False)
def unsafe_index_put(self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    return aten.index_put(self, list(indices), values, accumulate)


@decomposes("embedding", wide=False, core=False)
def embedding(weight: Any, indices: Any, *options: Any) -> Any:
    return aten.index(weight, [indices])


@decomposes("max_unpool2d", wide=False)
def max_unpool2d(self: Any, indices: Any, output_size: Ints) -> Any:
    return _unpooled(self, indices, output_size, 2)


@decomposes("max_unpool3d", wide=False)
def max_unpool3d(self: Any, indices: Any, output_size: Ints, stride: Ints, padding: Ints) -> Any:
    return _unpooled(self, indices, output_size, 3)


def _unpooled(self: Any, indices: Any, output_size: Ints, dims: int) -> Any:
    planes = list(self.shape[:-dims])
    count = 1
    for n in output_size:
        count *= n
    rows = 1
    for n in planes:
        rows *= n
    base = aten.arange(rows, device=self.device).view([*planes, *[1] * dims]) * count
    flat = aten.new_zeros(self, [rows * count])
    at = (indices + base).reshape([-1])
    made = aten.index_put(flat, [at], self.reshape([-1]))
    return made.view([*planes, *output_size])


# --- patches --------------------------------------------------------------------------------------


def _patch_index(count: int, kernel: int, dilation: int, stride: int, like: Any) -> Any:
    first = aten.arange(count, device=like.device) * stride
    return aten.arange(kernel, device=like.device).unsqueeze(-1) * dilation + first


def _blocks(size: int, kernel: int, dilation: int, padding: int, stride: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@decomposes("im2col", wide=False)
def im2col(self: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    x = self if self.ndim == 4 else self.unsqueeze(0)
    n, c, *sizes = x.shape
    blocks = [_blocks(*a) for a in zip(sizes, kernel, dilation, padding, stride)]
    h, w = (_patch_index(*a, self) for a in zip(blocks, kernel, dilation, stride))
    p, q = padding
    padded = aten.constant_pad_nd(x, [q, q, p, p])
    found = aten.index(padded, [None, None, h.unsqueeze(-1).unsqueeze(-1), w])
    made = aten.permute(found, [0, 1, 2, 4, 3, 5])
    made = made.reshape([n, c * kernel[0] * kernel[1], blocks[0] * blocks[1]])
    return made if self.ndim == 4 else made.squeeze(0)


@decomposes("col2im", wide=False)
def col2im(
    self: Any, output_size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Any:
    x = self if self.ndim == 3 else self.unsqueeze(0)
    (n, rows, _), (kh, kw) = x.shape, kernel
    channels = rows // (kh * kw)
    blocks = [_blocks(*a) for a in zip(output_size, kernel, dilation, padding, stride)]
    h, w = (_patch_index(*a, self) for a in zip(blocks, kernel, dilation, stride))
    (oh, ow), (p, q) = output_size, padding
    values = x.reshape([n, channels, kh, kw, *blocks]).permute([0, 1, 2, 4, 3, 5])
    zeros = aten.new_zeros(x, [n, channels, oh + 2 * p, ow + 2 * q])
    index = [None, None, h.unsqueeze(-1).unsqueeze(-1), w]
    whole = aten.index_put(zeros, index, values, True)
    made = whole[:, :, p : p + oh, q : q + ow]
    return made if self.ndim == 3 else made.squeeze(0)


by_vmap("_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", wide=False)
by_vmap("index_add", "embedding_dense_backward")
by_vmap("index_copy", "index_fill.int_Scalar", "index_fill.int_Tensor", "take", wide=False)
by_vmap("index_select", wide=False, core=False)
