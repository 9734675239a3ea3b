"""Padding and resizing by indices along each dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, counting, decomposes, indexed
from maquette.core.dtype import float32


def _reflected(index: Any, size: int) -> Any:
    return size - 1 - aten.abs(size - 1 - aten.abs(index))


def _clamped(index: Any, size: int) -> Any:
    return aten.clamp(index, 0, size - 1)


def _indices(self: Any, padding: Ints, place: Callable[[Any, int], Any]) -> list[tuple[int, Any]]:
    """For each padded dimension, the last first, where its new elements come from."""
    found = []
    for n in range(len(padding) // 2):
        before, after = padding[2 * n : 2 * n + 2]
        dim = self.ndim - 1 - n
        size = self.shape[dim]
        index = counting(before + size + after, self) - before
        found.append((dim, place(index, size)))
    return found


@decomposes("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", wide=False)
def reflection_pad(self: Any, padding: Ints) -> Any:
    for dim, index in _indices(self, padding, _reflected):
        self = indexed(self, dim, index)
    return self


@decomposes("replication_pad1d", "replication_pad2d", "replication_pad3d", wide=False)
def replication_pad(self: Any, padding: Ints) -> Any:
    for dim, index in _indices(self, padding, _clamped):
        self = indexed(self, dim, index)
    return self


@decomposes(
    "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
)  # fmt: skip
def reflection_pad_backward(grad: Any, self: Any, padding: Ints) -> Any:
    for dim, index in _indices(self, padding, _reflected):
        shape = [*grad.shape]
        shape[dim] = self.shape[dim]
        zeros = aten.new_zeros(grad, shape)
        grad = aten.index_put(zeros, [None] * dim + [index], grad, True)
    return grad


# --- resizing -------------------------------------------------------------------------------------


def _nearest(self: Any, output_size: Ints, scales: tuple[float | None, ...], half: float) -> Any:
    for n, (size, scale) in enumerate(zip(output_size, scales)):
        dim = n + 2
        step = self.shape[dim] / size if scale is None or scale <= 0 else 1 / scale
        place = (counting(size, self).to(float32) + half) * step
        index = aten.clamp(place.to(aten.arange(0).dtype), None, self.shape[dim] - 1)
        self = indexed(self, dim, index)
    return self


@decomposes("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", wide=False)
def upsample_nearest(self: Any, output_size: Ints, *scales: float | None) -> Any:
    return _nearest(self, output_size, scales, 0.0)


@decomposes(
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    wide=False,
)  # fmt: skip
def upsample_nearest_exact(self: Any, output_size: Ints, *scales: float | None) -> Any:
    return _nearest(self, output_size, scales, 0.5)


@decomposes("upsample_linear1d")
def upsample_linear1d(
    self: Any, output_size: Ints, align_corners: bool, scales: float | None
) -> Any:
    (size,), count = output_size, self.shape[-1]
    index = counting(size, self).to(self.dtype if self.is_floating_point() else float32)
    if align_corners:
        place = index * ((count - 1) / (size - 1) if size > 1 else 0.0)
    else:
        step = count / size if scales is None or scales <= 0 else 1 / scales
        place = aten.clamp((index + 0.5) * step - 0.5, 0)
    left = aten.clamp(place.to(aten.arange(0).dtype), None, count - 1)
    right = aten.clamp(left + 1, None, count - 1)
    weight = aten.clamp(place - left, 0, 1)
    a, b = indexed(self, self.ndim - 1, left), indexed(self, self.ndim - 1, right)
    return a + (b - a) * weight
