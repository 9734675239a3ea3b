"""Sorting and selecting by rank: sort, topk, kthvalue, median, mode.

NaN counts as the greatest value everywhere. What can be selected can be differentiated: the
gradient goes back to where each value came from.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import data_says, running, stable_argsort
from maquette.aten.common.axes import Array, check_reducible, reduced
from maquette.aten.common.batching_forms import along, over_all
from maquette.aten.common.element_types import check_no_bool
from maquette.aten.common.large_arrays import (
    least_places,
    lines_of_rows,
    loops_of_numbers,
    place_of_rank,
    rows_of_lines,
    taken_along,
)
from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.indexing.equal_elements import mend_equal
from maquette.aten.reduction.min_max import check_ordered, selected_grad, whole_extreme_grad
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import bool_, int64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_within, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

Pair = tuple[TensorMeta, TensorMeta]
_RESULTS = "(Tensor values, Tensor indices)"
_WRITTEN = "(Tensor(a!) values, Tensor(b!) indices)"
_OUTS = "Tensor(a!) values, Tensor(b!) indices"


_LONG_LINE = 128  # elements of a line from which sorting by digits is faster

# --- order ---------------------------------------------------------------------------


def order_of(xp: ModuleType, x: Array, axis: int, descending: bool) -> Array:
    """The indices that sort along an axis; equal elements stay in their order."""
    x = wide(x)
    loops = loops_of_numbers(xp, x) if x.shape[axis] >= _LONG_LINE else None
    if loops is not None:
        order: Array = loops.stable_order(rows_of_lines(x, axis), descending=descending)
        return lines_of_rows(order, x, axis)
    if not descending:
        ascending: Array = stable_argsort(xp, x, axis)
        return ascending
    # Stable and falling: sort the reversed elements rising, and reverse that.
    last = x.shape[axis] - 1
    falling: Array = last - xp.flip(stable_argsort(xp, xp.flip(x, axis), axis), axis)
    return falling


def sorted_arrays(xp: ModuleType, self: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """Sorted values and where they were."""
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    order = order_of(xp, self, dim, descending)
    return taken_along(xp, self, order, dim), order


def _sort_metas(self: TensorMeta, dim: int) -> Pair:
    check_ordered("sort", self)
    wrap_dim(dim, self.ndim)
    values = self.like()
    return values, values.with_dtype(int64)


def order_grad(
    grads: list[Tensor], self_meta: TensorMeta, dim: int, result1: Tensor
) -> tuple[Tensor]:
    """The gradient of values that keep their dimension."""
    return (selected_grad(grads[0], dim, result1, self_meta.shape, True),)


sort = define(
    f"aten::sort(Tensor self, int dim=-1, bool descending=False) -> {_RESULTS}",
    tags=[Tag.core],
    variants=[
        f"aten::sort.values(Tensor self, int dim=-1, bool descending=False, *, {_OUTS}) "
        f"-> {_WRITTEN}"
    ],
)
sort.describe(
    "`self` sorted along `dim`, and the positions of the elements in it: both of its shape."
)
sort_stable = define(
    f"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) "
    f"-> {_RESULTS}",
    variants=[
        f"aten::sort.values_stable(Tensor self, *, bool? stable, int dim=-1, "
        f"bool descending=False, {_OUTS}) -> {_WRITTEN}"
    ],
)
sort_stable.node_name("SortBackward1")
sort.shape(lambda self, dim, descending: _sort_metas(self, dim))
sort.kernel(sorted_arrays)
sort.batching(along)
sort_stable.shape(lambda self, stable, dim, descending: _sort_metas(self, dim))
sort_stable.kernel(
    lambda xp, self, stable, dim, descending: sorted_arrays(xp, self, dim, descending)
)
sort_stable.batching(along)
for _page in (sort, sort_stable):
    _page.derivative("self")(order_grad)
    _page.nondifferentiable(1)
    _page.exact_out()
    _page.cost(lambda self, *rest: Cost(flops=self.numel))

argsort = define("aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor")
argsort.describe("The positions that would sort along `dim`: int64, of the shape of `self`.")
argsort.composite(lambda self, dim, descending: self.sort(dim, descending)[1])
argsort_stable = define(
    "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"
)
argsort_stable.composite(
    lambda self, stable, dim, descending: self.sort(stable=stable, dim=dim, descending=descending)[
        1
    ]
)
msort = define("aten::msort(Tensor self) -> Tensor")
msort.describe("`self` sorted along its first dimension.")
msort.composite(lambda self: self.sort(0, False)[0])
msort_out = define("aten::msort.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out])


@msort_out.composite
def msort_out_composite(self: Tensor, out: Tensor) -> Tensor:
    indices = self.new_empty((0,), dtype=int64)
    results: tuple[Tensor, Tensor] = self.sort(0, False, values=out, indices=indices)
    return results[0]


# --- the k greatest ------------------------------------------------------------------

_TOPK = "Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True"
topk = define(
    f"aten::topk({_TOPK}) -> {_RESULTS}",
    tags=[Tag.core],
    variants=[f"aten::topk.values({_TOPK}, *, {_OUTS}) -> {_WRITTEN}"],
)
topk.describe("The `k` largest or smallest elements along `dim` and their positions.")


@topk.shape
def topk_shape(self: TensorMeta, k: int, dim: int, largest: bool, sorted: bool) -> Pair:
    check_ordered("topk", self)
    check(self.dtype is not bool_, lambda: "topk does not support bool dtypes on CPU")
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim] if self.ndim else 1
    check(
        expect_within(0, k, size),
        lambda: (
            f"selected index k out of range: topk takes k of the {size} elements of dimension "
            f"{dim}, got k={k}"
        ),
    )
    shape = (*self.shape[:dim], k, *self.shape[dim + 1 :]) if self.ndim else ()
    return self.fresh(shape), self.fresh(shape, int64)


@topk.kernel
def topk_kernel(
    xp: ModuleType, self: Array, k: int, dim: int, largest: bool, sorted: bool
) -> tuple[Array, Array]:
    if not self.ndim:
        return sorted_arrays(xp, self, dim, largest)
    size = self.shape[dim]
    ahead = k + 1 if 0 < k < size else k  # one more tells whether another was as good
    places = least_places(xp, wide(self), ahead, dim, largest=largest)
    if places is not None:
        values, order = sorted_arrays(xp, taken_along(xp, self, places, dim), dim, largest)
        order = taken_along(xp, places, order, dim)
    else:
        values, order = sorted_arrays(xp, self, dim, largest)
    first = [slice(None)] * self.ndim
    first[dim] = slice(0, k)
    best, where = values[tuple(first)], order[tuple(first)]
    if xp is np and k:
        first[dim] = slice(0, ahead)
        mend_equal(self, values[tuple(first)], where, dim, largest)
    return best, where


topk.derivative("self")(order_grad)
topk.nondifferentiable(1)
topk.exact_out()
topk.cost(lambda self, *rest: Cost(flops=self.numel))
topk.batching(along)


# --- one element by rank -------------------------------------------------------------


def _pick(
    xp: ModuleType, self: Array, where: Array, dim: int, keepdim: bool
) -> tuple[Array, Array]:
    """The elements at one index a line, and the index."""
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    where = xp.expand_dims(where, dim)
    values = xp.take_along_axis(self, where, dim)
    return (values, where) if keepdim else (values.squeeze(dim), where.squeeze(dim))


def _rank_page(name: str, parameters: str) -> OperatorPage:
    """An operator that selects one element a line; the gradient goes to it alone."""
    page = define(
        f"aten::{name}({parameters}) -> {_RESULTS}",
        variants=[
            f"aten::{name.partition('.')[0]}.{'dim_values' if 'dim' in name else 'values'}"
            f"({parameters}, *, {_OUTS}) -> {_WRITTEN}"
        ],
    )
    page.derivative("self")(
        lambda grads, self_meta, dim, keepdim, result1: (
            selected_grad(grads[0], dim, result1, self_meta.shape, keepdim),
        )
    )
    page.nondifferentiable(1)
    page.exact_out()
    page.cost(lambda self, *rest: Cost(flops=self.numel))
    return page


def _line_metas(name: str, self: TensorMeta, dim: int, keepdim: bool) -> Pair:
    check_ordered(name, self)
    values = reduced(self, dim, keepdim)
    if self.ndim:
        check_reducible(name, self, dim)
    return values, values.fresh(values.shape, int64)


kthvalue = _rank_page("kthvalue", "Tensor self, SymInt k, int dim=-1, bool keepdim=False")
kthvalue.describe("The `k`-th smallest elements along `dim` and their positions.")


@kthvalue.shape
def kthvalue_shape(self: TensorMeta, k: int, dim: int, keepdim: bool) -> Pair:
    check_no_bool("kthvalue_cpu", self.dtype)
    metas = _line_metas("kthvalue", self, dim, keepdim)
    size = self.shape[wrap_dim(dim, self.ndim)] if self.ndim else 1
    check(
        expect_within(1, k, size),
        lambda: (
            f"kthvalue(): selected number k out of range for dimension "
            f"{wrap_dim(dim, self.ndim or 1)}"
        ),
    )
    return metas


@kthvalue.kernel
def kthvalue_kernel(
    xp: ModuleType, self: Array, k: int, dim: int, keepdim: bool
) -> tuple[Array, Array]:
    where = place_of_rank(xp, wide(self), k - 1, dim) if self.ndim else self
    if where is None:
        where = xp.take(order_of(xp, self, dim, False), k - 1, axis=dim)
    return _pick(xp, self, where, dim, keepdim)


kthvalue.batching(along)


refuse_overlap(kthvalue.variants[0], "self")


def _median_position(xp: ModuleType, x: Array, axis: int, skip_nan: bool) -> Array:
    """Where the lower median of each line is; with NaN in the line, where the first NaN is."""
    if x.shape[axis] and data_says(lambda: not (x.dtype.kind == "f" and xp.isnan(x).any())):
        where = place_of_rank(xp, wide(x), (x.shape[axis] - 1) // 2, axis)
        if where is not None:
            return where
    order = order_of(xp, x, axis, False)
    x = wide(x)
    missing = xp.isnan(x) if x.dtype.kind == "f" else xp.zeros(x.shape, bool)
    numbers = x.shape[axis] - missing.sum(axis=axis, keepdims=True)
    rank = xp.maximum(numbers - 1, 0) // 2
    if not skip_nan:
        # Sorted last, the first NaN stands right behind the numbers.
        rank = xp.where(numbers < x.shape[axis], numbers, rank)
    return xp.take_along_axis(order, rank, axis).squeeze(axis)


def _missing(xp: ModuleType, kind: np.dtype[Any]) -> Array:
    """The median of nothing: NaN, or what a cast of NaN to the type gives."""
    if kind.kind == "b":
        return xp.asarray(True)
    return xp.asarray(xp.iinfo(kind).min if kind.kind in "iu" else xp.nan)


def _median_pages(name: str, skip_nan: bool) -> tuple[OperatorPage, OperatorPage]:
    """median or nanmedian, over everything and along a dimension: never a mean of two elements."""
    whole = define(f"aten::{name}(Tensor self) -> Tensor")
    along = _rank_page(f"{name}.dim", "Tensor self, int dim, bool keepdim=False")

    def whole_shape(self: TensorMeta) -> TensorMeta:
        check_ordered(name, self)
        if not is_true(self.numel == 0):
            check_no_bool("median_cpu", self.dtype)
        return self.fresh(())

    def whole_kernel(xp: ModuleType, self: Array) -> Array:
        flat = self.reshape(-1)
        if not flat.size:
            return _missing(xp, self.dtype)
        return flat[_median_position(xp, flat, 0, skip_nan)]

    def along_shape(self: TensorMeta, dim: int, keepdim: bool) -> Pair:
        check_no_bool("median_out", self.dtype)
        return _line_metas(name, self, dim, keepdim)

    def along_kernel(xp: ModuleType, self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
        where = _median_position(xp, self, dim, skip_nan) if self.ndim else self
        return _pick(xp, self, where, dim, keepdim)

    whole.shape(whole_shape)
    whole.kernel(whole_kernel)
    whole.derivative(self=whole_extreme_grad)
    whole.cost(lambda self, *rest: Cost(flops=self.numel))
    along.shape(along_shape)
    along.kernel(along_kernel)
    return whole, along


median, median_dim = _median_pages("median", skip_nan=False)
median_dim.node_name("MedianBackward1")
median_dim.batching(along)
median.batching(over_all)
describe(
    "median",
    "The middle element, the lower of two; along `dim` with its position. NaN, if there is one.",
)
nanmedian, nanmedian_dim = _median_pages("nanmedian", skip_nan=True)
nanmedian_dim.node_name("NanmedianBackward1")
nanmedian_dim.batching(along)
nanmedian.batching(over_all)
describe(
    "nanmedian",
    "The middle element of those that are not NaN; along `dim` with its position.",
)

mode = _rank_page("mode", "Tensor self, int dim=-1, bool keepdim=False")
mode.describe("The most frequent elements along `dim`, and positions of them.")
mode.shape(lambda self, dim, keepdim: _line_metas("mode", self, dim, keepdim))


@mode.kernel
def mode_kernel(xp: ModuleType, self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The most frequent value, the least of several, and the last place where it stands.

    NaN is equal to nothing, and counts as less than all numbers.
    """
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    lines = xp.moveaxis(wide(self), dim, -1)
    order = stable_argsort(xp, lines, -1)
    rising = xp.take_along_axis(lines, order, -1)
    steps = xp.arange(lines.shape[-1])
    first = xp.ones((*rising.shape[:-1], 1), bool)
    starts = xp.concatenate([first, rising[..., 1:] != rising[..., :-1]], -1)
    run = steps - running(xp, "maximum", xp.where(starts, steps, 0), -1)
    # The end of the first of the longest runs.
    best = xp.expand_dims(xp.argmax(run, axis=-1), -1)
    where = xp.take_along_axis(order, best, -1).squeeze(-1)
    if lines.dtype.kind == "f":
        unknown = xp.isnan(lines)
        alone = unknown.any(-1) & (run.max(-1) == 0)
        where = xp.where(alone, xp.argmax(unknown, axis=-1), where)
    return _pick(xp, self, where, dim, keepdim)


mode.batching(along)
