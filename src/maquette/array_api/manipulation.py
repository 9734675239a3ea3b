"""Shapes and order of arrays, as the array API standard has them.

What is here: the standard's functions that move elements and compute nothing, and those that take
elements by index. They are PyTorch's by other names; ``axis`` is ``dim``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from maquette.api import functions as mq
from maquette.array_api.data_types import promoted
from maquette.core.dtype import int64
from maquette.tensor.tensor import Tensor

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays, each expanded to their common shape."""
    return list(cast("tuple[Tensor, ...]", mq.broadcast_tensors(*arrays)))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The array expanded to a shape."""
    return mq.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after another along an axis; of ``axis=None``, their elements in order."""
    given = promoted("concat", *arrays)
    if axis is None:
        return mq.cat([x.reshape(-1) for x in given])
    return mq.cat(given, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The arrays beside each other along a new axis."""
    return mq.stack(promoted("stack", *arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of an array along an axis."""
    return tuple(mq.unbind(x, axis))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """The array with a new axis of size 1."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(
            f"expand_dims: expected an axis from {-x.ndim - 1} to {x.ndim}, got {axis}"
        )
    return mq.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """The array without the given axes, each of size 1."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    sizes = {a: x.shape[a] for a in axes}
    if any(size != 1 for size in sizes.values()):
        raise ValueError(f"squeeze: expected axes of size 1, got sizes by axis {sizes}")
    return mq.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """The array with the order of elements along the axes reversed."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return mq.flip(x, axes)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """The array with axes moved to other places."""
    return mq.moveaxis(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The array with its axes in another order."""
    return mq.permute(x, axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element, several times."""
    counts = repeats.to(int64) if isinstance(repeats, Tensor) else repeats
    return mq.repeat_interleave(x, counts, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The array in another shape; ``copy=False`` refuses where its memory does not allow it."""
    if copy:
        return x.clone().reshape(shape)
    if copy is None:
        return x.reshape(shape)
    try:
        return x.view(shape)
    except RuntimeError as error:
        raise ValueError(
            f"reshape: an array of shape {tuple(x.shape)} and strides {x.stride()} cannot be seen "
            f"as {shape} without a copy; leave out copy=False"
        ) from error


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """The array with its elements moved along axes, the last to the front."""
    return mq.roll(x, shift) if axis is None else mq.roll(x, shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array several times along each axis."""
    return mq.tile(x, repetitions)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The parts of an array at positions along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: expected an axis for an array of shape {tuple(x.shape)}")
        axis = 0
    flat = mq.index_select(x, axis, _positions(indices, x.shape[axis]).reshape(-1))
    axis %= x.ndim
    return flat.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at positions that are given for each row along the axis."""
    axis %= x.ndim
    shape = [max(a, b) for a, b in zip(x.shape, indices.shape, strict=True)]
    own = [x.shape[d] if d == axis else size for d, size in enumerate(shape)]
    wanted = [indices.shape[d] if d == axis else size for d, size in enumerate(shape)]
    places = _positions(indices, x.shape[axis])
    return mq.gather(mq.broadcast_to(x, own), axis, mq.broadcast_to(places, wanted))


def _positions(indices: Tensor, size: int) -> Tensor:
    places = indices.to(int64)
    return mq.where(places < 0, places + size, places)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Each matrix with rows and columns exchanged."""
    if x.ndim < 2:  # a matrix
        raise ValueError(f"matrix_transpose: expected at least 2 dimensions, got {x.ndim}")
    return x.mT
