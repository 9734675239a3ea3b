"""Indexing by `index` and `index_put`."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, decomposes


@decomposes("_unsafe_index.Tensor", wide=False)
def unsafe_index(self: Any, indices: Any) -> Any:
    return aten.index(self, list(indices))


@decomposes("_unsafe_index_put", wide=False)
def unsafe_index_put(self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    return aten.index_put(self, list(indices), values, accumulate)


def _inside(self: Any, indices: Any) -> list[Any]:
    return [
        None if index is None else aten.clamp(index, -size, size - 1)
        for index, size in zip(indices, self.shape)
    ]


@decomposes("_unsafe_masked_index", wide=False)
def masked_index(self: Any, mask: Any, indices: Any, fill: Any) -> Any:
    if not self.numel():
        shape = aten.index(aten.new_empty(self, [1] * self.ndim).expand(self.shape), [])
        return aten.full(list(mask.shape), fill, dtype=shape.dtype)
    return aten.where(mask, aten.index(self, _inside(self, indices)), fill)


@decomposes("_unsafe_masked_index_put_accumulate", wide=False)
def masked_index_put(self: Any, mask: Any, indices: Any, values: Any) -> Any:
    if not self.numel():
        return aten.clone(self)
    return aten.index_put(
        self, _inside(self, indices), aten.where(mask, values, 0).to(self.dtype), True
    )


def _put(self: Any, dim: int, index: Any, values: Any, *, accumulate: bool) -> Any:
    rows = self if self.ndim else self.unsqueeze(0)
    if values.ndim < rows.ndim and not self.ndim:
        values = values.unsqueeze(0)
    dim %= rows.ndim
    index = index if index.ndim else index.unsqueeze(0)
    result = aten.index_put(rows, [None] * dim + [index], values, accumulate)
    return result if self.ndim else result.squeeze(0)


@decomposes("index_add")
def index_add(self: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    values = source if alpha == 1 else source * alpha
    if self.ndim and not source.ndim:
        values = values.unsqueeze(0)
    return _put(self, dim, index, values, accumulate=True)


@decomposes("index_copy", wide=False)
def index_copy(self: Any, dim: int, index: Any, source: Any) -> Any:
    if self.ndim and not source.ndim:
        source = source.unsqueeze(0)
    return _put(self, dim, index, source, accumulate=False)


@decomposes("index_fill.int_Scalar", wide=False)
def index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    made = aten.full([], value, dtype=self.dtype, device=self.device)
    return _put(self, dim, index, made, accumulate=False)


@decomposes("index_fill.int_Tensor", wide=False)
def index_fill_tensor(self: Any, dim: int, index: Any, value: Any) -> Any:
    return _put(self, dim, index, value.to(self.dtype), accumulate=False)


@decomposes("take", wide=False)
def take(self: Any, index: Any) -> Any:
    return aten.index(self.reshape([-1]), [index])


@decomposes("embedding_dense_backward")
def embedding_dense_backward(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq:
        ones = aten.ones_like(indices)
        counts = aten.index_put(aten.new_zeros(indices, [num_weights]), [indices], ones, True)
        grad = grad / counts[indices].unsqueeze(-1)
    padding = (indices == padding_idx).unsqueeze(-1)
    zeros = aten.new_zeros(grad, [num_weights, grad.shape[-1]])
    return aten.index_put(zeros, [indices], aten.where(padding, 0, grad), True)


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
