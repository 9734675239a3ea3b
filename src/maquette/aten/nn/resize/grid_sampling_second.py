"""Gradients of the gradients of `grid_sampler_2d` and `grid_sampler_3d`.

`grid_sampler_2d_backward` is linear in ``grad_output`` and in ``input``; in ``grid`` its corners
have weights, slopes and, if cubic, curvatures. One operator gives all three gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import added_to, combined_at
from maquette.aten.common.batching_forms import folded
from maquette.aten.nn.resize.grid_sampling import (
    Axis,
    gathered,
    grid_sampler_2d_backward,
    grid_sampler_3d_backward,
    product_of,
)
from maquette.core.meta import TensorMeta
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor

Factors = list[tuple[Array, Array, Array]]


def _corners(
    xp: ModuleType, grid: Array, space: Sequence[int], modes: tuple[int, int, bool]
) -> Iterator[tuple[Array, Array, Factors]]:
    """Every corner of all points: flat index, whether inside, per dimension weight and slopes."""
    dims = len(space)
    points = grid.reshape(grid.shape[0], prod(grid.shape[1:-1]), dims)
    axes = []
    for d, n in enumerate(space):
        axis = Axis(xp, points[..., dims - 1 - d], n, *modes)
        axes.append(list(zip(axis.placed(), axis.curvatures(), strict=True)))
    for choice in product(*axes):
        index, inside = xp.zeros(points.shape[:2], xp.int64), xp.ones(points.shape[:2], bool)
        factors: Factors = []
        for ((at, within, weight, slope), curvature), n in zip(choice, space, strict=True):
            index, inside = index * n + at, inside & within
            bend = xp.where(within, curvature, curvature.dtype.type(0))
            factors.append((wide(weight), wide(slope), wide(bend)))
        yield index, inside, factors


def _derived(factors: Factors, *along: int) -> Array:
    """The corner's whole weight, differentiated once by each of the dimensions given."""
    return product_of([orders[along.count(d)] for d, orders in enumerate(factors)])


def _second(dims: int, backward: OperatorPage) -> OperatorPage:
    parameters = "int interpolation_mode, int padding_mode, bool align_corners"
    page = define(
        f"maquette::grid_sampler_{dims}d_second(Tensor by_input, Tensor by_grid, "
        f"Tensor grad_output, Tensor input, Tensor grid, {parameters}) -> (Tensor, Tensor, Tensor)"
    )

    @page.shape
    def grid_sampler_second_shape(
        by_input: TensorMeta,
        by_grid: TensorMeta,
        grad_output: TensorMeta,
        input: TensorMeta,
        grid: TensorMeta,
        interpolation: int,
        padding: int,
        align: bool,
    ) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
        return (
            grad_output.fresh(grad_output.shape),
            input.fresh(input.shape),
            grid.fresh(grid.shape),
        )

    @page.kernel
    def grid_sampler_second_kernel(
        xp: ModuleType,
        by_input: Array,
        by_grid: Array,
        grad_output: Array,
        input: Array,
        grid: Array,
        interpolation: int,
        padding: int,
        align: bool,
    ) -> tuple[Array, Array, Array]:
        planes, space = input.shape[:2], input.shape[2:]
        x, v = (wide(t).reshape(*planes, prod(space)) for t in (input, by_input))
        g = wide(grad_output).reshape(*planes, prod(grid.shape[1:-1]))
        u = wide(by_grid).reshape(grid.shape[0], g.shape[2], dims)
        to_output, to_input = xp.zeros_like(g), xp.zeros(x.size, x.dtype)
        to_grid = xp.zeros_like(u)
        none = xp.zeros(g.shape[::2], g.dtype)
        starts = xp.arange(prod(planes)).reshape(*planes, 1) * x.shape[2]
        for index, inside, factors in _corners(xp, grid, space, (interpolation, padding, align)):
            moves = [u[..., dims - 1 - d] for d in range(dims)]
            shift = sum((moves[d] * _derived(factors, d) for d in range(dims)), none)
            values, others = gathered(xp, x, index, inside), gathered(xp, v, index, inside)
            to_output = to_output + values * shift[:, None] + others * _derived(factors)[:, None]
            at = (starts + index[:, None]).reshape(-1)
            shares = (g * (shift * inside)[:, None]).reshape(-1)
            to_input = combined_at(xp, "add", to_input, at, shares)
            by_values, by_others = (g * values).sum(axis=1), (g * others).sum(axis=1)
            for d in range(dims):
                turn = sum((moves[e] * _derived(factors, d, e) for e in range(dims)), none)
                pull = by_others * _derived(factors, d) + by_values * turn
                to_grid = added_to(xp, to_grid, (..., dims - 1 - d), pull)
        return (
            to_output.reshape(grad_output.shape),
            to_input.reshape(input.shape),
            to_grid.reshape(grid.shape),
        )

    @backward.derivative("grad_output", "input", "grid")
    def grid_sampler_backward_gradients(
        grads: list[Tensor | None],
        grad_output: Tensor,
        input: Tensor,
        grid: Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
    ) -> object:
        given = zip(grads, (input, grid), strict=True)
        v, u = [like.new_zeros(like.shape) if t is None else t for t, like in given]
        modes = (interpolation_mode, padding_mode, align_corners)
        return page(v, u, grad_output, input, grid, *modes)

    page.batching(folded)
    return page


grid_sampler_2d_second = _second(2, grid_sampler_2d_backward)
grid_sampler_3d_second = _second(3, grid_sampler_3d_backward)
