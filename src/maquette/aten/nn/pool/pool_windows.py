"""What the pooling families share: checks and sizes of windows, maxima with places, sums.

Arrays are (*leading, *space); a window is worked through element by element, each step vectorized
over all places, so that nothing larger than the output is held. Maxima follow PyTorch's ties: the
first of equal values, the last NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, Index
from maquette.aten.common.array_libraries import combined_at, computed_once, data_says
from maquette.aten.common.large_arrays import added_along, loops_of_numbers, loops_of_places
from maquette.aten.nn.conv.sliding_windows import padded, reach, steps
from maquette.aten.nn.pool import channels_last_pools
from maquette.aten.nn.pool.channels_last_pools import windows_of
from maquette.core.errors import check, check_not_implemented, of_data
from maquette.core.layout import channels_last, channels_last_3d, contiguous_format
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import expect_true, is_true
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]


# --- sizes ------------------------------------------------------------------------------------


def all_dims(name: str, argument: str, values: Ints, dims: int) -> tuple[int, ...]:
    """One value a dimension; a single one stands for all."""
    check(
        len(values) in (1, dims),
        lambda: (
            f"{name}: {argument} must either be a single int, or a tuple of {dims} ints; got "
            f"{list(values)}"
        ),
    )
    return tuple(values) * dims if len(values) == 1 else tuple(values)


def check_pool_input(
    name: str, self: TensorMeta, kernel: Ints, padding: Ints, dilation: Ints
) -> None:
    """Refuse bad padding, whatever the input; then a wrong rank and empty dimensions."""
    dims = len(kernel)
    for each in zip(kernel, padding, dilation, strict=True):
        _check_pad(*each)
    batched = f"{dims + 1}D or {dims + 2}D (batch mode) tensor"
    right = self.ndim in (dims + 1, dims + 2)
    check(right or name == "avg_pool2d", lambda: f"non-empty {batched} expected for input")
    sizes = self.shape[self.ndim - dims - 1 :]
    empty = next((d for d, n in enumerate(sizes) if is_true(n == 0)), None)
    shape = list(self.shape)
    check(
        right and empty is None,
        lambda: (
            f"Expected {batched} with optional 0 dim batch size for input, but got:{shape}"
            if dims < 3
            else f"{name}(): Expected input's non-batch dimensions to have positive length, but "
            f"input has a shape of {shape} and non-batch dimension {empty} has length zero!"
        ),
    )


def check_rank_1d(name: str, self: Tensor) -> None:
    """Refuse what is not [channels, length], with or without batches before."""
    check(
        self.ndim in (2, 3),
        lambda: (
            f"Expected 2 to 3 dimensions, but got {self.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        ),
    )


def _check_pad(kernel: int, pad: int, dilation: int) -> None:
    check(pad >= 0, lambda: f"pad must be non-negative, but got pad: {pad}")
    check(
        pad <= reach(kernel, dilation) // 2,
        lambda: (
            f"pad should be at most half of effective kernel size, but got pad={pad}, "
            f"kernel_size={kernel} and dilation={dilation}"
        ),
    )


def pooled_size(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool) -> int:
    """The number of windows along a dimension; the last must begin within the padded input."""
    check(stride != 0, lambda: "stride should not be zero")
    check(
        kernel > 0 and stride > 0 and dilation > 0,
        lambda: (
            f"kernel size, stride and dilation should be greater than zero, but got kernel "
            f"{kernel}, stride {stride}, dilation {dilation}"
        ),
    )
    span = size + 2 * pad - reach(kernel, dilation)
    count = (span + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and is_true((count - 1) * stride >= size + pad):
        count -= 1
    return count


@lru_cache(256)
def places_of(space: Shape, steps: tuple[Shape, Shape, Shape, Shape], ceil: bool) -> Shape:
    """The numbers of windows of a kernel, stride, padding and dilation in a space that fits."""
    each = zip(space, *steps, strict=True)
    return tuple([pooled_size(*one, ceil) for one in each])


def pooled_shape(
    self: TensorMeta,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil: bool,
) -> Shape:
    """The shape after pooling the last dimensions."""
    dims = len(kernel)
    places = tuple(
        [
            pooled_size(*each, ceil)
            for each in zip(self.shape[-dims:], kernel, stride, padding, dilation, strict=True)
        ]
    )
    check(
        all(expect_true(n >= 1) for n in places),
        lambda: (
            f"Given input size: ({'x'.join(map(str, self.shape[-dims - 1 :]))}). Calculated "
            f"output size: ({'x'.join(map(str, (self.shape[-dims - 1], *places)))}). Output size "
            f"is too small"
        ),
    )
    return (*self.shape[:-dims], *places)


def pool_meta(self: TensorMeta, shape: Shape, dims: int) -> TensorMeta:
    """A result in the input's memory format; without a batch dimension, contiguous."""
    order = {2: channels_last, 3: channels_last_3d}[dims]
    keeps = self.ndim == dims + 2 and self.suggested_format is order
    return self.fresh(shape).like(memory_format=order if keeps else contiguous_format)


def max_pool_meta(self: TensorMeta, shape: Shape, dims: int) -> TensorMeta:
    """`pool_meta`; of three dimensions, the memory format stays without a batch dimension too."""
    if dims != 3 or self.ndim != 4:
        return pool_meta(self, shape, dims)
    batch = self.view((1, *self.shape), (self.numel, *self.strides))
    made = pool_meta(batch, (1, *shape), dims)
    return made.view(shape, made.strides[1:])


def check_kind(kernel: str, self: TensorMeta, supported: bool) -> None:
    """Refuse a dtype in PyTorch's words; `kernel` is its name of the loop."""
    check_not_implemented(
        supported, lambda: f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'"
    )


# --- arrays -----------------------------------------------------------------------------------


def overhang(
    space: Ints, places: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> list[int]:
    """How far beyond the input's end the last windows reach; negative where they end before."""
    return [
        (n - 1) * s + reach(k, d) - p - size
        for size, n, k, s, p, d in zip(space, places, kernel, stride, padding, dilation)
    ]


def reaching(
    space: Ints, kernel: Ints, padding: Ints, dilation: Ints | None = None
) -> tuple[int, ...]:
    """Kernel sizes less what no window can meet: a kernel may be larger than the padded input."""
    given = zip(space, kernel, padding, dilation or (1,) * len(kernel), strict=True)
    return tuple([min(k, (max(n + 2 * p, 1) - 1) // d + 1) for n, k, p, d in given])


def lowest(xp: ModuleType, array: Array) -> float | int:
    """What is below every value of the array's type."""
    return -float("inf") if array.dtype.kind not in "iu" else int(xp.iinfo(array.dtype).min)


def _plane_index(xp: ModuleType, coordinates: Sequence[Array], space: Ints) -> Array:
    """Flat numbers within a plane of coordinates given for each dimension."""
    index: Array = xp.zeros((1,) * len(space), xp.int64)
    for dim, (values, size) in enumerate(zip(coordinates, space)):
        index = index * size + values.reshape([-1 if d == dim else 1 for d in range(len(space))])
    return index


def window_maxima(
    xp: ModuleType,
    x: Array,
    places: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
) -> tuple[Array, Array]:
    """The largest of each window and its flat index in the plane."""
    dims = len(kernel)
    space = x.shape[-dims:]
    of_channels = channels_last_pools.loops_for(xp, x, x, dims) if 0 not in places else None
    if of_channels is not None:
        inside = windows_of(space, places, kernel, stride, padding, dilation)
        return channels_last_pools.maxima(of_channels, x, inside, dilation)
    loops = loops_of_places(xp, x.size, x) if dims == 2 and 0 not in places else None
    if loops is not None:
        planes = x.reshape(-1, *space)
        geometry = [tuple(g) for g in (places, kernel, stride, padding, dilation)]
        largest, at = loops.window_maxima(planes, *geometry)
        found = *x.shape[:-dims], *places
        return largest.reshape(found), at.reshape(found)
    if dims == 3:
        firsts, counts = windows_of(space, places, kernel, stride, padding, dilation)
        found_by_loop = box_maxima(xp, x, [f[None] for f in firsts], counts, dilation)
        if found_by_loop is not None:
            return found_by_loop
    least = lowest(xp, x)
    kernel = reaching(space, kernel, padding, dilation)
    behind = overhang(space, places, kernel, stride, padding, dilation)
    around = padded(xp, x, padding, behind, least)
    starts = [xp.arange(n) * s - p for n, s, p in zip(places, stride, padding)]
    first = [xp.where(s < 0, s + -(s // d) * d, s) for s, d in zip(starts, dilation)]
    best = xp.full((*x.shape[:-dims], *places), least, x.dtype)
    index = xp.broadcast_to(_plane_index(xp, first, space), best.shape).copy()
    for at in product(*map(range, kernel)):
        where: Index = (..., *steps(at, stride, dilation, places))
        values = around[where]
        better = (values > best) | (values != values)
        here = [s + i * d for s, i, d in zip(starts, at, dilation)]
        best = xp.where(better, values, best)
        index = xp.where(better, _plane_index(xp, here, space), index)
    best, index = computed_once(xp, best, index)
    return best, index


def box_maxima(
    xp: ModuleType,
    x: Array,
    firsts: Sequence[Array],
    counts: Sequence[Array],
    steps: Sequence[int],
) -> tuple[Array, Array] | None:
    """The largest of windows of the last dimensions, and their flat indices, by a compiled loop.

    For each dimension: the first elements, [planes or 1, places], and the counts, [places], of
    windows, and the step between elements. None where there is no loop for the array.
    """
    loops = loops_of_numbers(xp, x)
    if loops is None or any(c.size == 0 or c.min() < 1 for c in counts):
        return None
    dims = len(counts)
    planes = x.reshape(-1, *x.shape[-dims:])
    largest, at = loops.box_maxima(planes, firsts, counts, steps)
    shape = (*x.shape[:-dims], *largest.shape[1:])
    return largest.reshape(shape), at.reshape(shape)


def line_maxima(
    xp: ModuleType, x: Array, places: int, kernel: int, stride: int, padding: int, dilation: int
) -> Array:
    """The largest of each window along the last dimension, without its place."""
    loops = loops_of_places(xp, x.size, x) if places else None
    if loops is None:
        geometry = ((n,) for n in (places, kernel, stride, padding, dilation))
        return window_maxima(xp, x, *geometry)[0]
    behind = overhang(x.shape[-1:], (places,), (kernel,), (stride,), (padding,), (dilation,))
    around = padded(xp, x, (padding,), behind, lowest(xp, x))
    rows = around.reshape(-1, around.shape[-1])
    found: Array = loops.line_maxima(rows, places, kernel, stride, dilation)
    return found.reshape(*x.shape[:-1], places)


def scattered(xp: ModuleType, grad: Array, index: Array, space: Ints) -> Array:
    """Values added up at their flat indices in planes of `space`."""
    dims = len(space)
    of_channels = channels_last_pools.loops_for(xp, grad, index, dims)
    if of_channels is not None:
        put = channels_last_pools.put_back(of_channels, grad, index, space)
        if put is not None:
            return put
    leading, plane = grad.shape[:-dims], prod(space)
    result: Array = xp.zeros((prod(leading) * plane,), grad.dtype)
    if index.size and data_says(lambda: index.min() < 0 or index.max() >= plane):
        raise of_data(
            RuntimeError(
                f"indices from {index.min()} to {index.max()} lie outside of planes of "
                f"{list(space)}"
            )
        )
    if grad.size:
        lines = (prod(leading), -1)
        if added_along(xp, result.reshape(lines), index.reshape(lines), grad.reshape(lines), 1):
            return result.reshape(*leading, *space)
    rows = xp.arange(prod(leading), dtype=xp.int64).reshape(*leading, *[1] * dims) * plane
    result = combined_at(xp, "add", result, (index + rows).reshape(-1), grad.reshape(-1))
    return result.reshape(*leading, *space)


def window_sums(
    xp: ModuleType, x: Array, places: Ints, kernel: Ints, stride: Ints, padding: Ints
) -> Array:
    """The sum of each window, one dimension after the other."""
    dims = len(kernel)
    kernel = reaching(x.shape[-dims:], kernel, padding)
    behind = overhang(x.shape[-dims:], places, kernel, stride, padding, (1,) * dims)
    around = padded(xp, x, padding, behind)
    for axis, (k, s, n) in enumerate(zip(kernel, stride, places), x.ndim - dims):
        around = sum(  # type: ignore[assignment]  # k is at least 1
            around[(slice(None),) * axis + (slice(i, i + s * (n - 1) + 1, s),)] for i in range(k)
        )
    return around


@lru_cache(256)
def counted(
    size: int, places: int, kernel: int, stride: int, padding: int, include_padding: bool
) -> Array:
    """How many elements of a line each window counts: with the padding it covers, or without.

    Not to be written to.
    """
    start = np.arange(places) * stride - padding
    end = np.minimum(start + kernel, size + padding)
    if not include_padding:
        start, end = np.maximum(start, 0), np.minimum(end, size)
    return end - start
