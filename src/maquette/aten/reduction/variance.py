"""Variances and standard deviations, logarithms of sums, sums and counts that skip.

Variances accumulate in double precision, deviations from the mean first, so they are never
negative. All forms of a statistic come down to one page: the one that takes a ``correction``.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import assigned_at, data_says
from maquette.aten.common.axes import (
    Array,
    Dims,
    axes_of,
    dims_of,
    reduced,
    reduced_shape,
    spread,
    total,
)
from maquette.aten.common.batching_forms import along, rank_of, to_front
from maquette.aten.common.formula_helpers import over, times
from maquette.aten.common.fresh_writes import unless_wrapped
from maquette.aten.common.large_arrays import chosen, loops_of_floats, loops_of_inexact, rows_along
from maquette.aten.common.operators import aten
from maquette.aten.common.type_promotion import check_real_numbers
from maquette.aten.reduction.sums import (
    REDUCTION,
    count_of,
    expanded,
    into_dtype_of_out,
    reduction_cost,
    sum_array,
    sum_dtype,
)
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.dtype import dtype, float32, get_default_dtype, int64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.promotion import promote_types
from maquette.core.scalar_types import is_complex_type
from maquette.core.symbols import is_true
from maquette.core.warned import warn
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, OperatorPage, define
from maquette.library.variants import check_castable
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Number = bool | int | float | complex
Grad = Tensor | None


# --- variance ------------------------------------------------------------------------


def check_inexact(name: str, self: TensorMeta) -> None:
    """Variances need numbers with fractions."""
    check(
        self.dtype.category > 1,
        lambda: f"{name} only support floating point and complex dtypes; got {self}",
    )


def variance(
    xp: ModuleType, x: Array, dim: Dims, correction: Number | None, keepdim: bool
) -> tuple[Array, Array]:
    """Variance and mean; a correction that leaves no degree of freedom gives NaN or infinity."""
    axes = axes_of(dim, x.ndim)
    count = count_of(x.shape, dim)
    is_complex = is_complex_type(x.dtype)
    kind = xp.complex128 if is_complex else xp.float64
    freedom = max(count - (1 if correction is None else float(correction.real)), 0)
    freedom = freedom if count else 0
    loops = loops_of_inexact(xp, x)
    rows = None if loops is None else rows_along(x, axes)
    if loops is not None and rows is not None:
        shape = reduced_shape(x.shape, axes, keepdim)
        means, squares = (found.reshape(shape) for found in _row_spread(loops, rows))
        with np.errstate(divide="ignore", invalid="ignore"):
            return squares / np.float64(freedom), means
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = xp.add.reduce(x, axis=axes, dtype=kind, keepdims=True) / xp.float64(count)
        centered = x - mean
        squares = (centered * centered.conj()).real if is_complex else centered**2
        summed = xp.add.reduce(squares, axis=axes, keepdims=keepdim)
        return summed / xp.float64(freedom), mean if keepdim else mean.squeeze(axes)


def _row_spread(loops: ModuleType, rows: Array) -> tuple[Array, Array]:
    """Means and sums of squared deviations; of complex numbers, those of both parts together."""
    if rows.dtype.kind != "c":
        found: tuple[Array, Array] = loops.row_spread(rows)
        return found
    real, squares = loops.row_spread(np.ascontiguousarray(rows.real))
    imag, others = loops.row_spread(np.ascontiguousarray(rows.imag))
    return real + 1j * imag, squares + others


def updated_mean(xp: ModuleType, x: Array, dim: Dims, keepdim: bool, mean: Array) -> Array:
    """The mean as a running update ``mean += (x - mean) / n`` has it.

    It differs from the sum's only in that an element after an infinite one makes it NaN.
    """
    infinite = xp.isinf(x)
    if not x.size or data_says(lambda: not infinite.any()):
        return mean
    axes = axes_of(dim, x.ndim)
    last = tuple(-1 if axis in axes else slice(None) for axis in range(x.ndim))
    infinite = assigned_at(xp, infinite, last, False)
    spoiled = infinite.any(axis=axes, keepdims=keepdim)
    return xp.where(spoiled, xp.nan, mean)


def variance_grad(
    grad: Tensor, self: Tensor, dim: Dims, correction: Number | None, keepdim: bool
) -> Tensor:
    """``2 / (n - correction) * grad * (self - mean)``."""
    rank = self.meta.ndim
    count = count_of(self.meta.shape, dim)
    freedom = count - (1 if correction is None else float(correction.real))
    whole = dim is None or not rank
    if not whole and rank > 1:
        grad = spread(grad, dim, keepdim, rank)
    centered = self - (self.mean() if whole else self.mean(dims_of(dim, rank), True))
    if whole and is_true(freedom <= 0):
        # The limit of a division by nothing.
        flat = self == self - centered
        limit: Tensor = aten.where(flat, self.new_full((), math.nan), self.new_full((), math.inf))
        return grad * limit
    return times(grad, math.inf if is_true(freedom == 0) else 2.0 / freedom) * centered


def deviation_grad(
    grad: Tensor,
    self: Tensor,
    result: Tensor,
    dim: Dims,
    correction: Number | None,
    keepdim: bool,
) -> Tensor:
    """By way of the variance; zero where the deviation is zero, in tangents too."""
    twice = times(result, 2)
    if is_grad_enabled():
        # Not masked after the division alone: its derivative by grad would be 0 * inf.
        still = result == 0
        by_variance = (grad / twice.masked_fill(still, 1)).masked_fill(still, 0)
    else:
        by_variance = unless_wrapped("masked_fill", grad / twice, result == 0, 0)
    return variance_grad(by_variance, self, dim, correction, keepdim)


def mean_grad(grad: Tensor, self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Each element's share."""
    shape = self.meta.shape
    if dim is None:
        return over(grad.expand(shape), self.meta.numel)
    return over(expanded(grad, shape, dim, keepdim), count_of(shape, dim))


_CORRECTION = "Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False"
_BY_DIM = "Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False"
_WHOLE = "Tensor self, bool unbiased=True"
Correction = Number | None


def _warn_of_freedom(name: str, shape: tuple[int, ...], dim: Dims, correction: Correction) -> None:
    if count_of(shape, dim) - (1 if correction is None else float(correction.real)) <= 0:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            f"reduction factor (input numel divided by output numel)."
        )


def _spread_page(name: str, root: bool) -> OperatorPage:
    """The page of var.correction or std.correction, and the older forms made of it."""
    whole, by_dim = _older_forms(name, "Tensor")
    page = define(
        f"aten::{name}.correction({_CORRECTION}) -> Tensor",
        tags=[*REDUCTION, Tag.core] if name == "var" else REDUCTION,
        variants=["correction_out"],
    )

    def shape(self: TensorMeta, dim: Dims, correction: Correction, keepdim: bool) -> TensorMeta:
        check_inexact("std and var", self)
        check_real_numbers(name, correction)
        return reduced(self, dim, keepdim, self.dtype.to_real())

    def kernel(
        xp: ModuleType, self: Array, dim: Dims, correction: Correction, keepdim: bool
    ) -> Array:
        _warn_of_freedom(name, self.shape, dim, correction)
        found, _ = variance(xp, wide(self), dim, correction, keepdim)
        return xp.sqrt(found) if root else found

    page.shape(shape)
    page.kernel(kernel)
    if root:
        page.derivative(
            self=lambda grad, self, result, dim, correction, keepdim: deviation_grad(
                grad, self, result, dim, correction, keepdim
            )
        )
    else:
        page.derivative(
            self=lambda grad, self, dim, correction, keepdim: variance_grad(
                grad, self, dim, correction, keepdim
            )
        )
    page.cost(_variance_cost)
    _by_correction(whole, by_dim, page)
    out = define(
        f"aten::{name}.out({_BY_DIM}, *, Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out, Tag.reduction],
    )
    into = page.variants[0]
    out.composite(
        lambda self, dim, unbiased, keepdim, out: into(
            self, dim, correction=int(unbiased), keepdim=keepdim, out=out
        )
    )
    return page


def _older_forms(name: str, returns: str) -> tuple[OperatorPage, OperatorPage]:
    """The forms with ``unbiased`` in place of a correction; a bool means the first of them."""
    whole = define(f"aten::{name}({_WHOLE}) -> {returns}", tags=REDUCTION)
    by_dim = define(
        f"aten::{name}.dim({_BY_DIM}) -> {returns}",
        tags=[*REDUCTION, Tag.core] if name == "var" else REDUCTION,
    )
    return whole, by_dim


def _by_correction(whole: OperatorPage, by_dim: OperatorPage, page: OperatorPage) -> None:
    whole.composite(lambda self, unbiased: page(self, None, correction=int(unbiased)))
    by_dim.composite(
        lambda self, dim, unbiased, keepdim: page(
            self, dim, correction=int(unbiased), keepdim=keepdim
        )
    )


def _variance_cost(self: TensorMeta, *rest: object) -> Cost:
    return Cost(flops=4 * self.numel)


def _with_mean_page(name: str, root: bool) -> OperatorPage:
    """The page of var_mean.correction or std_mean.correction."""
    whole, by_dim = _older_forms(name, "(Tensor, Tensor)")
    page = define(f"aten::{name}.correction({_CORRECTION}) -> (Tensor, Tensor)", tags=REDUCTION)

    def shape(
        self: TensorMeta, dim: Dims, correction: Correction, keepdim: bool
    ) -> tuple[TensorMeta, TensorMeta]:
        check_inexact(name, self)
        return reduced(self, dim, keepdim, self.dtype.to_real()), reduced(self, dim, keepdim)

    def kernel(
        xp: ModuleType, self: Array, dim: Dims, correction: Correction, keepdim: bool
    ) -> tuple[Array, Array]:
        _warn_of_freedom(name, self.shape, dim, correction)
        found, mean = variance(xp, wide(self), dim, correction, keepdim)
        mean = updated_mean(xp, wide(self), dim, keepdim, mean)
        return (xp.sqrt(found) if root else found), mean

    def grad_of(
        grads: list[Grad],
        self: Tensor,
        dim: Dims,
        correction: Correction,
        keepdim: bool,
        result0: Tensor | None = None,
    ) -> tuple[Grad]:
        by_spread, by_mean = grads
        found: Grad = None
        if by_spread is not None and result0 is not None:
            found = deviation_grad(by_spread, self, result0, dim, correction, keepdim)
        elif by_spread is not None:
            found = variance_grad(by_spread, self, dim, correction, keepdim)
        if by_mean is not None:
            share = mean_grad(by_mean, self, dim, keepdim)
            found = share if found is None else found + share
        return (found,)

    page.shape(shape)
    page.kernel(kernel)
    if root:
        page.derivative("self")(
            lambda grads, self, dim, correction, keepdim, result0: grad_of(
                grads, self, dim, correction, keepdim, result0
            )
        )
    else:
        page.derivative("self")(
            lambda grads, self, dim, correction, keepdim: grad_of(
                grads, self, dim, correction, keepdim
            )
        )
    page.cost(_variance_cost)
    _by_correction(whole, by_dim, page)
    return page


var = _spread_page("var", root=False)
var.describe("The variance, by default of a sample (correction 1).")
var.batching(along)
std = _spread_page("std", root=True)
std.describe("The standard deviation, by default of a sample (correction 1).")
std.batching(along)
var_mean = _with_mean_page("var_mean", root=False)
var_mean.describe("The variance and the mean.")
var_mean.batching(along)
std_mean = _with_mean_page("std_mean", root=True)
std_mean.describe("The standard deviation and the mean.")
std_mean.batching(along)


# --- logarithms of sums --------------------------------------------------------------

logsumexp = define(
    "aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    tags=REDUCTION,
    variants=["out"],
)
logsumexp.describe("The logarithm of the sum of ``exp``, without overflow.")
logsumexp.autocast(cuda="float32")


@logsumexp.shape
def logsumexp_shape(self: TensorMeta, dim: Dims, keepdim: bool) -> TensorMeta:
    kind = self.dtype if self.dtype.category > 1 else get_default_dtype()
    return reduced(self, dim, keepdim, kind)


@logsumexp.kernel
def logsumexp_kernel(xp: ModuleType, self: Array, dim: Dims, keepdim: bool) -> Array:
    axes = axes_of(dim, self.ndim)
    x = wide(self)
    if x.dtype.kind in "biu":
        x = x.astype(get_default_dtype().numpy)
    if not x.size:
        with np.errstate(divide="ignore"):
            return xp.log(xp.add.reduce(xp.exp(x), axis=axes, keepdims=keepdim))
    highest = x.real.max(axis=axes, keepdims=True)
    highest = xp.where(xp.isinf(highest), 0, highest)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        summed = xp.log(total(xp, xp.exp(x - highest), axes, True)) + highest
    return summed if keepdim else summed.squeeze(axes)


@logsumexp.derivative("self")
def logsumexp_grad(
    grad: Tensor, self: Tensor, result: Tensor, dim: Dims, keepdim: bool
) -> tuple[Tensor]:
    rank = self.meta.ndim
    grad, result = spread(grad, dim, keepdim, rank), spread(result, dim, keepdim, rank)
    share = (self - result).exp()
    return (grad * (share.conj() if share.is_complex() else share),)


logsumexp.cost(lambda self, *rest: Cost(flops=3 * self.numel))
logsumexp.batching(along)

special_logsumexp = define(
    "aten::special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"
)
special_logsumexp.describe("The logarithm of the sum of ``exp``, without overflow.")
special_logsumexp.composite(lambda self, dim, keepdim: logsumexp(self, dim, keepdim))


# --- counts and sums that skip -------------------------------------------------------

count_nonzero = define("aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", tags=REDUCTION)
count_nonzero.describe("How many elements are not zero: int64.")


@count_nonzero.batching
def count_nonzero_batching(info: VmapInfo, in_dims: Any, self: Tensor, dim: Any = None) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not rank:
        return (x != 0).to(aten.count_nonzero(x).dtype), 0
    dims = list(range(1, rank + 1)) if dim is None else [dim % rank + 1]
    return aten.count_nonzero.dim_IntList(x, dims), 0


count_nonzero_dims = define(
    "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", tags=REDUCTION
)
count_nonzero_dims.batching(along)


def _count_meta(self: TensorMeta, dim: Dims) -> TensorMeta:
    return reduced(self, dim, kind=int64)


def _count_array(xp: ModuleType, self: Array, dim: Dims) -> Array:
    counted: Array = (self != 0).sum(axis=axes_of(dim, self.ndim), dtype=xp.int64)
    return counted


for _page in (count_nonzero, count_nonzero_dims):
    _page.shape(_count_meta)
    _page.kernel(_count_array)
    _page.nondifferentiable()
    _page.cost(reduction_cost)


nansum = define(
    "aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
    "-> Tensor",
    tags=REDUCTION,
    variants=["out"],
)
nansum.describe("The sum of the elements that are not NaN.")


@nansum.shape
def nansum_shape(self: TensorMeta, dim: Dims, keepdim: bool, dtype: dtype | None) -> TensorMeta:
    check(not self.dtype.is_complex, lambda: f"nansum does not support complex inputs; got {self}")
    return reduced(self, dim, keepdim, sum_dtype(self, dtype))


@nansum.kernel
def nansum_kernel(
    xp: ModuleType, self: Array, dim: Dims, keepdim: bool, dtype: dtype | None
) -> Array:
    if self.dtype.kind in "biu":
        return sum_array(xp, self, dim, keepdim, dtype)
    x = wide(self)
    loops = loops_of_floats(xp, x)
    rows = None if loops is None else rows_along(x, axes_of(dim, x.ndim))
    if loops is not None and rows is not None and (dtype is None or dtype.numpy == x.dtype):
        sums: Array = loops.row_sums_of_numbers(rows)
        return sums.reshape(reduced_shape(x.shape, axes_of(dim, x.ndim), keepdim))
    if xp is np:
        whole = sum_array(xp, x, dim, keepdim, dtype)
        if not np.isnan(whole).any():  # there was no NaN
            return whole
    numbers = chosen(xp, ~xp.isnan(x), x, x.dtype.type(0))
    return sum_array(xp, numbers, dim, keepdim, dtype)


def nansum_grad(grad: Tensor, self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """The gradient of a sum, for what is not NaN."""
    grad = grad.to(self.dtype)
    kept = self.isnan().logical_not()
    shape = self.meta.shape
    if dim is None and not keepdim:
        return grad.expand(shape) * kept
    return expanded(grad, shape, dim, keepdim) * kept


nansum.linear(self=nansum_grad)


@nansum.tangent
def nansum_tangent(
    self: Tensor, self_t: Tensor, dim: Dims, keepdim: bool, dtype: dtype | None
) -> Tensor:
    """The sum of the tangents of what is summed; a NaN is left out with its tangent."""
    kept = self_t.masked_fill(self.isnan(), 0)
    return aten.sum(kept, dim, keepdim, dtype=dtype)


into_dtype_of_out(nansum)
nansum.cost(reduction_cost)
nansum.batching(along)

nanmean = define(
    "aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
    "-> Tensor"
)
nanmean.describe("The mean of the elements that are not NaN.")
nanmean_out = define(
    "aten::nanmean.out(Tensor self, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


def _numbers(self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """How many elements are no NaN."""
    check(
        self.dtype.category > 1,
        lambda: (
            f"nanmean(): expected input to have floating point or complex dtype but got "
            f"{self.dtype.scalar_name}"
        ),
    )
    source = self.detach()
    return (source != source).logical_not_().sum(dim, keepdim)


@nanmean.composite
def nanmean_by_parts(self: Tensor, dim: Dims, keepdim: bool, dtype: dtype | None) -> Tensor:
    numbers = _numbers(self, dim, keepdim)
    return self.nansum(dim, keepdim, dtype=dtype) / numbers


@nanmean_out.composite
def nanmean_into(
    self: Tensor, dim: Dims, keepdim: bool, dtype: dtype | None, out: Tensor
) -> Tensor:
    numbers = _numbers(self, dim, keepdim)
    check_castable("nanmean", promote_types(out.dtype, float32), out.dtype)
    summed: Tensor = aten.nansum(self, dim, keepdim, dtype=dtype, out=out)
    return summed.div_(numbers)
