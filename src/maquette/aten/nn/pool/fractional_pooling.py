"""Maxima of windows that begin at random, but evenly: Graham, Fractional Max-Pooling (2014).

Every plane has windows of its own; where they begin follows from one random number a dimension,
given as an argument, so the operator itself is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import assigned_at
from maquette.aten.common.batching_forms import folded
from maquette.aten.nn.pool.adaptive_pooling import check_filled
from maquette.aten.nn.pool.max_pooling import gathered
from maquette.aten.nn.pool.pool_windows import box_maxima, check_kind, lowest, scattered
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike, expect_true
from maquette.library.page import OperatorPage, define, describe

Ints = Sequence[int]


def _check_fractional(
    name: str, self: TensorMeta, kernel: Ints, output_size: Ints, dims: int
) -> None:
    for what, given in (("kernel_size", kernel), ("output_size", output_size)):
        check(
            len(given) == dims,
            lambda what=what, given=given: (
                f"{name}: {what} must either be a single int or {dims} of them; got {list(given)}"
            ),
        )
    check(
        self.ndim in (dims + 1, dims + 2),
        lambda: f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, got {list(self.shape)}",
    )
    check_filled(name, "input", self, 1)
    check_kind(name, self, self.dtype.is_floating_point)
    sizes = list(zip(self.shape[-dims:], kernel, output_size))
    spare = 1 if dims == 3 else 0  # PyTorch asks a volume for one place more
    for what, (n, k, out) in zip(("time", "height", "width")[-dims:], sizes):
        check(
            expect_true(out + k - 1 + spare <= n),
            lambda what=what, n=n, k=k, out=out: (
                f"{name}(): pool {what} {k} too large relative to input {what} {n} for output "
                f"{what} {out}"
            ),
        )


def _starts(xp: ModuleType, samples: Array, size: int, out: int, kernel: int) -> Array:
    """Where the windows of each plane begin: (*planes, windows)."""
    if out <= 1:
        return xp.full((*samples.shape, out), size - kernel, xp.int64)
    step = samples.dtype.type(size - kernel) / samples.dtype.type(out - 1)
    numbers = xp.arange(out, dtype=samples.dtype) + samples[..., None]
    starts: Array = (numbers * step).astype(xp.int64) - (samples * step).astype(xp.int64)[..., None]
    return assigned_at(xp, starts, (..., -1), size - kernel)


def _fractional_max_pool(dims: int) -> tuple[OperatorPage, OperatorPage]:
    name = f"fractional_max_pool{dims}d"
    page = define(
        f"aten::{name}(Tensor self, int[{dims}] kernel_size, int[{dims}] output_size, "
        f"Tensor random_samples) -> (Tensor, Tensor)"
    )
    backward = define(
        f"aten::{name}_backward(Tensor grad_output, Tensor self, int[{dims}] kernel_size, "
        f"int[{dims}] output_size, Tensor indices) -> Tensor"
    )

    @page.shape
    def fractional_shape(
        self: TensorMeta, kernel: Ints, output_size: Ints, random_samples: TensorMeta
    ) -> tuple[TensorMeta, TensorMeta]:
        _check_fractional(name, self, kernel, output_size, dims)
        batch = self.shape[0] if self.ndim == dims + 2 else 1
        wanted = (batch, self.shape[-dims - 1], dims)
        check(
            random_samples.dtype is self.dtype
            and expect_alike(random_samples.shape[1:], wanted[1:])
            and expect_true(random_samples.shape[0] >= batch),
            lambda: (
                f"{name}: Expect _random_samples of shape {list(wanted)} (or more rows) and the "
                f"dtype of the input {self}; got {random_samples}"
            ),
        )
        out = self.fresh((*self.shape[:-dims], *output_size))
        return out, out.with_dtype(int64)

    @page.kernel
    def fractional_kernel(
        xp: ModuleType, self: Array, kernel: Ints, output_size: Ints, random_samples: Array
    ) -> tuple[Array, Array]:
        x, space = wide(self), self.shape[-dims:]
        planes = x.reshape(prod(x.shape[:-dims]), *space)
        samples = wide(random_samples).reshape(-1, dims)[: len(planes)]
        # PyTorch's order of the numbers: width, height in two dimensions; depth first in three.
        order = (1, 0) if dims == 2 else (0, 1, 2)
        starts = [
            _starts(xp, samples[:, order[d]], space[d], output_size[d], kernel[d])
            for d in range(dims)
        ]
        best, index = _window_maxima(xp, planes, starts, kernel)
        shape = (*x.shape[:-dims], *output_size)
        return best.reshape(shape), index.reshape(shape)

    page.derivative(
        self=lambda grad, self, kernel_size, output_size, result1: backward(
            grad, self, kernel_size, output_size, result1
        )
    )
    page.nondifferentiable(1)

    @backward.shape
    def fractional_backward_shape(
        grad_output: TensorMeta,
        self: TensorMeta,
        kernel: Ints,
        output_size: Ints,
        indices: TensorMeta,
    ) -> TensorMeta:
        _check_fractional(f"{name}_backward", self, kernel, output_size, dims)
        expected = (*self.shape[:-dims], *output_size)
        check(
            expect_alike(grad_output.shape, expected) and expect_alike(indices.shape, expected),
            lambda: (
                f"{name}_backward(): expected grad_output and indices of shape {list(expected)}, "
                f"got {grad_output} and {indices}"
            ),
        )
        check(
            indices.dtype is int64 and grad_output.dtype.is_floating_point,
            lambda: (
                f"{name}_backward(): expected a floating point grad_output and indices of dtype "
                f"int64, got {grad_output} and {indices}"
            ),
        )
        return self.fresh(self.shape)

    @backward.kernel
    def fractional_backward_kernel(
        xp: ModuleType,
        grad_output: Array,
        self: Array,
        kernel: Ints,
        output_size: Ints,
        indices: Array,
    ) -> Array:
        return scattered(xp, wide(grad_output), indices, self.shape[-dims:])

    backward.linear(grad_output=lambda grad, indices: gathered(grad, indices, dims))
    backward.flat("self")
    return page, backward


def _window_maxima(
    xp: ModuleType, planes: Array, starts: Sequence[Array], kernel: Ints
) -> tuple[Array, Array]:
    """The largest of each window and its flat index, for windows that differ between planes."""
    dims, space = len(kernel), planes.shape[1:]
    count = len(planes)
    if xp is np:
        counts = [np.full(s.shape[1], k) for s, k in zip(starts, kernel)]
        found = box_maxima(xp, planes, starts, counts, (1,) * dims)
        if found is not None:
            return found
    flat = planes.reshape(count, prod(space))
    places = [starts[d].shape[1] for d in range(dims)]
    best = xp.full((count, *places), lowest(xp, planes), planes.dtype)
    index = xp.zeros(best.shape, xp.int64)
    for at in product(*map(range, kernel)):
        here = xp.zeros((count, *[1] * dims), xp.int64)
        for d in range(dims):
            shape = [count, *[places[e] if e == d else 1 for e in range(dims)]]
            here = here * space[d] + (starts[d] + at[d]).reshape(shape)
        values = xp.take_along_axis(flat, here.reshape(count, prod(places)), 1).reshape(best.shape)
        better = (values > best) | (values != values)
        if not any(at):
            index = here  # where even the first element is -inf, it counts as the largest
        best, index = xp.where(better, values, best), xp.where(better, here, index)
    return best, index


fractional_max_pool2d, fractional_max_pool2d_backward = _fractional_max_pool(2)
fractional_max_pool2d_backward.batching(folded)
describe(
    "fractional_max_pool2d",
    "Maxima over windows at random places, and their positions: [N, C, *output_size].",
)
fractional_max_pool2d.autocast(cpu="float32")
fractional_max_pool2d.batching(folded)
fractional_max_pool3d, fractional_max_pool3d_backward = _fractional_max_pool(3)
fractional_max_pool3d_backward.batching(folded)
describe(
    "fractional_max_pool3d",
    "Maxima over windows at random places, and their positions: [N, C, *output_size].",
)
fractional_max_pool3d.autocast(cpu="float32")
fractional_max_pool3d.batching(folded)
