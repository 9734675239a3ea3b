"""Grids of sampling points: `affine_grid_generator`, which `grid_sampler` takes the points of."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.aten.common.operators import aten
from maquette.core.errors import check
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

_OPTIONS = "SymInt[] size, bool align_corners"
affine_grid_generator = define(f"aten::affine_grid_generator(Tensor theta, {_OPTIONS}) -> Tensor")
affine_grid_generator.describe(
    "The points that affine maps `theta` take a grid of `size` to: [N, H, W, 2] or [N, D, H, W, 3]."
)
affine_grid_generator_backward = define(
    f"aten::affine_grid_generator_backward(Tensor grad, {_OPTIONS}) -> Tensor"
)


@affine_grid_generator.explicit
def affine_grid_generator_explicit(
    theta: Tensor, size: Sequence[int], align_corners: bool
) -> Tensor:
    """theta: (batch, n, n + 1), for n dimensions of space; size: (batch, channels, *space)."""
    rows = _points(theta, size, align_corners)
    grid: Tensor = rows.bmm(theta.transpose(1, 2)).view((size[0], *size[2:], len(size) - 2))
    return grid


@affine_grid_generator_backward.composite
def affine_grid_generator_backward_composite(
    grad: Tensor, size: Sequence[int], align_corners: bool
) -> Tensor:
    n = len(size) - 2
    rows = _points(grad, size, align_corners)
    slope: Tensor = rows.transpose(1, 2).bmm(grad.reshape((size[0], -1, n))).transpose(1, 2)
    return slope


affine_grid_generator.linear(
    theta=lambda grad, size, align_corners: affine_grid_generator_backward(
        grad, size, align_corners
    )
)


def _points(like: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """(batch, points, n + 1): for each point of the output (x, y, z, 1), in [-1, 1]."""
    check(
        len(size) in (4, 5),
        lambda: (
            f"AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs; got size "
            f"{list(size)}"
        ),
    )
    n = len(size) - 2
    axes = [_centers(steps, like, align_corners) for steps in size[2:]]
    # The last dimension of space comes first: x, y, z.
    points = [axis.reshape(_along(i, n)).expand(size[2:]) for i, axis in enumerate(axes)]
    base = aten.stack([*points[::-1], aten.ones_like(points[0])], -1)
    rows: Tensor = base.reshape((1, -1, n + 1) if base.meta.numel else (1, 0, n + 1))
    return rows.expand((size[0], -1, -1))


def _centers(steps: int, like: Tensor, align_corners: bool) -> Tensor:
    """Where the elements of a dimension are, in [-1, 1]: its ends are centers, or borders."""
    if steps <= 1:
        found: Tensor = aten.zeros((steps,), dtype=like.dtype, device=like.device)
        return found
    ends: Tensor = aten.linspace(-1, 1, steps, dtype=like.dtype, device=like.device)
    return ends if align_corners else ends * ((steps - 1) / steps)


def _along(place: int, count: int) -> list[int]:
    """A shape with all elements along one of `count` dimensions."""
    return [-1 if i == place else 1 for i in range(count)]
