"""Distinct values and counts: unique in all its forms, bincount, one_hot."""

from __future__ import annotations

import sys
from math import prod
from types import ModuleType
from typing import NoReturn

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, wrap_existing_dim
from maquette.aten.common.element_types import check_no_complex
from maquette.aten.common.large_arrays import SMALL, loops_of_numbers
from maquette.aten.factory.factories import empty, zeros
from maquette.aten.factory.ranges import arange
from maquette.aten.indexing.sorting import order_of
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import float32, float64, int64
from maquette.core.errors import check, check_data, check_not_implemented, of_data
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import NewNumbers, OperatorPage, define
from maquette.tensor.tensor import Tensor

DYNAMIC = [Tag.dynamic_output_shape]
_TWO = "(Tensor, Tensor)"
_THREE = "(Tensor, Tensor, Tensor)"
Metas = tuple[TensorMeta, ...]
Results = tuple[Array, Array, Array]


# --- unique --------------------------------------------------------------------------


def _nothing(xp: ModuleType) -> Array:
    empty: Array = xp.empty(0, xp.int64)
    return empty


def _unique_arrays(xp: ModuleType, self: Array, with_inverse: bool, with_counts: bool) -> Results:
    """Distinct elements in order, the number of each element's value, the counts."""
    flat = wide(self).reshape(-1)
    low, span = _range(xp, flat)
    if span <= flat.size:
        return _unique_by_counts(self, low, span, with_inverse, with_counts)
    if xp is np and flat.size >= SMALL:
        return _unique_by_order(self, order_of(xp, flat, 0, False), with_inverse, with_counts)
    _, first, inverse, counts = xp.unique(
        flat, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return (
        self.reshape(-1)[first],
        inverse.reshape(self.shape).astype(xp.int64) if with_inverse else _nothing(xp),
        counts.astype(xp.int64) if with_counts else _nothing(xp),
    )


def _range(xp: ModuleType, flat: Array) -> tuple[int, int]:
    """The least of many integers, and how far they reach; of others, infinitely far."""
    if xp is not np or flat.size < SMALL or flat.dtype.kind not in "iu":
        return 0, sys.maxsize
    low = int(flat.min())
    return low, int(flat.max()) - low + 1


def _unique_by_counts(
    self: Array, low: int, span: int, with_inverse: bool, with_counts: bool
) -> Results:
    """`_unique_arrays` of integers that lie close together: counted, not sorted (25 to 2 ms)."""
    flat = self.reshape(-1)
    if self.dtype.kind == "u":
        places = (flat - self.dtype.type(low)).astype(np.int64)
    else:
        places = flat.astype(np.int64) - low
    counts = np.bincount(places, minlength=span)
    found = np.flatnonzero(counts)
    values = found.astype(self.dtype) + self.dtype.type(low)
    numbers = np.cumsum(counts != 0) - 1
    return (
        values,
        numbers[places].reshape(self.shape) if with_inverse else _nothing(np),
        counts[found] if with_counts else _nothing(np),
    )


def _unique_by_order(self: Array, order: Array, with_inverse: bool, with_counts: bool) -> Results:
    """`_unique_arrays` by the stable order of the elements."""
    rising = self.reshape(-1)[order]
    starts = np.ones(len(order), bool)
    np.not_equal(rising[1:], rising[:-1], out=starts[1:])
    where = np.flatnonzero(starts)
    inverse = np.empty(len(order) if with_inverse else 0, np.int64)
    if with_inverse:
        inverse[order] = np.cumsum(starts) - 1
    return (
        rising[where],
        inverse.reshape(self.shape) if with_inverse else inverse,
        np.diff(where, append=len(order)) if with_counts else _nothing(np),
    )


def _rows(xp: ModuleType, self: Array, dim: int) -> Array:
    """The slices along a dimension as rows of a matrix."""
    moved = xp.moveaxis(self, dim, 0)
    rows: Array = moved.reshape(moved.shape[0], prod(moved.shape[1:]))
    return rows


def _unrowed(xp: ModuleType, rows: Array, self: Array, dim: int) -> Array:
    """Rows as slices again, laid out row by row as PyTorch does."""
    shape = (len(rows), *[n for d, n in enumerate(self.shape) if d != dim % self.ndim])
    moved: Array = xp.moveaxis(xp.ascontiguousarray(rows).reshape(shape), 0, dim)
    return moved


def _unique_rows(xp: ModuleType, self: Array, dim: int) -> Results:
    rows = _rows(xp, self, dim)
    _, first, inverse, counts = xp.unique(
        wide(rows),
        axis=0,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        equal_nan=False,
    )
    inverse = inverse.reshape(-1).astype(xp.int64)
    return _unrowed(xp, rows[first], self, dim), inverse, counts.astype(xp.int64)


def _runs(xp: ModuleType, rows: Array) -> Results:
    """The first row of each run of equal rows, the run of each row, the runs' lengths."""
    if not len(rows):
        return rows, _nothing(xp), _nothing(xp)
    changes = rows[1:] != rows[:-1]
    starts = xp.ones(len(rows), bool)
    starts[1:] = changes if rows.ndim == 1 else changes.any(axis=tuple(range(1, rows.ndim)))
    where = xp.flatnonzero(starts)
    lengths = xp.diff(xp.append(where, len(rows)))
    return rows[where], xp.cumsum(starts) - 1, lengths.astype(xp.int64)


def _check_dim(name: str, self: TensorMeta, dim: int) -> None:
    check_no_complex("unique_dim", self.dtype)
    dim = wrap_existing_dim(dim, self.ndim)
    empty = [d for d, n in enumerate(self.shape) if n == 0 and d != dim]
    check(
        self.shape[dim] == 0 or not empty,
        lambda: (
            f"There are 0 sized dimensions, and they aren't selected, so {name} cannot be applied "
            f"to {self} along dimension {dim}"
        ),
    )


_unique = define(
    f"aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> {_TWO}",
    tags=DYNAMIC,
)
_unique2 = define(
    f"aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, "
    f"bool return_counts=False) -> {_THREE}",
    tags=DYNAMIC,
)
unique_dim = define(
    f"aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
    f"bool return_counts=False) -> {_THREE}",
    tags=DYNAMIC,
)
unique_dim.describe(
    "The distinct slices along `dim`, and on request where each of them is and how often."
)
unique_consecutive = define(
    f"aten::unique_consecutive(Tensor self, bool return_inverse=False, "
    f"bool return_counts=False, int? dim=None) -> {_THREE}",
    tags=DYNAMIC,
)
unique_consecutive.describe(
    "The elements without those that repeat the one before; and where each is, and how often."
)
unique_dim_consecutive = define(
    f"aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, "
    f"bool return_counts=False) -> {_THREE}",
    tags=DYNAMIC,
)
unique_dim_consecutive.describe("The slices along `dim` without those that repeat the one before.")


def _check_elements(self: TensorMeta, *rest: object) -> None:
    """Complex numbers have no order."""
    check_no_complex("unique", self.dtype)


@_unique.data_dependent(_check_elements)
def _unique_kernel(
    xp: ModuleType, self: Array, sorted: bool, return_inverse: bool
) -> tuple[Array, Array]:
    values, inverse, _ = _unique_arrays(xp, self, return_inverse, False)
    return values, inverse


@_unique2.data_dependent(_check_elements)
def _unique2_kernel(
    xp: ModuleType, self: Array, sorted: bool, return_inverse: bool, return_counts: bool
) -> Results:
    return _unique_arrays(xp, self, return_inverse, return_counts)


def _listed(new: NewNumbers, self: TensorMeta, *, inverse: bool, counts: bool) -> Metas:
    """Values, their places if they are wanted, their counts if they are wanted."""
    size = new.size(0, self.numel)
    return (
        self.fresh((size,)),
        self.fresh(self.shape if inverse else (0,), int64),
        self.fresh((size if counts else 0,), int64),
    )


@_unique.memoised().unbacked
def _unique_unbacked(
    new: NewNumbers, self: TensorMeta, sorted: bool, return_inverse: bool
) -> Metas:
    return _listed(new, self, inverse=return_inverse, counts=False)[:2]


@_unique2.memoised().unbacked
def _unique2_unbacked(
    new: NewNumbers, self: TensorMeta, sorted: bool, return_inverse: bool, return_counts: bool
) -> Metas:
    return _listed(new, self, inverse=return_inverse, counts=return_counts)


def _listed_slices(new: NewNumbers, self: TensorMeta, dim: int) -> Metas:
    """Slices of a dimension; places and counts are filled whether or not they are wanted."""
    axis = wrap_dim(dim, self.ndim)
    size = new.size(0, self.shape[axis])
    shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
    return (
        self.fresh(shape),
        self.fresh((self.shape[axis],), int64),
        self.fresh((size,), int64),
    )


@unique_dim.unbacked
def unique_dim_unbacked(new: NewNumbers, self: TensorMeta, dim: int, *rest: object) -> Metas:
    _check_dim("unique_dim", self, dim)
    return _listed_slices(new, self, dim)


@unique_dim_consecutive.unbacked
def unique_dim_consecutive_unbacked(
    new: NewNumbers, self: TensorMeta, dim: int, *rest: object
) -> Metas:
    _check_dim("unique_consecutive", self, dim)
    return _listed_slices(new, self, dim)


@unique_consecutive.memoised().unbacked
def unique_consecutive_unbacked(
    new: NewNumbers, self: TensorMeta, return_inverse: bool, return_counts: bool, dim: int | None
) -> Metas:
    _check_unique_consecutive(self, return_inverse, return_counts, dim)
    if dim is not None and not (self.ndim == 1 and dim == 0):
        return _listed_slices(new, self, dim)
    return _listed(new, self, inverse=return_inverse, counts=return_counts)


@unique_dim.data_dependent(lambda self, dim, *rest: _check_dim("unique_dim", self, dim))
def unique_dim_kernel(
    xp: ModuleType,
    self: Array,
    dim: int,
    sorted: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Results:
    return _unique_rows(xp, self, dim)


@unique_dim_consecutive.data_dependent(
    lambda self, dim, *rest: _check_dim("unique_consecutive", self, dim)
)
def unique_dim_consecutive_kernel(
    xp: ModuleType, self: Array, dim: int, return_inverse: bool, return_counts: bool
) -> Results:
    return _run_slices(xp, self, dim)


def _run_slices(xp: ModuleType, self: Array, dim: int) -> Results:
    rows, inverse, counts = _runs(xp, _rows(xp, self, dim))
    return _unrowed(xp, rows, self, dim), inverse, counts


def _check_unique_consecutive(
    self: TensorMeta, return_inverse: bool, return_counts: bool, dim: int | None
) -> None:
    check_no_complex("unique", self.dtype)
    if dim is not None:
        _check_dim("unique_consecutive", self, dim)


@unique_consecutive.data_dependent(_check_unique_consecutive)
def unique_consecutive_kernel(
    xp: ModuleType, self: Array, return_inverse: bool, return_counts: bool, dim: int | None
) -> Results:
    # A tensor of one dimension is taken as flat for dim 0, though not for -1, as in PyTorch.
    if dim is not None and not (self.ndim == 1 and dim == 0):
        return _run_slices(xp, self, dim)
    flat = self.reshape(-1)
    if xp is np and flat.size >= SMALL and not (return_inverse or return_counts):
        loops = loops_of_numbers(xp, flat)
        if loops is not None:
            return loops.without_repeats(flat), _nothing(xp), _nothing(xp)
        starts = np.ones(flat.size, bool)
        np.not_equal(flat[1:], flat[:-1], out=starts[1:])
        return np.compress(starts, flat), _nothing(xp), _nothing(xp)
    values, inverse, counts = _runs(xp, flat)
    return (
        values,
        inverse.reshape(self.shape) if return_inverse else _nothing(xp),
        counts if return_counts else _nothing(xp),
    )


def _refuse_backward(page: OperatorPage) -> None:
    """Values require grad as their tensor does, but nobody knows a gradient."""

    def no_gradient(grads: object) -> NoReturn:
        raise NotImplementedError(f"the derivative for '{page.op._opname}' is not implemented.")

    page.derivative("self")(no_gradient)
    page.nondifferentiable(1, 2)


for _page in (_unique, _unique2, unique_dim, unique_consecutive, unique_dim_consecutive):
    _refuse_backward(_page)


# --- counts --------------------------------------------------------------------------

bincount = define(
    "aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    tags=DYNAMIC,
)
bincount.describe(
    "How often each number from 0 on occurs in a vector of them, or the sum of their "
    "`weights`: a vector."
)


def _check_bincount(self: TensorMeta, weights: TensorMeta | None, minlength: int) -> None:
    check_not_implemented(
        self.ndim != 1 or self.dtype.category <= 1,
        lambda: f"\"bincount_cpu\" not implemented for '{self.dtype.scalar_name}'",
    )
    check(
        0 <= minlength < 2**63,
        lambda: f"minlength should be >= 0 and fit in 64 bits, got {minlength}",
    )
    check(
        self.ndim == 1 and self.dtype.category == 1,
        lambda: f"bincount only supports 1-d non-negative integral inputs; got {self}",
    )
    check(
        weights is None or weights.shape == self.shape,
        lambda: (
            f"weights should be 1-d and have the same length as input; got {weights} for {self}"
        ),
    )


@bincount.unbacked
def bincount_unbacked(
    new: NewNumbers, self: TensorMeta, weights: TensorMeta | None, minlength: int
) -> TensorMeta:
    _check_bincount(self, weights, minlength)
    kind = int64
    if weights is not None:
        kind = float32 if weights.dtype is float32 else float64
    return self.fresh((new.size(minlength),), kind)


@bincount.data_dependent(_check_bincount)
def bincount_kernel(xp: ModuleType, self: Array, weights: Array | None, minlength: int) -> Array:
    if self.size and self.min() < 0:
        raise of_data(RuntimeError("bincount only supports 1-d non-negative integral inputs."))
    if weights is not None and not weights.size:
        weights = None  # as if none were given, so that zeros are counted in int64
    if weights is not None and weights.dtype.kind == "c":
        weights = weights.real  # as a cast does
    counted: Array = xp.bincount(self.astype(xp.int64), weights, minlength)
    if weights is None:
        return counted.astype(xp.int64)
    return counted.astype(xp.float32 if weights.dtype == xp.float32 else xp.float64)


one_hot = define("aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", tags=DYNAMIC)
one_hot.describe(
    "A last dimension of `num_classes` with 1 at each element's number and 0 elsewhere: int64."
)


@one_hot.composite
def one_hot_composite(self: Tensor, num_classes: int) -> Tensor:
    """A 1 at each element's class; -1 classes means as many as occur, which asks the data."""
    check(
        self.dtype is int64,
        lambda: f"one_hot is only applicable to index tensor of type LongTensor; got {self.meta}",
    )
    if self._mq_data is None:  # no classes to look at: compare with each class instead
        if num_classes == -1:
            num_classes = int(self.max().item().real) + 1
        classes = arange(num_classes, dtype=int64, device=self.device)
        return self.unsqueeze(-1).eq(classes).to(int64)
    shape = self.meta.shape
    if self.meta.numel == 0:
        check(
            num_classes > 0,
            lambda: "Can not infer total number of classes from empty tensor.",
        )
        return empty((*shape, num_classes), dtype=int64, device=self.device)
    least, greatest = self.aminmax()
    check_data(int(least.item().real) >= 0, lambda: "Class values must be non-negative.")
    largest = int(greatest.item().real)
    if num_classes == -1:
        num_classes = largest + 1
    check_data(num_classes > largest, lambda: "Class values must be smaller than num_classes.")
    ones_at = zeros((*shape, num_classes), dtype=int64, device=self.device)
    return ones_at.scatter_(-1, self.unsqueeze(-1), 1)
