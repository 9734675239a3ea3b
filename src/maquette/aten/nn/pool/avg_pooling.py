"""The mean of each window, and its gradient: a window gives its share to all that it covers."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import from_host
from maquette.aten.common.backward_checks import check_gradient_dtype
from maquette.aten.common.batching_forms import folded
from maquette.aten.common.element_types import check_no_halves_on_cpu
from maquette.aten.common.large_arrays import loops_worth
from maquette.aten.nn.conv.sliding_windows import cropped, fold
from maquette.aten.nn.pool import channels_last_pools
from maquette.aten.nn.pool.pool_windows import (
    all_dims,
    check_kind,
    check_pool_input,
    check_rank_1d,
    counted,
    overhang,
    places_of,
    pool_meta,
    pooled_shape,
    reaching,
    window_sums,
)
from maquette.autograd.formulas import naming
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, describe
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]
Steps = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class _Windows(NamedTuple):
    """Which windows the means are taken over, and what their sums are divided by."""

    steps: Steps
    ceil: bool
    include: bool
    divisor: int | None


_PARAMETERS = (
    "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override",
)  # fmt: skip


def _steps(name: str, dims: int, kernel: Ints, stride: Ints, padding: Ints) -> Steps:
    kernel = all_dims(name, "kernel_size", kernel, dims)
    return (
        kernel,
        all_dims(name, "stride", stride, dims) if stride else kernel,
        all_dims(name, "padding", padding, dims),
    )


def _avg_pool(dims: int) -> tuple[OperatorPage, OperatorPage]:
    """`avg_pool<dims>d` and its backward."""
    name = f"avg_pool{dims}d"
    page = define(
        f"aten::{name}(Tensor self, int[{dims}] kernel_size, int[{dims}] stride=[], int[{dims}] "
        f"padding=0, bool ceil_mode=False, bool count_include_pad=True, "
        f"int? divisor_override=None) -> Tensor",
        tags=[Tag.core],
        variants=[Variant.OUT],
    ).exact_out()
    backward = define(
        f"aten::{name}_backward(Tensor grad_output, Tensor self, int[{dims}] kernel_size, "
        f"int[{dims}] stride, int[{dims}] padding, bool ceil_mode, bool count_include_pad, "
        f"int? divisor_override) -> Tensor",
        tags=[Tag.core] if dims == 2 else [],
    )

    def in_format(self: TensorMeta, shape: tuple[int, ...]) -> TensorMeta:
        return pool_meta(self, shape, dims) if dims == 2 else self.fresh(shape)

    def windows(*given: Any) -> _Windows:
        kernel, stride, padding, *rest = given
        return _Windows(_steps(name, dims, kernel, stride, padding), *rest)

    def checked_shape(self: TensorMeta, w: _Windows) -> tuple[int, ...]:
        check(w.divisor != 0, lambda: "divisor must be not zero")
        check_pool_input(name, self, w.steps[0], w.steps[2], (1,) * dims)
        kind = self.dtype
        loop = name if dims == 2 else f"{name}_out_frame"
        check_kind(loop, self, kind.is_floating_point or kind is int64)
        if dims == 3:
            check_no_halves_on_cpu(loop, self)
        return pooled_shape(self, *w.steps, (1,) * dims, w.ceil)

    def counts(space: Ints, places: Ints, w: _Windows) -> list[Array]:
        """For each dimension the numbers whose product the sum of each window is divided by."""
        if w.divisor:
            return [np.full(n, w.divisor if d == 0 else 1) for d, n in enumerate(places)]
        each = zip(space, places, *w.steps, strict=True)
        return [counted(*one, w.include) for one in each]

    def inside(space: Ints, places: Ints, w: _Windows) -> channels_last_pools.Windows:
        return channels_last_pools.windows_of(space, places, *w.steps, (1,) * dims)

    @page.shape
    def avg_pool_shape(self: TensorMeta, *given: Any) -> TensorMeta:
        return in_format(self, checked_shape(self, windows(*given)))

    @page.kernel
    def avg_pool_kernel(xp: ModuleType, self: Array, *given: Any) -> Array:
        w = windows(*given)
        x, space = wide(self), self.shape[-dims:]
        places = places_of(space, (*w.steps, (1,) * dims), w.ceil)
        by = counts(space, places, w)
        loops = channels_last_pools.loops_for(xp, x, x, dims)
        if loops is not None:
            return channels_last_pools.means(loops, x, inside(space, places, w), by)
        loops = loops_worth(xp, x, 50) if 0 not in places else None
        if loops is not None:
            planes = x.reshape(-1, *space)
            means: Array = loops.window_means(planes, *inside(space, places, w), by)
            return means.reshape(*x.shape[:-dims], *places)
        sums = window_sums(xp, x, places, *w.steps)
        if x.dtype.kind == "i":
            return xp.trunc(sums / _divisors(xp, by, sums.dtype)).astype(x.dtype)
        return sums / _divisors(xp, by, x.dtype)

    @page.linear("self")
    @naming("grad", "self", *_PARAMETERS)
    def avg_pool_gradient(grad: Tensor, self: Tensor, *given: Any) -> tuple[object]:
        return (backward(grad, self, *given),)

    @backward.shape
    def avg_pool_backward_shape(
        grad_output: TensorMeta, self: TensorMeta, *given: Any
    ) -> TensorMeta:
        shape = checked_shape(self, windows(*given))
        check(
            expect_alike(grad_output.shape, shape),
            lambda: (
                f"{name}_backward: expected grad_output of shape {list(shape)}, got {grad_output}"
            ),
        )
        check_gradient_dtype(f"{name}_backward", grad_output, self)
        return in_format(self, self.shape)

    @backward.kernel
    def avg_pool_backward_kernel(
        xp: ModuleType, grad_output: Array, self: Array, *given: Any
    ) -> Array:
        w = windows(*given)
        kernel, stride, padding = w.steps
        space, places = self.shape[-dims:], grad_output.shape[-dims:]
        kernel = reaching(space, kernel, padding)
        shares, by = wide(grad_output), counts(space, places, w)
        loops = channels_last_pools.loops_for(xp, shares, self, dims)
        if loops is not None:
            return channels_last_pools.shares(loops, shares, inside(space, places, w), by, space)
        loops = loops_worth(xp, shares, 100) if 0 not in places else None
        if loops is not None:
            planes = shares.reshape(-1, *places)
            back: Array = loops.window_shares(planes, *inside(space, places, w), by, space)
            return back.reshape(self.shape)
        shares = shares / _divisors(xp, by, shares.dtype)
        spread = shares.reshape(*shares.shape[:-dims], *[1] * dims, *places)
        columns = xp.broadcast_to(spread, (*shares.shape[:-dims], *kernel, *places))
        behind = overhang(space, places, kernel, stride, padding, (1,) * dims)
        around = [p + n + max(b, 0) for p, n, b in zip(padding, space, behind)]
        return cropped(fold(xp, columns, around, stride, (1,) * dims), padding, space)

    @backward.linear("grad_output")
    @naming("grad", *_PARAMETERS)
    def avg_pool_second_gradient(grad: Tensor, *given: Any) -> tuple[object]:
        return (page(grad, *given),)

    backward.flat("self")
    return page, backward


def _divisors(xp: ModuleType, by: Sequence[Array], kind: Any) -> Array:
    """The products of numbers for each dimension, in a type: one for each place."""
    product: Array = np.ones((), np.int64)
    for numbers in by:
        product = product[..., None] * numbers
    return from_host(xp, product.astype(kind))


avg_pool2d, avg_pool2d_backward = _avg_pool(2)
avg_pool2d.batching(folded)
avg_pool2d_backward.batching(folded)
describe(
    "avg_pool2d",
    "Means over windows of `kernel_size` of the last two dimensions of [N, C, H, W].",
)
avg_pool3d, avg_pool3d_backward = _avg_pool(3)
avg_pool3d_backward.batching(folded)
describe(
    "avg_pool3d",
    "Means over windows of `kernel_size` of the last three dimensions of [N, C, D, H, W].",
)
avg_pool3d.autocast(cpu="float32")
avg_pool3d.batching(folded)

avg_pool1d = define(
    "aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], "
    "bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
    tags=[Tag.core],
)
avg_pool1d.describe("Means over windows of `kernel_size` of the last dimension of [N, C, L].")


@avg_pool1d.composite
def avg_pool1d_composite(
    self: Tensor, kernel: Ints, stride: Ints, padding: Ints, ceil: bool, include: bool
) -> Tensor:
    stride = stride or kernel
    check_rank_1d("avg_pool1d", self)
    check(
        len(kernel) == len(stride) == len(padding) == 1,
        lambda: (
            f"avg_pool1d() arguments 'kernel_size', 'stride' and 'padding' should contain one "
            f"int; got {list(kernel)}, {list(stride)}, {list(padding)}"
        ),
    )
    pooled = avg_pool2d(
        self.unsqueeze(-2), [1, *kernel], [1, *stride], [0, *padding], ceil, include
    )
    assert isinstance(pooled, Tensor)
    return pooled.squeeze(-2)
