"""Sampling of images and volumes at the points of a grid, and the gradients in both.

A grid holds coordinates from -1 to 1, the last dimension of space first. Each point takes some
corners (1, 2 or 4 a dimension) with weights; what lies outside counts as zero, as the border, or as
reflected. Gradients run along the same corners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import added_to, combined_at
from maquette.aten.common.batching_forms import folded
from maquette.aten.common.channels_last import with_channels_last
from maquette.aten.common.large_arrays import LARGE
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.backend import backend_for
from maquette.tensor.tensor import Tensor

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
_MOST = 1 << 31  # loops count places in 32 bits
_BEND = -0.75  # of the cubic, as in upsampling


def _check_grid(input: TensorMeta, grid: TensorMeta, interpolation: int, dims: int) -> None:
    check(
        input.ndim == dims + 2 and grid.ndim == dims + 2,
        lambda: (
            f"grid_sampler(): expected {dims + 2}D input and grid with same number of dimensions, "
            f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        ),
    )
    check(
        input.dtype is grid.dtype and input.dtype.is_floating_point,
        lambda: (
            f"grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype.name} and grid has {grid.dtype.name}"
        ),
    )
    check(
        input.shape[0] == grid.shape[0],
        lambda: (
            f"grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        ),
    )
    check(
        grid.shape[-1] == dims,
        lambda: (
            f"grid_sampler(): expected grid to have size {dims} in last dimension, but got grid "
            f"with sizes {list(grid.shape)}"
        ),
    )
    check(
        not any(is_true(n == 0) for n in input.shape[2:]),
        lambda: (
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)}"
        ),
    )
    check(
        interpolation in (LINEAR, NEAREST) or (interpolation == CUBIC and dims == 2),
        lambda: "grid_sampler(): bicubic interpolation only supports 4D input",
    )


# --- coordinates ------------------------------------------------------------------------------


def _unnormalized(coordinate: Array, size: int, align_corners: bool) -> tuple[Array, float]:
    """The coordinate in elements, and how fast it moves with the grid's.

    In the grid's own type, halves too: where a point falls is decided as PyTorch decides it.
    """
    kind = coordinate.dtype.type
    if align_corners:
        return (coordinate + kind(1)) * kind((size - 1) / 2), (size - 1) / 2
    return (coordinate + kind(1)) * kind(size / 2) - kind(0.5), size / 2


def _kept_inside(
    xp: ModuleType, x: Array, size: int, padding: int, align_corners: bool
) -> tuple[Array, Array]:
    """The coordinate after padding, and its slope: 0 beyond the border, -1 where reflected."""
    slope = xp.ones_like(x)
    if padding == ZEROS:
        return x, slope
    if padding == REFLECTION:
        low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        x, slope = _reflected(xp, x, low, span)
    inside = (x > 0) & (x < size - 1)
    kind = x.dtype.type
    kept = xp.minimum(xp.where(x > 0, x, kind(0)), kind(size - 1))  # NaN lies at 0, as in PyTorch
    return kept, slope * inside.astype(x.dtype)


def _reflected(xp: ModuleType, x: Array, lowest: float, width: float) -> tuple[Array, Array]:
    if width == 0:
        return xp.zeros_like(x), xp.zeros_like(x)
    kind = x.dtype.type
    low, span = kind(lowest), kind(width)
    away = xp.abs(x - low)
    flips = xp.floor(away / span)
    rest = away - flips * span
    half = flips * kind(0.5)
    even, sign = half == xp.floor(half), xp.where(x < low, kind(-1), kind(1))
    return xp.where(even, rest + low, span - rest + low), xp.where(even, sign, -sign)


class Axis:
    """One dimension of all points: the corners on it, their weights and the weights' slopes."""

    def __init__(
        self,
        xp: ModuleType,
        coordinate: Array,
        size: int,
        interpolation: int,
        padding: int,
        align_corners: bool,
    ) -> None:
        self.xp, self.size = xp, size
        x, speed = _unnormalized(coordinate, size, align_corners)
        if interpolation == CUBIC:
            self.corners = self._cubic(x, speed, padding, align_corners)
            return
        x, slope = _kept_inside(xp, x, size, padding, align_corners)
        slope = slope * x.dtype.type(speed)
        if interpolation == NEAREST:
            self.corners = [(xp.rint(x), xp.ones_like(x), xp.zeros_like(x))]
            return
        left = xp.floor(x)
        share, one = x - left, x.dtype.type(1)
        self.corners = [(left, one - share, -slope), (left + one, share, slope)]

    def _cubic(
        self, x: Array, speed: float, padding: int, align_corners: bool
    ) -> list[tuple[Array, Array, Array]]:
        left = self.xp.floor(x)
        share, kind = x - left, x.dtype.type
        self._share, self._speed = share, speed
        corners = []
        for i, (weight, slope) in enumerate(_cubic_weights(share), -1):
            at, _ = _kept_inside(self.xp, left + kind(i), self.size, padding, align_corners)
            corners.append((self.xp.rint(at), weight, slope * kind(speed)))
        return corners

    def placed(self) -> list[tuple[Array, Array, Array, Array]]:
        """For each corner: its index, held within bounds, whether it lies inside, weight, slope.

        The weight of a corner outside is 0, also where the coordinate is NaN or infinite.
        """
        where, found = self.xp.where, []
        for at, weight, slope in self.corners:
            inside = (at >= 0) & (at < self.size)
            index = where(inside, at, 0).astype(self.xp.int64)
            none = at.dtype.type(0)
            found.append((index, inside, where(inside, weight, none), where(inside, slope, none)))
        return found

    def curvatures(self) -> list[Array]:
        """For each corner the derivative of its slope: only the cubic's is not 0."""
        if len(self.corners) < 4:
            return [self.xp.zeros_like(slope) for _, _, slope in self.corners]
        kind = self._share.dtype.type
        return [bend * kind(self._speed**2) for bend in _cubic_curvatures(self._share)]


def _cubic_curvatures(t: Array) -> list[Array]:
    """The second derivatives of the four weights of cubic convolution."""
    kind = t.dtype.type
    one, two = kind(1), kind(2)
    outer = [kind(6 * _BEND) * x - kind(10 * _BEND) for x in (t + one, two - t)]
    inner = [kind(6 * (_BEND + 2)) * x - kind(2 * (_BEND + 3)) for x in (t, one - t)]
    return [outer[0], *inner, outer[1]]


def _cubic_weights(t: Array) -> list[tuple[Array, Array]]:
    """The four weights of cubic convolution and their derivatives, `t` beyond the second."""
    kind = t.dtype.type
    one, two = kind(1), kind(2)
    a, a2, a3 = kind(_BEND), kind(_BEND + 2), kind(_BEND + 3)
    a4, a5, a8 = kind(4 * _BEND), kind(5 * _BEND), kind(8 * _BEND)
    weights: list[tuple[Array, Array]] = []
    for x, sign in ((t + one, one), (t, one), (one - t, -one), (two - t, -one)):
        if len(weights) in (1, 2):
            value = (a2 * x - a3) * x * x + one
            slope = (kind(3) * a2 * x - two * a3) * x
        else:
            value = ((a * x - a5) * x + a8) * x - a4
            slope = (kind(3) * a * x - two * a5) * x + a8
        weights.append((value, sign * slope))
    return weights


Corner = tuple[Array, Array, Array, Sequence[Array]]


def _corners(
    xp: ModuleType,
    grid: Array,
    space: Sequence[int],
    interpolation: int,
    padding: int,
    align_corners: bool,
) -> Iterator[Corner]:
    """Every corner of all points: flat index, whether inside, weight, its slopes by dimensions."""
    dims = len(space)
    points = grid.reshape(grid.shape[0], prod(grid.shape[1:-1]), dims)
    axes = [
        Axis(xp, points[..., dims - 1 - d], n, interpolation, padding, align_corners).placed()
        for d, n in enumerate(space)
    ]
    for choice in product(*axes):
        index = inside = None
        for (at, within, _, _), n in zip(choice, space):
            index = at if index is None else index * n + at
            inside = within if inside is None else inside & within
        if index is not None and inside is not None:
            weights, slopes = [wide(c[2]) for c in choice], [wide(c[3]) for c in choice]
            bent = [product_of([*weights[:d], slopes[d], *weights[d + 1 :]]) for d in range(dims)]
            yield index, inside, product_of(weights), bent


def product_of(factors: Sequence[Array]) -> Array:
    """The product of at least one array."""
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def gathered(xp: ModuleType, flat: Array, index: Array, inside: Array) -> Array:
    """Values (batch, channels, points) at flat indices; zero outside."""
    where = xp.broadcast_to(index[:, None], (*flat.shape[:2], index.shape[1]))
    return xp.where(inside[:, None], xp.take_along_axis(flat, where, 2), 0)


def _loops_for(xp: ModuleType, x: Array, grid: Array) -> ModuleType | None:
    """The compiled loops, where they are worth it for the corners of all values."""
    if xp is not np or x.dtype.char not in "fd" or grid.dtype != x.dtype or not grid.size:
        return None
    if prod(x.shape[2:]) >= _MOST:
        return None
    count = prod(x.shape[:2]) * prod(grid.shape[1:-1]) << grid.shape[-1]
    backend = backend_for(xp)
    return backend.loops if count >= LARGE else backend.loops_if_worth(100)


def _points(grid: Array) -> Array:
    """A grid as a row-major [batch, points, dims]."""
    return np.ascontiguousarray(grid).reshape(len(grid), -1, grid.shape[-1])


# --- pages ------------------------------------------------------------------------------------


def _grid_sampler(dims: int) -> tuple[OperatorPage, OperatorPage]:
    name = f"grid_sampler_{dims}d"
    parameters = "int interpolation_mode, int padding_mode, bool align_corners"
    page = define(
        f"aten::{name}(Tensor input, Tensor grid, {parameters}) -> Tensor",
        tags=[Tag.core] if dims == 2 else [],
    )
    backward = define(
        f"aten::{name}_backward(Tensor grad_output, Tensor input, Tensor grid, {parameters}, "
        f"bool[2] output_mask) -> (Tensor, Tensor)"
    )

    @page.shape
    def grid_sampler_shape(
        input: TensorMeta, grid: TensorMeta, interpolation: int, padding: int, align: bool
    ) -> TensorMeta:
        _check_grid(input, grid, interpolation, dims)
        return input.fresh((*input.shape[:2], *grid.shape[1:-1]))

    @page.kernel
    def grid_sampler_kernel(
        xp: ModuleType, input: Array, grid: Array, interpolation: int, padding: int, align: bool
    ) -> Array:
        x, space = wide(input), input.shape[2:]
        options = (interpolation, padding, align)
        loops = _loops_for(xp, x, grid)
        if loops is not None:
            turned = with_channels_last(x)
            rows = np.ascontiguousarray(x) if turned is None else turned
            found: Array = loops.sampled(rows, _points(grid), *options, last=turned is not None)
            return found.reshape(*x.shape[:2], *grid.shape[1:-1])
        flat = x.reshape(*x.shape[:2], prod(space))
        out = xp.zeros((*x.shape[:2], prod(grid.shape[1:-1])), x.dtype)
        for index, inside, weight, _ in _corners(xp, grid, space, *options):
            out += gathered(xp, flat, index, inside) * weight[:, None]
        return out.reshape(*x.shape[:2], *grid.shape[1:-1])

    @page.derivative("input", "grid")
    def grid_sampler_gradients(
        grad: Tensor,
        input: Tensor,
        grid: Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
        needs: list[bool],
    ) -> object:
        return backward(grad, input, grid, interpolation_mode, padding_mode, align_corners, needs)

    @backward.shape
    def grid_sampler_backward_shape(
        grad_output: TensorMeta,
        input: TensorMeta,
        grid: TensorMeta,
        interpolation: int,
        padding: int,
        align: bool,
        output_mask: tuple[bool, ...],
    ) -> tuple[TensorMeta | None, TensorMeta]:
        expected = grid_sampler_shape(input, grid, interpolation, padding, align)
        check(
            grad_output.shape == expected.shape,
            lambda: (
                f"{name}_backward: expected grad_output of shape {list(expected.shape)}, got "
                f"{grad_output}"
            ),
        )
        check(
            grad_output.dtype is input.dtype,
            lambda: (
                f"{name}_backward: expected scalar type {input.dtype.scalar_name} but found "
                f"{grad_output.dtype.scalar_name} for grad_output"
            ),
        )
        by_input = input.fresh(input.shape) if output_mask[0] else None
        return by_input, grid.fresh(grid.shape)

    @backward.kernel
    def grid_sampler_backward_kernel(
        xp: ModuleType,
        grad_output: Array,
        input: Array,
        grid: Array,
        interpolation: int,
        padding: int,
        align: bool,
        output_mask: tuple[bool, ...],
    ) -> tuple[Array | None, Array]:
        x, space = wide(input), input.shape[2:]
        g = wide(grad_output).reshape(*x.shape[:2], prod(grid.shape[1:-1]))
        loops, options = _loops_for(xp, x, grid), (interpolation, padding, align)
        if loops is not None:
            by_image, by_points = loops.sampled_back(
                np.ascontiguousarray(x),
                np.ascontiguousarray(g),
                _points(grid),
                *options,
                of_x=output_mask[0],
            )
            return by_image, by_points.reshape(grid.shape)
        flat = x.reshape(*x.shape[:2], prod(space))
        by_input = xp.zeros(flat.size, x.dtype)
        by_grid = xp.zeros((grid.shape[0], g.shape[2], dims), x.dtype)
        planes = xp.arange(prod(x.shape[:2])).reshape(*x.shape[:2], 1) * flat.shape[2]
        for index, inside, weight, slopes in _corners(xp, grid, space, *options):
            if output_mask[0]:
                at = (planes + index[:, None]).reshape(-1)
                shares = (g * (weight * inside)[:, None]).reshape(-1)
                by_input = combined_at(xp, "add", by_input, at, shares)
            if interpolation == NEAREST:  # the grid has no slope, whatever the gradient is
                continue
            pull = (gathered(xp, flat, index, inside) * g).sum(axis=1)
            for d in range(dims):
                by_grid = added_to(xp, by_grid, (..., dims - 1 - d), pull * slopes[d])
        return (
            by_input.reshape(input.shape) if output_mask[0] else None,
            by_grid.reshape(grid.shape),
        )

    return page, backward


grid_sampler_2d, grid_sampler_2d_backward = _grid_sampler(2)
grid_sampler_2d_backward.batching(folded)
describe(
    "grid_sampler_2d",
    "The values of images [N, C, H, W] at the points of `grid`, interpolated.",
)
grid_sampler_2d.autocast(cpu="float32")
grid_sampler_2d.batching(folded)
grid_sampler_3d, grid_sampler_3d_backward = _grid_sampler(3)
grid_sampler_3d_backward.batching(folded)
describe(
    "grid_sampler_3d",
    "The values of volumes [N, C, D, H, W] at the points of `grid`, interpolated.",
)
grid_sampler_3d.autocast(cpu="float32")
grid_sampler_3d.batching(folded)


def _tangent(page: OperatorPage, backward: OperatorPage) -> None:
    """State the tangent: linear in the input; by the grid, each channel has its own slope."""

    @page.tangent
    def grid_sampler_tangent(
        input: Tensor,
        input_t: Tensor,
        grid: Tensor,
        grid_t: Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
    ) -> Tensor:
        options = (interpolation_mode, padding_mode, align_corners)
        moved = page(input_t, grid, *options)
        n, c = moved.shape[:2]
        each = grid.unsqueeze(1).expand(n, c, *grid.shape[1:]).flatten(0, 1)
        images = input.flatten(0, 1).unsqueeze(1)
        ones = moved.new_ones((n * c, 1, *moved.shape[2:]))
        slope = backward(ones, images, each, *options, [False, True])[1].unflatten(0, (n, c))
        by_grid: Tensor = (slope * grid_t.unsqueeze(1)).sum(-1)
        return moved + by_grid


_SAMPLING = "int interpolation_mode, int padding_mode, bool align_corners"
_fallback = define(
    f"aten::_grid_sampler_2d_cpu_fallback(Tensor input, Tensor grid, {_SAMPLING}) -> Tensor"
)
_fallback.composite(lambda input, grid, *options: grid_sampler_2d(input, grid, *options))
_fallback.autocast(cpu="float32")
define(
    "aten::_grid_sampler_2d_cpu_fallback_backward(Tensor grad_output, Tensor input, Tensor grid, "
    f"{_SAMPLING}) -> (Tensor, Tensor)"
).composite(
    lambda grad_output, input, grid, *options: grid_sampler_2d_backward(
        grad_output, input, grid, *options, [True, True]
    )
)

_tangent(grid_sampler_2d, grid_sampler_2d_backward)
_tangent(grid_sampler_3d, grid_sampler_3d_backward)

grid_sampler = define(
    "aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor"
)
grid_sampler.describe(
    "The values of images `input` at the points of `grid`, interpolated: [N, C, ...]."
)
grid_sampler.autocast(cpu="float32", cuda="promote")


@grid_sampler.composite
def grid_sampler_composite(
    input: Tensor, grid: Tensor, interpolation: int, padding: int, align: bool
) -> object:
    check(
        grid.ndim > 0 and input.ndim > 2 and grid.shape[-1] == input.ndim - 2,
        lambda: (
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but "
            f"got grid with sizes {list(grid.shape)}"
        ),
    )
    check(
        input.ndim in (4, 5) and input.ndim == grid.ndim,
        lambda: (
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        ),
    )
    page = grid_sampler_2d if input.ndim == 4 else grid_sampler_3d
    return page(input, grid, interpolation, padding, align)
