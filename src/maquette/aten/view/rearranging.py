"""Copies with elements in other places: flip, roll, rot90, repeat, tile, padding.

Views that rearrange without copying are in `views.py` and `reshaping.py`.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import assigned_at
from maquette.aten.common.axes import Array, wrap_existing_dim
from maquette.aten.common.batching_forms import (
    along_named,
    leading_of,
    rank_of,
    sized,
    to_front,
    wrapped,
)
from maquette.aten.common.channels_last import channels_second, with_channels_last
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.large_arrays import loops_of_places
from maquette.aten.common.narrow_floats import full_of
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, result_dtype
from maquette.core.broadcast import wrap_dims
from maquette.core.dtype import from_numpy_dtype
from maquette.core.errors import check
from maquette.core.fitting import check_fits
from maquette.core.layout import preserve_format
from maquette.core.meta import TensorMeta
from maquette.core.strides import format_strides
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Ints = tuple[int, ...]

flip = define("aten::flip(Tensor self, int[] dims) -> Tensor", tags=[Tag.core])
flip.describe("`self` with the order turned along dimensions `dims`; a copy.")


@flip.shape
def flip_shape(self: TensorMeta, dims: Ints) -> TensorMeta:
    wrap_dims(dims, self.ndim)
    return self.like()


@flip.kernel
def flip_kernel(xp: ModuleType, self: Array, dims: Ints) -> Array:
    axes = wrap_dims(dims, self.ndim) if self.ndim else ()
    last = self.ndim - 1
    bits = self.view(np.uint8) if xp is np and self.dtype == np.bool_ else self
    loops = loops_of_places(xp, bits.size, bits) if last in axes else None
    if loops is None or not self.flags.c_contiguous:
        flipped: Array = xp.flip(self, axes)
        return flipped
    if len(set(axes)) == self.ndim:  # all is in reverse
        whole: Array = loops.reversed_rows(bits.reshape(1, -1)).reshape(self.shape)
        return whole.view(self.dtype)
    turned: Array = loops.reversed_rows(bits).view(self.dtype)
    return xp.flip(turned, [axis for axis in axes if axis != last])


flip.linear(self=lambda grad, dims: grad.flip(dims))
flip.batching(along_named)

fliplr = define("aten::fliplr(Tensor self) -> Tensor")
fliplr.describe("`self` with the order turned along the second dimension; a copy.")
flipud = define("aten::flipud(Tensor self) -> Tensor")
flipud.describe("`self` with the order turned along the first dimension; a copy.")


@fliplr.composite
def fliplr_composite(self: Tensor) -> object:
    check(self.meta.ndim >= 2, lambda: "Input must be >= 2-d.")
    return self.flip((1,))


@flipud.composite
def flipud_composite(self: Tensor) -> object:
    check(self.meta.ndim >= 1, lambda: "Input must be >= 1-d.")
    return self.flip((0,))


roll = define("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor")
roll.describe(
    "`self` moved by `shifts` along dimensions, what leaves at one end entering at the other."
)


@roll.shape
def roll_shape(self: TensorMeta, shifts: Ints, dims: Ints) -> TensorMeta:
    check(len(shifts) > 0, lambda: "`shifts` required")
    check(
        len(dims) == len(shifts) or (not dims and len(shifts) == 1),
        lambda: f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}",
    )
    for dim in dims:
        wrap_existing_dim(dim, self.ndim)
    return self.fresh(self.shape)


@roll.kernel
def roll_kernel(xp: ModuleType, self: Array, shifts: Ints, dims: Ints) -> Array:
    rolled: Array = xp.roll(self, shifts, dims) if dims else xp.roll(self, shifts[0])
    return rolled


roll.linear(self=lambda grad, shifts, dims: grad.roll(tuple(-s for s in shifts), dims))


@roll.batching
def roll_batching(info: VmapInfo, in_dims: Any, self: Tensor, shifts: Any, dims: Any = ()) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not dims:
        return aten.roll(x.flatten(1) if rank else x.unsqueeze(1), shifts, [1]).view(x.shape), 0
    if not rank:
        return aten.roll(x.unsqueeze(1), shifts, [1] * len(dims)).squeeze(1), 0
    return aten.roll(x, shifts, [wrapped(d, rank) + 1 for d in dims]), 0


rot90 = define("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor")
rot90.describe("`self` turned by 90 degrees `k` times in the plane of two dimensions.")


@rot90.shape
def rot90_shape(self: TensorMeta, k: int, dims: Ints) -> TensorMeta:
    check(len(dims) == 2, lambda: f"expected total rotation dims == 2, but got dims = {len(dims)}")
    check(self.ndim >= 2, lambda: f"expected total dims >= 2, but got total dims = {self.ndim}")
    check(
        dims[0] != dims[1] and abs(dims[0] - dims[1]) != self.ndim,
        lambda: (
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        ),
    )
    for n, dim in enumerate(dims):
        if not -self.ndim <= dim < self.ndim:
            raise RuntimeError(f"Rotation dim{n} out of range, dim{n} = {dim}")
    if k % 4 == 0:
        return self.fresh(self.shape)
    if k % 4 == 2:
        return self.like()
    first, second = wrap_dims(dims, self.ndim)
    order = list(range(self.ndim))
    order[first], order[second] = second, first
    plain = self.like()
    return plain.fresh(
        tuple(plain.shape[d] for d in order), strides=tuple(plain.strides[d] for d in order)
    )


@rot90.kernel
def rot90_kernel(xp: ModuleType, self: Array, k: int, dims: Ints) -> Array:
    if k % 2 == 0:
        return flip_kernel(xp, self, dims if k % 4 else ())
    flipped = flip_kernel(xp, self, (dims[1] if k % 4 == 1 else dims[0],))
    return xp.swapaxes(flipped, *dims)


rot90.linear(self=lambda grad, k, dims: grad.rot90(-k, dims))


@rot90.batching
def rot90_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, k: int = 1, dims: Any = (0, 1)
) -> Any:
    rank = rank_of(self, in_dims[0])
    return aten.rot90(to_front(self, in_dims[0]), k, [wrapped(d, rank) + 1 for d in dims]), 0


repeat = define("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", tags=[Tag.core])
repeat.describe("`self` as often as `repeats` says along each dimension; a copy.")


@repeat.shape
def repeat_shape(self: TensorMeta, repeats: Ints) -> TensorMeta:
    missing = len(repeats) - self.ndim
    check(
        missing >= 0,
        lambda: (
            "Number of dimensions of repeat dims can not be smaller than number of dimensions "
            "of tensor"
        ),
    )
    check(
        all(expect_true(r >= 0) for r in repeats),
        lambda: f"Trying to create tensor with negative dimension: repeat({list(repeats)})",
    )
    padded = (1,) * missing + self.shape
    return self.fresh(tuple(n * r for n, r in zip(padded, repeats, strict=True)))


@repeat.kernel
def repeat_kernel(xp: ModuleType, self: Array, repeats: Ints) -> Array:
    repeated: Array = xp.tile(self, repeats) if repeats else xp.array(self, copy=True)
    return repeated


@repeat.linear("self")
def repeat_grad(grad: Tensor, self_meta: TensorMeta, repeats: Ints) -> tuple[object]:
    """Sum over the repeats: a repeated dimension falls into its copies and its elements."""
    if 0 in repeats:
        return (zeros_beside(grad, self_meta.shape),)
    missing = len(repeats) - self_meta.ndim
    for _ in range(missing):
        grad = grad.sum((0,), False)
    shape: list[int] = []
    copies: list[int] = []
    for count, size in zip(repeats[missing:], self_meta.shape, strict=True):
        if not is_true(count == 1):
            copies.append(len(shape))
            shape.append(count)
        shape.append(size)
    return (grad.reshape(tuple(shape)).sum(tuple(copies)) if copies else grad,)


repeat.batching(sized)


tile = define("aten::tile(Tensor self, SymInt[] dims) -> Tensor")
tile.describe("`self` as often as `dims` says along each dimension, from the last on; a copy.")
tile.composite(lambda self, dims: self.repeat((1,) * (self.meta.ndim - len(dims)) + tuple(dims)))

# --- padding -------------------------------------------------------------------------

constant_pad_nd = define(
    "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", tags=[Tag.core]
)
constant_pad_nd.describe(
    "Dimensions, from the last on, lengthened by `value` as `pad` says: before, after, before..."
)


@constant_pad_nd.shape
def constant_pad_nd_shape(self: TensorMeta, pad: Ints, value: Number) -> TensorMeta:
    check(len(pad) % 2 == 0, lambda: f"Length of pad must be even but instead it equals {len(pad)}")
    check(
        len(pad) <= 2 * self.ndim,
        lambda: (
            f"Length of pad should be no more than twice the number of dimensions of the input. "
            f"Pad length is {len(pad)} while the input has {self.ndim} dimensions."
        ),
    )
    shape = padded_shape(self.shape, pad)
    for dim, size in enumerate(reversed(self.shape[-len(pad) // 2 :] if pad else ())):
        kept = size + min(pad[2 * dim], 0) + min(pad[2 * dim + 1], 0)
        check(kept >= 0, lambda: "narrow(): length must be non-negative.")
    check_fits(value, self.dtype)
    if all(p <= 0 for p in pad):
        # Nothing to fill: the clone of a slice, which keeps the order of dimensions.
        return self.fresh(shape, strides=format_strides(shape, self.strides, preserve_format))
    return self.fresh(shape, strides=format_strides(shape, (), self.suggested_format))


def padded_shape(shape: Ints, pad: Ints) -> Ints:
    """A shape after padding; the pad names pairs from the last dimension on."""

    def negative(dim: int) -> str:
        place = 2 * (len(shape) - 1 - dim)
        return (
            f"The input size {shape[dim]}, plus negative padding {pad[place]} and {pad[place + 1]} "
            f"resulted in a negative output size, which is invalid. Check dimension {dim} of your "
            f"input."
        )

    sizes = list(shape)
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        dim = len(shape) - 1 - i
        sizes[dim] = sizes[dim] + before + after
        check(sizes[dim] >= 0, partial(negative, dim))
    return tuple(sizes)


@constant_pad_nd.kernel
def constant_pad_nd_kernel(xp: ModuleType, self: Array, pad: Ints, value: Number) -> Array:
    shape = list(self.shape)
    source = [slice(None)] * self.ndim
    target = [slice(None)] * self.ndim
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        dim = self.ndim - 1 - i
        size = self.shape[dim]
        shape[dim] = size + before + after
        source[dim] = slice(max(-before, 0), size - max(-after, 0))
        target[dim] = slice(max(before, 0), shape[dim] - max(after, 0))
    fill = result_dtype(value, from_numpy_dtype(self.dtype))
    last = with_channels_last(self) if xp is np and self.ndim > 3 else None
    if last is None:
        padded = full_of(xp, shape, fill, self.dtype)
    else:
        padded = channels_second(full_of(xp, (shape[0], *shape[2:], shape[1]), fill, self.dtype))
    return assigned_at(xp, padded, tuple(target), self[tuple(source)])


constant_pad_nd.linear(
    self=lambda grad, pad: aten.constant_pad_nd(grad, tuple(-p for p in pad), 0), value=None
)
constant_pad_nd.batching(leading_of(lambda self, pad, *rest: len(pad) // 2))

pad = define(
    'aten::pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor'
)
pad.describe(
    "Dimensions, from the last on, lengthened as `pad` says: by a constant, mirrored, "
    "repeated or around."
)


@pad.composite
def pad_composite(self: Tensor, pad: Ints, mode: str, value: float | None) -> object:
    check(len(pad) % 2 == 0, lambda: f"Padding length must be divisible by 2, got {len(pad)}")
    if mode == "constant":
        return aten.constant_pad_nd(self, pad, 0.0 if value is None else value)
    check(
        value is None or value == 0,
        lambda: f'Padding mode "{mode}" doesn\'t take in value argument',
    )
    check(
        mode in ("reflect", "replicate", "circular"),
        lambda: (
            f"Unrecognised padding mode {mode}: expected constant, reflect, replicate, circular"
        ),
    )
    if mode == "circular":
        return _circular(self, pad)
    pairs = {2: (2, 3), 4: (3, 4), 6: (4, 5)}
    if self.meta.ndim not in pairs.get(len(pad), ()):
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now; got "
            f"{self.meta} and a pad of {len(pad)} values"
        )
    name = {"reflect": "reflection", "replicate": "replication"}[mode]
    return getattr(aten, f"{name}_pad{len(pad) // 2}d")(self, pad)


def _circular(self: Tensor, pad: Ints) -> Tensor:
    """Each padded dimension continues from its other end; negative pads cut.

    What is left must be as long as each pad: PyTorch asks the uncut size, and `pad=(2, -1)` of two
    elements gives memory that nobody wrote.
    """
    shape, ndim = self.meta.shape, self.meta.ndim
    check(
        len(pad) in (2 * (ndim - 2), 2 * (ndim - 1)) and len(pad) in (2, 4, 6),
        lambda: (
            f"Invalid padding size, expected {2 * (ndim - 2)}, or {2 * (ndim - 1)} without a "
            f"batch, but got {len(pad)}"
        ),
    )
    sizes = padded_shape(shape, pad)
    out: Tensor = self.new_empty(sizes)
    inner, source = out, self
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        dim = ndim - 1 - i
        check(
            max(before, after) <= shape[dim] + min(before, 0) + min(after, 0),
            lambda: "Padding value causes wrapping around more than once.",
        )
        inner = aten.slice(inner, dim, max(before, 0), sizes[dim] - max(after, 0))
        source = aten.slice(source, dim, max(-before, 0), shape[dim] - max(-after, 0))
    inner.copy_(source)
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        _wrap_around(out, ndim - 1 - i, before, after)
    return out


def _wrap_around(out: Tensor, dim: int, before: int, after: int) -> None:
    size = out.meta.shape[dim]
    if before > 0:
        end = size - max(after, 0)
        aten.slice(out, dim, 0, before).copy_(aten.slice(out, dim, end - before, end))
    if after > 0:
        begin = max(before, 0)
        aten.slice(out, dim, size - after, size).copy_(aten.slice(out, dim, begin, begin + after))
