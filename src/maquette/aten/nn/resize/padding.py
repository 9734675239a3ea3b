"""Padding by reflection and replication, and shuffles of channels and pixels.

Each padded dimension is read through an index of its own; a gradient is added up through the same
index. Padding with a constant, and `pad` that chooses, are in `rearranging.py`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, Index, wide
from maquette.aten.common.array_libraries import assigned_at, combined_at
from maquette.aten.common.backward_checks import check_gradient_dtype
from maquette.aten.common.batching_forms import folded, leading_of
from maquette.aten.common.channels_last import channels_second, empty_by_memory, with_channels_last
from maquette.aten.view.rearranging import padded_shape
from maquette.core.dtype import bool_
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape, format_strides
from maquette.core.symbols import expect_alike, expect_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]


def _formatted(like: TensorMeta, shape: Shape) -> TensorMeta:
    """A result that keeps channels last where the input has them last."""
    return like.fresh(shape, strides=format_strides(shape, (), like.suggested_format))


# --- borders -------------------------------------------------------------------------


def _source(xp: ModuleType, size: int, before: int, after: int, reflects: bool) -> Array:
    """For each place of a padded dimension, the place it is read from."""
    at: Array = xp.arange(-before, size + after)
    if not reflects:
        return xp.clip(at, 0, size - 1)
    at = xp.abs(at)
    return xp.where(at >= size, 2 * (size - 1) - at, at)


def _check_padding(name: str, self: TensorMeta, padding: Ints, dims: int, reflects: bool) -> Shape:
    full = "with possibly 0 batch size and other non-zero dimensions for input"
    check(
        len(padding) == 2 * dims,
        lambda: (
            f"{name}: padding size is expected to be {2 * dims}, two for each of the last {dims} "
            f"dimensions, but got: {len(padding)}"
        ),
    )
    check(
        self.ndim in (dims + 1, dims + 2)
        and all(expect_true(n != 0) for n in self.shape[self.ndim - dims - 1 :]),
        lambda: (
            f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor {full}, but got: "
            f"{list(self.shape)}"
        ),
    )
    for i, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
        dim = self.ndim - 1 - i
        check(
            not reflects or max(before, after) < self.shape[dim],
            lambda before=before, after=after, dim=dim: (
                f"{name}: Argument #4: Padding size should be less than the corresponding input "
                f"dimension, but got: padding ({before}, {after}) at dimension {dim} of input "
                f"{list(self.shape)}"
            ),
        )
    check_not_implemented(
        self.dtype is not bool_, lambda: f"\"{name}\" not implemented for 'Bool'; got {self}"
    )
    return padded_shape(self.shape, padding)


def _surrounded(xp: ModuleType, x: Array, padding: Ints, reflects: bool) -> Array:
    """The array copied whole, then what stands around it from there, along one axis at a time."""
    first = x.ndim - len(padding) // 2
    around = list(zip(padding[-2::-2], padding[::-2], strict=True))  # by axes, from the first on
    sizes = x.shape[first:]
    leading: Index = (slice(None),) * first
    inner = (*leading, *[slice(b, b + n) for (b, _), n in zip(around, sizes)])
    shape = (*x.shape[:first], *[b + n + a for (b, a), n in zip(around, sizes)])
    out = assigned_at(xp, empty_by_memory(xp, x, shape), inner, x)
    for axis in range(x.ndim - 1, first - 1, -1):
        (before, after), size = around[axis - first], x.shape[axis]
        end = before + size
        left, right = slice(before, before + 1), slice(end - 1, end)
        if reflects:
            last = end - 2 - after
            left = slice(2 * before, before, -1)
            right = slice(end - 2, None if last < 0 else last, -1)
        every = inner[:axis]
        for count, edge, source in (
            (before, slice(0, before), left),
            (after, slice(end, end + after), right),
        ):
            if count:
                out = assigned_at(xp, out, (*every, edge), out[(*every, source)])
    return out


def _gathered(total: Array, padding: Ints, reflects: bool) -> Array:
    """The adjoint of `_surrounded`: what stands around is added to where it came from."""
    for i in range(len(padding) // 2):
        axis = total.ndim - 1 - i
        before, after = padding[2 * i : 2 * i + 2]
        lines = np.moveaxis(total, axis, 0)
        size = len(lines) - before - after
        inner = lines[before : before + size].copy(order="K")
        left, right = lines[:before], lines[before + size :]
        if reflects:
            inner[1 : before + 1] += left[::-1]
            inner[size - 1 - after : size - 1] += right[::-1]
        else:
            inner[0] += left.sum(0)
            inner[-1] += right.sum(0)
        total = np.moveaxis(inner, 0, axis)
    return total


def _padding(name: str, dims: int, *, reflects: bool, tags: list[Tag]) -> OperatorPage:
    """Define a padding and its gradient."""
    page = define(f"aten::{name}(Tensor self, SymInt[{2 * dims}] padding) -> Tensor", tags=tags)
    back = define(
        f"aten::{name}_backward(Tensor grad_output, Tensor self, SymInt[{2 * dims}] padding) "
        "-> Tensor"
    )
    page.batching(folded)
    back.batching(folded)

    def padded(self: TensorMeta, padding: Ints) -> TensorMeta:
        return _formatted(self, _check_padding(name, self, padding, dims, reflects))

    def read(xp: ModuleType, self: Array, padding: Ints) -> Array:
        if min(padding) >= 0 and self.size:
            return _surrounded(xp, self, padding, reflects)
        out = self
        for i in range(dims):
            axis = self.ndim - 1 - i
            before, after = padding[2 * i : 2 * i + 2]
            index = _source(xp, self.shape[axis], before, after, reflects)
            out = xp.take(out, index, axis)
        return out

    def unpadded(grad_output: TensorMeta, self: TensorMeta, padding: Ints) -> TensorMeta:
        shape = _check_padding(name, self, padding, dims, reflects)
        check(
            expect_alike(grad_output.shape, shape),
            lambda: (
                f"{name}_backward: expected grad_output of shape {list(shape)}, got {grad_output}"
            ),
        )
        check_not_implemented(
            grad_output.dtype.category > 1,
            lambda: f"\"{name}_backward\" not implemented for '{grad_output.dtype.scalar_name}'",
        )
        check_gradient_dtype(f"{name}_backward", grad_output, self)
        return _formatted(self, self.shape)

    def added(xp: ModuleType, grad_output: Array, self: Array, padding: Ints) -> Array:
        total = wide(grad_output)
        if xp is np and min(padding) >= 0 and self.size:
            return _gathered(total, padding, reflects)
        for i in range(dims):
            axis = self.ndim - 1 - i
            before, after = padding[2 * i : 2 * i + 2]
            index = _source(xp, self.shape[axis], before, after, reflects)
            shape = (*total.shape[:axis], self.shape[axis], *total.shape[axis + 1 :])
            where = (*[slice(None)] * axis, index)
            total = combined_at(xp, "add", xp.zeros(shape, total.dtype), where, total)
        return total

    page.shape(padded)
    page.kernel(read)
    page.linear(self=lambda grad, self, padding: back(grad, self, padding))
    back.shape(unpadded)
    back.kernel(added)
    back.linear(grad_output=lambda grad, padding: page(grad, padding))
    back.flat("self")
    return page


_CORE = [Tag.core]
reflection_pad1d = _padding("reflection_pad1d", 1, reflects=True, tags=_CORE)
reflection_pad1d.describe("The last dimension with its elements mirrored beyond its ends.")
reflection_pad1d.autocast(cpu="float32")
reflection_pad1d.batching(folded)
reflection_pad2d = _padding("reflection_pad2d", 2, reflects=True, tags=_CORE)
reflection_pad2d.describe("The last two dimensions with their elements mirrored beyond their ends.")
reflection_pad2d.autocast(cpu="float32")
reflection_pad2d.batching(folded)
reflection_pad3d = _padding("reflection_pad3d", 3, reflects=True, tags=_CORE)
reflection_pad3d.describe(
    "The last three dimensions with their elements mirrored beyond their ends."
)
reflection_pad3d.batching(folded)
replication_pad1d = _padding("replication_pad1d", 1, reflects=False, tags=[])
replication_pad1d.describe("The last dimension with its end elements repeated beyond its ends.")
replication_pad1d.autocast(cpu="float32")
replication_pad1d.batching(folded)
replication_pad2d = _padding("replication_pad2d", 2, reflects=False, tags=_CORE)
replication_pad2d.describe(
    "The last two dimensions with their end elements repeated beyond their ends."
)
replication_pad2d.autocast(cpu="float32")
replication_pad2d.batching(folded)
replication_pad3d = _padding("replication_pad3d", 3, reflects=False, tags=_CORE)
replication_pad3d.describe(
    "The last three dimensions with their end elements repeated beyond their ends."
)
replication_pad3d.autocast(cpu="float32")
replication_pad3d.batching(folded)


# --- shuffles ------------------------------------------------------------------------

pixel_shuffle = define("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor")
pixel_shuffle.describe("[N, C * r * r, H, W] with channels moved into space: [N, C, H * r, W * r].")
pixel_unshuffle = define("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor")
pixel_unshuffle.describe(
    "[N, C, H * r, W * r] with space moved into channels: [N, C * r * r, H, W]."
)
channel_shuffle = define("aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor")
channel_shuffle.describe(
    "[N, C, ...] with the channels of `groups` groups interleaved; of the same shape."
)


def _check_pixels(name: str, self: TensorMeta, factor: int, what: str) -> None:
    check(
        self.ndim >= 3,
        lambda: (
            f"{name} expects input to have at least 3 dimensions, but got input with {self.ndim} "
            f"dimension(s)"
        ),
    )
    check(factor > 0, lambda: f"{name} expects a positive {what}, but got {factor}")


@pixel_shuffle.shape
def pixel_shuffle_shape(self: TensorMeta, upscale_factor: int) -> TensorMeta:
    _check_pixels("pixel_shuffle", self, upscale_factor, "upscale_factor")
    *batch, channels, height, width = self.shape
    area = upscale_factor * upscale_factor
    check(
        channels % area == 0,
        lambda: (
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {area}"
        ),
    )
    shape = (*batch, channels // area, height * upscale_factor, width * upscale_factor)
    return _formatted(self, shape)


@pixel_shuffle.kernel
def pixel_shuffle_kernel(xp: ModuleType, self: Array, upscale_factor: int) -> Array:
    *batch, channels, height, width = self.shape
    r = upscale_factor
    last = with_channels_last(self) if xp is np and self.ndim == 4 else None
    if last is not None:  # copied to channels in a row at once
        parts = last.reshape(*batch, height, width, channels // (r * r), r, r)
        moved = parts.transpose(0, 1, 4, 2, 5, 3)
        return channels_second(moved.reshape(*batch, height * r, width * r, -1))
    n = len(batch)
    parts = self.reshape(*batch, channels // (r * r), r, r, height, width)
    moved = parts.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return moved.reshape(*batch, channels // (r * r), height * r, width * r)


pixel_shuffle.linear(self=lambda grad, upscale_factor: pixel_unshuffle(grad, upscale_factor))
pixel_shuffle.batching(leading_of(lambda *args: 3))


@pixel_unshuffle.shape
def pixel_unshuffle_shape(self: TensorMeta, downscale_factor: int) -> TensorMeta:
    _check_pixels("pixel_unshuffle", self, downscale_factor, "downscale_factor")
    *batch, channels, height, width = self.shape
    for word, dim, size in (("height", -2, height), ("width", -1, width)):
        check(
            size % downscale_factor == 0,
            lambda word=word, dim=dim, size=size: (
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {downscale_factor}"
            ),
        )
    r = downscale_factor
    return _formatted(self, (*batch, channels * r * r, height // r, width // r))


@pixel_unshuffle.kernel
def pixel_unshuffle_kernel(xp: ModuleType, self: Array, downscale_factor: int) -> Array:
    *batch, channels, height, width = self.shape
    r = downscale_factor
    last = with_channels_last(self) if xp is np and self.ndim == 4 else None
    if last is not None:
        parts = last.reshape(*batch, height // r, r, width // r, r, channels)
        moved = parts.transpose(0, 1, 3, 5, 2, 4)
        return channels_second(moved.reshape(*batch, height // r, width // r, -1))
    n = len(batch)
    parts = self.reshape(*batch, channels, height // r, r, width // r, r)
    moved = parts.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return moved.reshape(*batch, channels * r * r, height // r, width // r)


pixel_unshuffle.linear(self=lambda grad, downscale_factor: pixel_shuffle(grad, downscale_factor))
pixel_unshuffle.batching(leading_of(lambda *args: 3))


@channel_shuffle.shape
def channel_shuffle_shape(self: TensorMeta, groups: int) -> TensorMeta:
    check(
        self.ndim > 2,
        lambda: (
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(self.shape)}"
        ),
    )
    channels = self.shape[1]
    check(
        groups > 0,
        lambda: (
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        ),
    )
    check(
        channels % groups == 0,
        lambda: (
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        ),
    )
    return _formatted(self, self.shape)


@channel_shuffle.kernel
def channel_shuffle_kernel(xp: ModuleType, self: Array, groups: int) -> Array:
    batch, channels, *rest = self.shape
    parts = self.reshape(batch, groups, channels // groups, *rest)
    return parts.swapaxes(1, 2).reshape(self.shape)


channel_shuffle.linear(
    self=lambda grad, groups: channel_shuffle(grad, max(grad.meta.shape[1] // groups, 1))
)


@channel_shuffle.batching_decomposition
def channel_shuffle_batching(self: Tensor, groups: int) -> Tensor:
    return self.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)
