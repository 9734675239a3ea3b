"""Pooling to a given size: n windows share a dimension as evenly as they can.

Window i reaches from floor(i * size / n) to ceil((i + 1) * size / n); neighbours may overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, Index, wide
from maquette.aten.common.array_libraries import added_to, assigned_at, data_says
from maquette.aten.common.backward_checks import check_gradient_dtype
from maquette.aten.common.batching_forms import folded
from maquette.aten.common.large_arrays import loops_of_floats
from maquette.aten.nn.pool import channels_last_pools
from maquette.aten.nn.pool.max_pooling import gathered
from maquette.aten.nn.pool.pool_windows import (
    box_maxima,
    check_kind,
    check_rank_1d,
    pool_meta,
    scattered,
    window_maxima,
)
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.layout import channels_last, channels_last_3d
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _boxes(space: Ints, counts: Ints) -> tuple[list[Array], list[Array]]:
    """For each dimension the first elements of its windows, [1, windows], and their sizes."""
    firsts, sizes = _boxes_within(space, counts)
    return [f[None] for f in firsts], sizes


def _boxes_within(space: Ints, counts: Ints) -> tuple[list[Array], list[Array]]:
    """`_boxes` without a first dimension of one; not to be written to."""
    each = [_line_of_boxes(*pair) for pair in zip(space, counts)]
    return [firsts for firsts, _ in each], [sizes for _, sizes in each]


@lru_cache(256)
def _line_of_boxes(size: int, count: int) -> tuple[Array, Array]:
    bounds = np.array(_bounds(size, count)).reshape(-1, 2)
    return bounds[:, 0].copy(), bounds[:, 1] - bounds[:, 0]


def _loops(xp: ModuleType, x: Array, counts: Ints) -> ModuleType | None:
    """The loops over boxes for a large array of floats; None for no windows."""
    return loops_of_floats(xp, x) if all(counts) else None


def _equal_windows(space: Ints, counts: Ints) -> tuple[int, ...] | None:
    """The size of the windows where they share every dimension evenly; else None."""
    if not all(counts) or any(n % count for n, count in zip(space, counts)):
        return None
    return tuple([n // count for n, count in zip(space, counts)])


def _shared_out(xp: ModuleType, grad: Array, size: Ints) -> Array:
    """Each element divided among the elements of its window; windows of a size side by side."""
    dims = len(size)
    for n in size:
        grad = grad / n
    whole = [count * n for count, n in zip(grad.shape[-dims:], size)]
    for axis in range(dims - 1, -1, -1):  # first along the rows, which are then copied whole
        at = grad.ndim - dims + axis + 1
        split = (*grad.shape[:at], size[axis], *grad.shape[at:])
        spread = xp.broadcast_to(xp.expand_dims(grad, at), split)
        grad = spread.reshape(*grad.shape[: at - 1], whole[axis], *grad.shape[at:])
    return grad


def _check_adaptive(name: str, self: TensorMeta, output_size: Ints, dims: int) -> tuple[int, ...]:
    check_advised(
        check,
        len(output_size) == dims,
        lambda: f"{name}: output_size must be {dims}",
        lambda: f"It is {list(output_size)}: {dims} numbers are due.",
    )
    check(
        all(expect_true(n >= 0) for n in output_size),
        lambda: (
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, output_size))}}}"
        ),
    )
    check(
        self.ndim in (dims + 1, dims + 2),
        lambda: (
            f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got"
            f"{':' if 'max' in name else ''} {list(self.shape)}"
        ),
    )
    # A mean of two dimensions alone is taken of no channels, too.
    first = self.ndim - dims if name == "adaptive_avg_pool2d" else 1
    check_filled(name, "input", self, first)
    return (*self.shape[:-dims], *output_size)


def check_filled(name: str, what: str, given: TensorMeta, first: int) -> None:
    """Refuse an empty dimension, from the one of number ``first`` on."""
    empty = [d for d in range(first, given.ndim) if is_true(given.shape[d] == 0)]
    check(
        not empty,
        lambda: (
            f"{name}(): Expected {what} to have non-zero size for non-batch dimensions, but "
            f"{what} has sizes {list(given.shape)} with dimension {empty[0]} being empty"
        ),
    )


def _check_gradient(name: str, grad_output: TensorMeta, self: TensorMeta, dims: int) -> None:
    check(
        grad_output.ndim == self.ndim and grad_output.shape[:-dims] == self.shape[:-dims],
        lambda: (
            f"{name}_backward(): expected grad_output with the leading sizes of the input "
            f"{self}; got {grad_output}"
        ),
    )
    check_filled(f"{name}_backward", "grad_output", grad_output, 1)
    check_gradient_dtype(f"{name}_backward", grad_output, self)


# --- means ------------------------------------------------------------------------------------


def _adaptive_avg_pool(dims: int) -> tuple[OperatorPage, OperatorPage]:
    name = f"adaptive_avg_pool{dims}d"
    page = define(
        f"aten::_{name}(Tensor self, SymInt[{dims}] output_size) -> Tensor", tags=[Tag.core]
    )
    backward = define(
        f"aten::_{name}_backward(Tensor grad_output, Tensor self) -> Tensor",
        tags=[Tag.core] if dims == 2 else [],
    )

    def in_format(self: TensorMeta, shape: tuple[int, ...]) -> TensorMeta:
        return pool_meta(self, shape, dims) if dims == 2 else self.fresh(shape)

    @page.shape
    def adaptive_shape(self: TensorMeta, output_size: Ints) -> TensorMeta:
        shape = _check_adaptive(name, self, output_size, dims)
        check_kind(name, self, self.dtype.is_floating_point)
        return in_format(self, shape)

    @page.kernel
    def adaptive_kernel(xp: ModuleType, self: Array, output_size: Ints) -> Array:
        x = wide(self)
        loops = _loops(xp, x, output_size)
        if loops is not None and channels_last_pools.loops_for(xp, x, x, dims):
            boxes = _boxes_within(x.shape[-dims:], output_size)
            return channels_last_pools.means(loops, x, boxes, boxes[1])
        if loops is not None:
            lead, space = x.shape[:-dims], x.shape[-dims:]
            pooled: Array = loops.box_means(x.reshape(-1, *space), *_boxes(space, output_size))
            return pooled.reshape(*lead, *output_size)
        for axis, count in enumerate(output_size, x.ndim - dims):
            every = (slice(None),) * axis
            means = [
                x[(*every, slice(*each))].mean(axis=axis) for each in _bounds(x.shape[axis], count)
            ]
            x = xp.stack(means, axis) if means else x[(*every, slice(0, 0))]
        return x

    page.linear(self=lambda grad, self: backward(grad, self))

    @backward.shape
    def adaptive_backward_shape(grad_output: TensorMeta, self: TensorMeta) -> TensorMeta:
        check(
            self.ndim in (dims + 1, dims + 2),
            lambda: (
                f"{name}_backward: Expected {dims + 1}D or {dims + 2}D tensor, but got "
                f"{list(self.shape)}"
            ),
        )
        _check_gradient(name, grad_output, self, dims)
        check_kind(f"{name}_backward", grad_output, grad_output.dtype.is_floating_point)
        return in_format(self, self.shape)

    @backward.kernel
    def adaptive_backward_kernel(xp: ModuleType, grad_output: Array, self: Array) -> Array:
        grad = wide(grad_output)
        last = channels_last_pools.loops_for(xp, grad, self, dims)
        if last is not None:
            boxes = _boxes_within(self.shape[-dims:], grad.shape[-dims:])
            space = self.shape[-dims:]
            return channels_last_pools.shares(last, grad, boxes, boxes[1], space)
        size = _equal_windows(self.shape[-dims:], grad.shape[-dims:])
        if size is not None:
            return _shared_out(xp, grad, size)
        space, counts = self.shape[-dims:], grad.shape[-dims:]
        loops = _loops(xp, self, counts) if self.dtype == grad.dtype else None
        if loops is not None:
            shared: Array = loops.box_shares(
                grad.reshape(-1, *counts), *_boxes(space, counts), space
            )
            return shared.reshape(self.shape)
        for axis in range(grad.ndim - dims, grad.ndim):
            shape = list(grad.shape)
            shape[axis] = self.shape[axis]
            spread, lead = xp.zeros(shape, grad.dtype), (slice(None),) * axis
            for i, (start, end) in enumerate(_bounds(self.shape[axis], grad.shape[axis])):
                share = grad[(*lead, slice(i, i + 1))] / (end - start)
                spread = added_to(xp, spread, (*lead, slice(start, end)), share)
            grad = spread
        return grad

    backward.linear(
        grad_output=lambda grad, grad_output_meta: page(grad, grad_output_meta.shape[-dims:])
    )
    backward.flat("self")
    return page, backward


_adaptive_avg_pool2d, _adaptive_avg_pool2d_backward = _adaptive_avg_pool(2)
_adaptive_avg_pool2d.batching(folded)
_adaptive_avg_pool2d_backward.batching(folded)
_adaptive_avg_pool3d, _adaptive_avg_pool3d_backward = _adaptive_avg_pool(3)
_adaptive_avg_pool3d.batching(folded)
_adaptive_avg_pool3d_backward.batching(folded)


def _mean_or_pool(dims: int, page: OperatorPage) -> OperatorPage:
    """The public name: a plain mean where one number a plane is wanted."""
    name = f"adaptive_avg_pool{dims}d"
    public = define(f"aten::{name}(Tensor self, SymInt[{dims}] output_size) -> Tensor")
    order = channels_last if dims == 2 else channels_last_3d

    @public.composite
    def adaptive_composite(self: Tensor, output_size: Ints) -> Tensor:
        _check_adaptive(name, self.meta, output_size, dims)
        if not all(is_true(n == 1) for n in output_size):
            result = page(self, output_size)
            assert isinstance(result, Tensor)
            return result
        mean = self.mean(list(range(-1, -dims - 1, -1)), True)
        if self.meta.suggested_format is not order:
            return mean
        batch, channels = mean.shape[:2]
        return mean.as_strided_([batch, channels, *[1] * dims], [channels, 1, *[channels] * dims])

    return public


adaptive_avg_pool2d = _mean_or_pool(2, _adaptive_avg_pool2d)
adaptive_avg_pool2d.describe(
    "Means over windows, as many as `output_size` says: [N, C, H, W] gives [N, C, *output_size]."
)
adaptive_avg_pool3d = _mean_or_pool(3, _adaptive_avg_pool3d)
adaptive_avg_pool3d.describe(
    "Means over windows, as many as `output_size` says: [N, C, D, H, W] gives [N, C, *output_size]."
)
adaptive_avg_pool3d.autocast(cpu="float32")


def _check_one(name: str, self: Tensor, output_size: Ints) -> None:
    check(
        len(output_size) == 1,
        lambda: f"{name}() argument 'output_size' should contain one int (got {len(output_size)})",
    )
    check_rank_1d(name, self)


adaptive_avg_pool1d = define(
    "aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", tags=[Tag.core]
)
adaptive_avg_pool1d.describe(
    "Means over windows, as many as `output_size` says: [N, C, L] gives [N, C, output_size]."
)


@adaptive_avg_pool1d.composite
def adaptive_avg_pool1d_composite(self: Tensor, output_size: Ints) -> Tensor:
    _check_one("adaptive_avg_pool1d", self, output_size)
    pooled = adaptive_avg_pool2d(self.unsqueeze(-2), [1, output_size[0]])
    assert isinstance(pooled, Tensor)
    return pooled.squeeze(-2)


# --- maxima -----------------------------------------------------------------------------------


def _adaptive_max_pool(dims: int) -> tuple[OperatorPage, OperatorPage]:
    name = f"adaptive_max_pool{dims}d"
    page = define(f"aten::{name}(Tensor self, int[{dims}] output_size) -> (Tensor, Tensor)")
    backward = define(
        f"aten::{name}_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"
    )

    def in_format(self: TensorMeta, shape: tuple[int, ...]) -> TensorMeta:
        return pool_meta(self, shape, dims) if dims == 2 else self.fresh(shape)

    @page.shape
    def adaptive_max_shape(self: TensorMeta, output_size: Ints) -> tuple[TensorMeta, TensorMeta]:
        shape = _check_adaptive(name, self, output_size, dims)
        check_kind(name, self, self.dtype.is_floating_point)
        out = in_format(self, shape)
        return out, out.with_dtype(int64)

    @page.kernel
    def adaptive_max_kernel(xp: ModuleType, self: Array, output_size: Ints) -> tuple[Array, Array]:
        x, space = wide(self), self.shape[-dims:]
        loops = _loops(xp, x, output_size)
        if loops is not None and channels_last_pools.loops_for(xp, x, x, dims):
            boxes = _boxes_within(space, output_size)
            return channels_last_pools.maxima(loops, x, boxes, (1,) * dims)
        size = _equal_windows(space, output_size)
        if size is not None:
            return window_maxima(xp, x, output_size, size, size, (0,) * dims, (1,) * dims)
        found = box_maxima(xp, x, *_boxes(space, output_size), (1,) * dims)
        if found is not None:
            return found
        numbers = xp.arange(prod(space)).reshape(space)
        best = xp.empty((*x.shape[:-dims], *output_size), x.dtype)
        index = xp.empty(best.shape, xp.int64)
        bounds = [_bounds(n, count) for n, count in zip(space, output_size)]
        for at in product(*[range(n) for n in output_size]):
            window = tuple([slice(*b[i]) for b, i in zip(bounds, at)])
            part: Index = (..., *window)
            values = x[part]
            values = values.reshape(*x.shape[:-dims], prod(values.shape[x.ndim - dims :]))
            where = _last_nan_or_first_largest(xp, values)
            largest = xp.take_along_axis(values, where[..., None], -1)[..., 0]
            best = assigned_at(xp, best, (..., *at), largest)
            index = assigned_at(xp, index, (..., *at), numbers[window].reshape(-1)[where])
        return best, index

    page.derivative(self=lambda grad, self, result1: backward(grad, self, result1))
    page.nondifferentiable(1)

    @backward.shape
    def adaptive_max_backward_shape(
        grad_output: TensorMeta, self: TensorMeta, indices: TensorMeta
    ) -> TensorMeta:
        _check_gradient(name, grad_output, self, dims)
        check_kind(f"{name}_backward", grad_output, grad_output.dtype.is_floating_point)
        check(
            indices.dtype is int64,
            lambda: f"{name}_backward(): expected indices of dtype int64, got {indices}",
        )
        check(
            grad_output.shape == indices.shape,
            lambda: (
                f"{name}_backward(): expected indices of the shape of grad_output "
                f"{grad_output}; got {indices}"
            ),
        )
        return in_format(self, self.shape)

    @backward.kernel
    def adaptive_max_backward_kernel(
        xp: ModuleType, grad_output: Array, self: Array, indices: Array
    ) -> Array:
        return scattered(xp, wide(grad_output), indices, self.shape[-dims:])

    backward.linear(grad_output=lambda grad, indices: gathered(grad, indices, dims))
    backward.flat("self")
    return page, backward


def _last_nan_or_first_largest(xp: ModuleType, values: Array) -> Array:
    where: Array = values.argmax(axis=-1)
    nan = values != values
    if data_says(lambda: not nan.any()):
        return where
    last = values.shape[-1] - 1 - nan[..., ::-1].argmax(axis=-1)
    return xp.where(nan.any(axis=-1), last, where)


adaptive_max_pool2d, adaptive_max_pool2d_backward = _adaptive_max_pool(2)
adaptive_max_pool2d.batching(folded)
adaptive_max_pool2d_backward.batching(folded)
describe(
    "adaptive_max_pool2d",
    "Maxima over windows, as many as `output_size` says, and their positions.",
)
adaptive_max_pool3d, adaptive_max_pool3d_backward = _adaptive_max_pool(3)
adaptive_max_pool3d_backward.batching(folded)
describe(
    "adaptive_max_pool3d",
    "Maxima over windows, as many as `output_size` says, and their positions.",
)
adaptive_max_pool3d.autocast(cpu="float32")
adaptive_max_pool3d.batching(folded)

adaptive_max_pool1d = define(
    "aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)"
)
adaptive_max_pool1d.describe(
    "Maxima over windows, as many as `output_size` says, and their positions."
)


@adaptive_max_pool1d.composite
def adaptive_max_pool1d_composite(self: Tensor, output_size: Ints) -> tuple[Tensor, Tensor]:
    _check_one("adaptive_max_pool1d", self, output_size)
    check_filled("adaptive_max_pool1d", "input", self.meta, 1)
    values, indices = adaptive_max_pool2d(self.unsqueeze(-2), [1, output_size[0]])
    return values.squeeze(-2), indices.squeeze(-2)
