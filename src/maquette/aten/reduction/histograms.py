"""Histograms of one and of many dimensions, with edges given or laid out evenly.

Every form comes down to `_counted`: which cell of the grid of edges each point falls into. Counts
of one dimension without weights (`histc`) are in `searching.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import combined_at, data_says
from maquette.aten.common.axes import Array
from maquette.aten.common.large_arrays import loops_of_floats
from maquette.core.errors import check, of_data
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

Maybe = TensorMeta | None
MaybeArray = Array | None
Range = tuple[float, ...] | None
Grad = Tensor | None


# --- arrays --------------------------------------------------------------------------


def _even_edges(xp: ModuleType, points: Array, bins: Sequence[int], range: Range) -> list[Array]:
    """Evenly spaced edges: over the given ranges, else over what the points span."""
    found = []
    for d, count in enumerate(bins):
        if range is not None:
            low, high = range[2 * d], range[2 * d + 1]
        elif len(points):
            low, high = [f(points[:, d]).astype(np.float64) for f in (xp.min, xp.max)]
        else:
            low, high = 0.0, 1.0
        finite = xp.isfinite(low) & xp.isfinite(high)
        if data_says(partial(operator.not_, finite)):
            raise of_data(RuntimeError(f"dimension {d}'s range [{low}, {high}] is not finite"))
        alone = low == high
        low, high = xp.where(alone, low - 0.5, low), xp.where(alone, high + 0.5, high)
        found.append(xp.linspace(low, high, count + 1).astype(points.dtype))
    return found


def _cells(xp: ModuleType, x: Array, line: Array, *, even: bool) -> Array:
    """The cell between edges that each point is in, the last one from its last edge on too."""
    spread = even and x.size > 0 and line[-1] > line[0] and len(line) < x.size
    loops = loops_of_floats(xp, x) if spread else None
    if loops is not None and x.dtype == line.dtype:
        found: Array = loops.even_cells(x, line)
        return found
    return xp.minimum(xp.searchsorted(line, x, "right") - 1, len(line) - 2)


def _counted(
    xp: ModuleType,
    points: Array,
    edges: Sequence[Array],
    weight: MaybeArray,
    density: bool,
    *,
    even: bool = False,
) -> Array:
    """The points (rows) in each cell of the grid; a dimension's last cell has both its edges."""
    shape = tuple(len(e) - 1 for e in edges)
    if 0 in shape:
        return xp.zeros(shape, points.dtype)
    inside = xp.ones(len(points), bool)
    cells = []
    for d, line in enumerate(edges):
        x = points[:, d]
        inside = inside & (x >= line[0]) & (x <= line[-1])
        cells.append(_cells(xp, x, line, even=even))
    flat = xp.zeros(len(points), xp.int64)
    for cell, count in zip(cells, shape):
        flat = flat * count + xp.where(inside, cell, 0)
    if xp is np:  # a hundred bins of 10⁶ points: 10 to 1 ms
        given = None if weight is None else weight.reshape(-1)[inside]
        found = np.bincount(flat[inside], given, prod(shape)).astype(np.float64)
    else:
        weights = xp.ones(len(points)) if weight is None else weight.reshape(-1).astype(xp.float64)
        empty = xp.zeros(prod(shape), xp.float64)
        found = combined_at(xp, "add", empty, flat, xp.where(inside, weights, 0.0))
    found = found.reshape(shape).astype(points.dtype)
    if not density:
        return found
    with np.errstate(invalid="ignore", divide="ignore"):
        found = found / found.sum()
        for d, line in enumerate(edges):
            steps = [1] * len(edges)
            steps[d] = -1
            found = found / xp.diff(line).reshape(steps)
    return found


def _points(self: Array) -> Array:
    """Points as rows: the last dimension has the coordinates."""
    return self.reshape(prod(self.shape[:-1]), self.shape[-1])


# --- one dimension -------------------------------------------------------------------

_COUNT = "*, float[]? range=None, Tensor? weight=None, bool density=False"
_EDGES = "*, Tensor? weight=None, bool density=False"
_OUT = "Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)"

histogram = define(
    f"aten::histogram.bin_ct(Tensor self, int bins=100, {_COUNT}) "
    f"-> (Tensor hist, Tensor bin_edges)",
    variants=[f"aten::histogram.bin_ct_out(Tensor self, int bins=100, {_COUNT}, {_OUT}"],
)
histogram.describe(
    "How many elements, or what weight, is in each interval, and the intervals' edges."
)
histogram_edges = define(
    f"aten::histogram.bins_tensor(Tensor self, Tensor bins, {_EDGES}) "
    f"-> (Tensor hist, Tensor bin_edges)",
    variants=[f"aten::histogram.bins_tensor_out(Tensor self, Tensor bins, {_EDGES}, {_OUT}"],
)


def _check_input(name: str, self: TensorMeta, weight: Maybe, weights_shape: object) -> None:
    if not self.dtype.is_floating_point or self.dtype.itemsize < 4:
        raise NotImplementedError(f"\"{name}\" not implemented for '{self.dtype.scalar_name}'")
    check(
        weight is None or weight.dtype is self.dtype,
        lambda: (
            f"{name}: if weight tensor is provided, input tensor and weight tensor should "
            f"have the same dtype; got {self} and {weight}"
        ),
    )
    check(
        weight is None or weight.shape == weights_shape,
        lambda: (
            f"{name}: if weight tensor is provided it should have the shape "
            f"{weights_shape}; got {weight}"
        ),
    )


@histogram.shape
def histogram_shape(
    self: TensorMeta, bins: int, range: Range, weight: Maybe, density: bool
) -> tuple[TensorMeta, TensorMeta]:
    _check_input("histogram", self, weight, self.shape)
    check(bins > 0, lambda: f"histogram(): bins must be > 0, but got {bins}")
    check(
        range is None or len(range) == 2,
        lambda: f"histogram(): range should have 2 elements, but got {len(range or ())}",
    )
    return self.fresh((bins,)), self.fresh((bins + 1,))


@histogram.kernel
def histogram_kernel(
    xp: ModuleType, self: Array, bins: int, range: Range, weight: MaybeArray, density: bool
) -> tuple[Array, Array]:
    points = self.reshape(-1, 1)
    edges = _even_edges(xp, points, (bins,), range)
    return _counted(xp, points, edges, weight, density, even=True), edges[0]


@histogram_edges.shape
def histogram_edges_shape(
    self: TensorMeta, bins: TensorMeta, weight: Maybe, density: bool
) -> tuple[TensorMeta, TensorMeta]:
    _check_input("histogram", self, weight, self.shape)
    _check_edges("histogram", bins, self)
    return self.fresh((bins.numel - 1,)), bins.like()


def _check_edges(name: str, bins: TensorMeta, self: TensorMeta) -> None:
    check(
        bins.dtype is self.dtype,
        lambda: (
            f"torch.{name}dd: input tensor and bins tensors should have the same dtype, but got "
            f"input with dtype {self.dtype} and bins with dtype {bins.dtype}"
        ),
    )
    check(
        bins.ndim == 1 and expect_true(bins.numel > 0),
        lambda: (
            f"{name}(): bins tensor should have one dimension and the input's dtype, but "
            f"got {bins} for {self}"
        ),
    )


@histogram_edges.kernel
def histogram_edges_kernel(
    xp: ModuleType, self: Array, bins: Array, weight: MaybeArray, density: bool
) -> tuple[Array, Array]:
    return _counted(xp, self.reshape(-1, 1), [bins], weight, density), bins


# --- many dimensions -----------------------------------------------------------------

_bin_edges = define(f"aten::_histogramdd_bin_edges(Tensor self, int[] bins, {_COUNT}) -> Tensor[]")
_from_counts = define(
    f"aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, {_COUNT}) -> Tensor"
)
_from_edges = define(
    f"aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, {_EDGES}) -> Tensor"
)


def _check_grid(self: TensorMeta, dimensions: int, weight: Maybe) -> None:
    check(
        self.ndim >= 2,
        lambda: f"torch.histogramdd: input tensor should have at least 2 dimensions; got {self}",
    )
    check(
        dimensions == self.shape[-1],
        lambda: (
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        ),
    )
    _check_input("histogramdd", self, weight, self.shape[:-1])


def _check_counts(self: TensorMeta, bins: tuple[int, ...], range: Range, weight: Maybe) -> None:
    _check_grid(self, len(bins), weight)
    check(
        all(count > 0 for count in bins),
        lambda: f"torch.histogramdd(): bins must be > 0, but got {list(bins)}",
    )
    check(
        range is None or len(range) == 2 * len(bins),
        lambda: (
            f"torch.histogramdd: for a {len(bins)}-dimensional histogram range should have "
            f"{2 * len(bins)} elements, but got {len(range or ())}"
        ),
    )


@_bin_edges.shape
def _bin_edges_shape(
    self: TensorMeta, bins: tuple[int, ...], range: Range, weight: Maybe, density: bool
) -> tuple[TensorMeta, ...]:
    _check_counts(self, bins, range, weight)
    return tuple(self.fresh((count + 1,)) for count in bins)


@_bin_edges.kernel
def _bin_edges_kernel(
    xp: ModuleType,
    self: Array,
    bins: tuple[int, ...],
    range: Range,
    weight: MaybeArray,
    density: bool,
) -> list[Array]:
    return _even_edges(xp, _points(self), bins, range)


@_from_counts.shape
def _from_counts_shape(
    self: TensorMeta, bins: tuple[int, ...], range: Range, weight: Maybe, density: bool
) -> TensorMeta:
    _check_counts(self, bins, range, weight)
    return self.fresh(tuple(bins))


@_from_counts.kernel
def _from_counts_kernel(
    xp: ModuleType,
    self: Array,
    bins: tuple[int, ...],
    range: Range,
    weight: MaybeArray,
    density: bool,
) -> Array:
    points = _points(self)
    return _counted(xp, points, _even_edges(xp, points, bins, range), weight, density)


@_from_edges.shape
def _from_edges_shape(
    self: TensorMeta, bins: tuple[TensorMeta, ...], weight: Maybe, density: bool
) -> TensorMeta:
    _check_grid(self, len(bins), weight)
    for edges in bins:
        _check_edges("torch.histogramdd", edges, self)
    return self.fresh(tuple(b.numel - 1 for b in bins))


@_from_edges.kernel
def _from_edges_kernel(
    xp: ModuleType, self: Array, bins: Sequence[Array], weight: MaybeArray, density: bool
) -> Array:
    return _counted(xp, _points(self), list(bins), weight, density)


_REST = "float[]? range=None, Tensor? weight=None, bool density=False"
histogramdd = define(
    f"aten::histogramdd(Tensor self, int[] bins, {_REST}) -> (Tensor hist, Tensor[] bin_edges)"
)
histogramdd.describe("How many points (rows) are in each cell of a grid, and the grid's edges.")
histogramdd_int = define(
    f"aten::histogramdd.int_bins(Tensor self, int bins, {_REST}) "
    f"-> (Tensor hist, Tensor[] bin_edges)"
)
histogramdd_edges = define(
    f"aten::histogramdd.TensorList_bins(Tensor self, Tensor[] bins, {_REST}) "
    f"-> (Tensor hist, Tensor[] bin_edges)"
)


@histogramdd.composite
def histogramdd_composite(
    self: Tensor, bins: tuple[int, ...], range: Range, weight: Grad, density: bool
) -> tuple[object, object]:
    edges = _bin_edges(self, bins, range=range, weight=weight, density=density)
    return _from_counts(self, bins, range=range, weight=weight, density=density), edges


histogramdd_int.composite(
    lambda self, bins, *rest: histogramdd_composite(self, (bins,) * self.meta.shape[-1], *rest)
)
histogramdd_edges.composite(
    lambda self, bins, range, weight, density: (
        _from_edges(self, list(bins), weight=weight, density=density),
        list(bins),
    )
)

_bin_edges.nondifferentiable()
for _page in (histogram, histogram_edges, _bin_edges, _from_counts, _from_edges):
    _page.cost(lambda self, *rest: Cost(flops=self.numel))
