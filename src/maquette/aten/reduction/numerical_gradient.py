"""Numerical gradients of samples: central differences inside, one-sided ones at the ends."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.aten.common.formula_helpers import over, times
from maquette.aten.common.operators import aten
from maquette.core.broadcast import wrap_dims
from maquette.core.dtype import uint8
from maquette.core.errors import check
from maquette.core.promotion import Number, promote_types
from maquette.library.advice import check_advised
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

Dims = tuple[int, ...]
Ends = tuple[int, int | None]

_EDGE = "int edge_order=1"
gradient_scalarint = define(
    f"aten::gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, {_EDGE}) "
    f"-> Tensor[]"
)
gradient_scalarint.describe(
    "The derivative along each dimension by central differences: a tensor of the same shape "
    "for each."
)
gradient_scalararray = define(
    f"aten::gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, {_EDGE}) -> Tensor[]"
)
gradient_array = define(f"aten::gradient.array(Tensor self, *, int[] dim, {_EDGE}) -> Tensor[]")
gradient_scalarrayint = define(
    f"aten::gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, {_EDGE}) "
    f"-> Tensor[]"
)
gradient_scalarrayarray = define(
    f"aten::gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, {_EDGE}) "
    f"-> Tensor[]"
)
gradient_tensorarrayint = define(
    f"aten::gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, {_EDGE}) "
    f"-> Tensor[]"
)
gradient_tensorarray = define(
    f"aten::gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, {_EDGE}) -> Tensor[]"
)


def _check(self: Tensor, dims: Dims, spacings: int, edge_order: int) -> Dims:
    """The dimensions from the front, once all is as it should be."""
    check(
        edge_order in (1, 2),
        lambda: f"torch.gradient only supports edge_order=1 and edge_order=2; got {edge_order}",
    )
    check(
        spacings == len(dims),
        lambda: (
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of one "
            f"for each dimension; got {spacings} for {len(dims)} dimensions"
        ),
    )
    check(self.dtype is not uint8, lambda: "torch.gradient does not support uint8 input.")
    wrapped = wrap_dims(dims, self.meta.ndim)
    short = [d for d in wrapped if self.meta.shape[d] < edge_order + 1]
    check_advised(
        check,
        not short,
        lambda: "torch.gradient expected each dimension size to be at least edge_order+1",
        lambda: f"The input is {self.meta}; dimension {short[0]} is too short for {edge_order}.",
    )
    return wrapped


def _all(self: Tensor, dim: int | None) -> Dims:
    return tuple(range(self.meta.ndim)) if dim is None else (dim,)


def _part(t: Tensor, dim: int, start: int, length: int) -> Tensor:
    return t.narrow(dim, start, length)


def _even(self: Tensor, dim: int, step: Number, edge_order: int) -> Tensor:
    """The gradient where samples are ``step`` apart."""
    low = aten.slice(self, dim, 0, -2)
    middle = over(aten.slice(self, dim, 2) - low, step)
    if edge_order == 1:
        first = over(_difference(self, dim, (0, 1), (1, 2)), step)
        last = over(_difference(self, dim, (-2, -1), (-1, None)), step)
    else:
        third = times(aten.slice(self, dim, 2, 3), 0.5)
        second = times(aten.slice(self, dim, 1, 2), 2)
        first = over(times(aten.slice(self, dim, 0, 1), -1.5) + second - third, step)
        third = times(aten.slice(self, dim, -1), 1.5)
        second = times(aten.slice(self, dim, -2, -1), 2)
        last = over(times(aten.slice(self, dim, -3, -2), 0.5) - second + third, step)
    joined: Tensor = aten.cat([first, over(middle, 2), last], dim)
    return joined


def _difference(self: Tensor, dim: int, low: Ends, high: Ends) -> Tensor:
    subtracted = aten.slice(self, dim, *low)
    found: Tensor = aten.slice(self, dim, *high) - subtracted
    return found


def _uneven(self: Tensor, dim: int, points: Tensor, edge_order: int) -> Tensor:
    """The gradient where samples are at ``points``; differences keep the points' precision."""
    size = self.meta.shape[dim]
    self = self.to(promote_types(self.dtype, points.dtype))
    shape = tuple(-1 if d == dim else 1 for d in range(self.meta.ndim))
    steps = (points.narrow(0, 1, size - 1) - points.narrow(0, 0, size - 1)).view(shape)
    slopes = (_part(self, dim, 1, size - 1) - _part(self, dim, 0, size - 1)) / steps
    before, behind = _part(steps, dim, 0, size - 2), _part(steps, dim, 1, size - 2)
    low, high = _part(slopes, dim, 0, size - 2), _part(slopes, dim, 1, size - 2)
    middle = (low * behind + high * before) / (before + behind)
    first, last = _part(slopes, dim, 0, 1), _part(slopes, dim, size - 2, 1)
    if edge_order == 2:
        first = _edge(slopes, steps, dim, 0, 1)
        last = _edge(slopes, steps, dim, size - 2, size - 3)
    joined: Tensor = aten.cat([first, middle, last], dim)
    return joined


def _edge(slopes: Tensor, steps: Tensor, dim: int, outer: int, inner: int) -> Tensor:
    """The slope at an end, from the two outermost slopes, to second order."""
    a, b = _part(steps, dim, outer, 1), _part(steps, dim, inner, 1)
    bend = (_part(slopes, dim, inner, 1) - _part(slopes, dim, outer, 1)) / (a + b)
    return _part(slopes, dim, outer, 1) - bend * a


def _by_steps(self: Tensor, spacing: Sequence[Number], dims: Dims, edge_order: int) -> list[Tensor]:
    wrapped = _check(self, dims, len(spacing), edge_order)
    return [_even(self, d, s, edge_order) for d, s in zip(wrapped, spacing, strict=True)]


def _by_points(
    self: Tensor, spacing: Sequence[Tensor], dims: Dims, edge_order: int
) -> list[Tensor]:
    wrapped = _check(self, dims, len(spacing), edge_order)
    for d, points in zip(wrapped, spacing, strict=True):
        check(
            points.meta.shape == (self.meta.shape[d],),
            lambda: (
                "torch.gradient expected each coordinate tensor to have one coordinate for "
                "each sample of its dimension"
            ),
        )
    return [_uneven(self, d, s, edge_order) for d, s in zip(wrapped, spacing, strict=True)]


def _one_step(
    self: Tensor, spacing: Number | None, dim: int | None, edge_order: int
) -> list[Tensor]:
    dims = _all(self, dim)
    return _by_steps(self, (1 if spacing is None else spacing,) * len(dims), dims, edge_order)


gradient_scalarint.composite(_one_step)
gradient_scalararray.composite(
    lambda self, spacing, dim, edge_order: _by_steps(self, (spacing,) * len(dim), dim, edge_order)
)
gradient_array.composite(
    lambda self, dim, edge_order: _by_steps(self, (1,) * len(dim), dim, edge_order)
)
gradient_scalarrayint.composite(
    lambda self, spacing, dim, edge_order: _by_steps(self, spacing, _all(self, dim), edge_order)
)
gradient_scalarrayarray.composite(_by_steps)
gradient_tensorarrayint.composite(
    lambda self, spacing, dim, edge_order: _by_points(self, spacing, _all(self, dim), edge_order)
)
gradient_tensorarray.composite(_by_points)
