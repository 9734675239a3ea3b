"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import running
from maquette.aten.common.axes import Array, accumulator
from maquette.aten.common.batching_forms import along
from maquette.aten.common.element_types import check_no_bool
from maquette.aten.common.fresh_writes import into_fresh, zeros_beside
from maquette.aten.common.large_arrays import loops_of_inexact, loops_of_places
from maquette.aten.common.operators import aten
from maquette.aten.reduction.linear_recurrence import recurrence_from_end
from maquette.aten.reduction.min_max import check_ordered
from maquette.aten.reduction.sums import (
    cast,
    into_dtype_of_out,
    reduction_cost,
    sum_dtype,
)
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import dtype, finfo, int64
from maquette.core.errors import check, check_index, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, set_shape_rule
from maquette.tensor.tensor import Tensor

_DOUBLE: dict[np.dtype[np.generic], np.dtype[np.generic]] = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}
BOTH = (Variant.INPLACE, Variant.OUT)


# --- sums and products ---------------------------------------------------------------


def _scan(name: str, ufunc: str) -> OperatorPage:
    """The page of cumsum or cumprod; integers run in int64."""
    page = define(
        f"aten::{name}(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        tags=[Tag.core] if name == "cumsum" else [],
        variants=BOTH,
    )

    def shape(self: TensorMeta, dim: int, dtype: dtype | None) -> TensorMeta:
        wrap_dim(dim, self.ndim)
        kind = sum_dtype(self, dtype)
        if not is_true(self.numel == 0):
            check_no_bool(f"{name}_out_cpu", kind)
        return self.fresh(self.shape, kind)

    def kernel(xp: ModuleType, self: Array, dim: int, dtype: dtype | None) -> Array:
        x = cast(self, dtype)
        if not x.ndim:
            return x.copy()
        kind, x = _running_type(x.dtype), wide(x)
        loops = loops_of_inexact(xp, x)
        if loops is not None:
            by_loop = loops.running_sums if ufunc == "add" else loops.running_products
            looped: Array = by_loop(x, dim % x.ndim, kind)
            return looped
        result: Array = running(xp, ufunc, x, dim, kind)
        return result

    page.shape(shape)
    page.kernel(kernel)
    into_dtype_of_out(page)
    _keep_dtype_in_place(page)
    page.cost(reduction_cost)
    return page


def _running_type(kind: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The type to run in, as PyTorch's: double precision for single, single for half; int64."""
    if kind.kind in "biu":
        return np.dtype(np.int64)
    return _DOUBLE.get(kind) or accumulator(kind)


def _keep_dtype_in_place(page: OperatorPage) -> None:
    """Let the in-place form run in the tensor's own dtype only."""
    (variant,) = [v for v in page.variants if Tag.inplace in v.tags]
    fitted = variant.shape_rule
    assert fitted is not None

    def shape(self: TensorMeta, dim: int, dtype: dtype | None) -> object:
        check(
            dtype is None or dtype is self.dtype,
            lambda: (
                f"Bad in-place call: input tensor dtype {self.dtype} and output tensor dtype "
                f"{dtype} should match"
            ),
        )
        return fitted(self, dim, dtype)

    set_shape_rule(variant, shape)


cumsum = _scan("cumsum", "add")
cumsum.describe("The sums of the elements so far along `dim`; of the same shape.")
cumsum.autocast(cuda="float32 dtype")
cumprod = _scan("cumprod", "multiply")
cumprod.describe("The products of the elements so far along `dim`; of the same shape.")
cumprod.autocast(cuda="float32 dtype")


def reversed_sum(t: Tensor, dim: int) -> Tensor:
    """The running sum from the end."""
    if t.meta.numel <= 1 or t.meta.shape[dim] == 1:
        return t
    return t.flip((dim,)).cumsum(dim).flip((dim,))


cumsum.linear(self=lambda grad, dim, self_meta: reversed_sum(grad.to(self_meta.dtype), dim))
cumsum.batching(along)


def cumprod_grad(grad: Tensor, self: Tensor, dim: int, result: Tensor) -> Tensor:
    """The product before each factor times the sum of what it stands in: no division, any zeros."""
    if not self.meta.ndim or self.meta.numel <= 1 or self.meta.shape[dim] == 1:
        return grad
    dim = wrap_dim(dim, self.meta.ndim)
    x, y = (self.conj(), result.conj()) if self.is_complex() else (self, result)
    one = x.new_ones(tuple(1 if d == dim else s for d, s in enumerate(x.meta.shape)))
    before = aten.cat([one, y.narrow(dim, 0, x.meta.shape[dim] - 1)], dim)
    behind = recurrence_from_end(x, grad, dim)
    # Behind a zero nothing counts, however large the products there are.
    found: Tensor = aten.where(
        before.eq(0).logical_and(behind.isfinite().logical_not()), 0, before * behind
    )
    return found


cumprod.derivative(
    self=lambda grad, self, dim, result: cumprod_grad(grad, self.to(grad.dtype), dim, result)
)
cumprod.batching(along)


# --- extremes ------------------------------------------------------------------------


def _running_extreme(name: str, ufunc: str) -> OperatorPage:
    """The page of cummax or cummin: the last of equal elements counts, NaN stays."""
    page = define(
        f"aten::{name}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        variants=[
            f"aten::{name}.out(Tensor self, int dim, *, Tensor(a!) values, Tensor(b!) indices) "
            f"-> (Tensor(a!) values, Tensor(b!) indices)"
        ],
    )

    def shape(self: TensorMeta, dim: int) -> tuple[TensorMeta, TensorMeta]:
        check_ordered(name, self)
        check_index(
            self.ndim > 0 or dim in (-1, 0),
            lambda: f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}",
        )
        wrap_dim(dim, self.ndim)
        return self.fresh(self.shape), self.fresh(self.shape, int64)

    def kernel(xp: ModuleType, self: Array, dim: int) -> tuple[Array, Array]:
        if not self.ndim:
            return self.copy(), xp.zeros((), xp.int64)
        x = wide(self)
        loops = loops_of_places(xp, x.size, x)
        if loops is not None and x.dtype.kind in "fiu":
            values, places = loops.running_extreme(x, dim % x.ndim, largest=ufunc == "maximum")
            return values, places
        values = running(xp, ufunc, x, dim)
        is_new = x == values
        if x.dtype.kind == "f":
            is_new = is_new | xp.isnan(x) & xp.isnan(values)
        steps = xp.arange(x.shape[dim]).reshape(
            [-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]
        )
        return values, running(xp, "maximum", xp.where(is_new, steps, 0), dim)

    page.shape(shape)
    page.kernel(kernel)
    page.derivative("self")(
        lambda grads, self_meta, dim, result1: (
            into_fresh(
                "scatter_add", zeros_beside(grads[0], self_meta.shape), dim, result1, grads[0]
            ),
        )
    )
    page.nondifferentiable(1)
    page.exact_out()
    page.cost(reduction_cost)
    return page


cummax = _running_extreme("cummax", "maximum")
cummax.describe(
    "The largest elements so far along `dim`, and their positions: both of the same shape."
)
cummax.batching(along)
cummin = _running_extreme("cummin", "minimum")
cummin.describe(
    "The smallest elements so far along `dim`, and their positions: both of the same shape."
)
cummin.batching(along)


# --- logarithms of running sums ------------------------------------------------------

logcumsumexp = define("aten::logcumsumexp(Tensor self, int dim) -> Tensor", variants=[Variant.OUT])
logcumsumexp.describe("The logarithm of the sums of ``exp`` so far along `dim`; of the same shape.")


@logcumsumexp.shape
def logcumsumexp_shape(self: TensorMeta, dim: int) -> TensorMeta:
    wrap_dim(dim, self.ndim)
    check_not_implemented(
        self.dtype.category > 1,
        lambda: f"\"logcumsumexp_out_cpu\" not implemented for '{self.dtype.scalar_name}'",
    )
    return self.fresh(self.shape)


@logcumsumexp.kernel
def logcumsumexp_kernel(xp: ModuleType, self: Array, dim: int) -> Array:
    x = wide(self)
    if not x.ndim or not x.size:
        return x.copy()
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c":
            return _complex_logcumsumexp(xp, x, dim)
        result: Array = running(xp, "logaddexp", x, dim)
    return result


def _complex_logcumsumexp(xp: ModuleType, x: Array, dim: int) -> Array:
    """Step by step, so that the phase goes on from step to step without being wrapped."""
    rows = xp.moveaxis(x, dim, 0)
    sums = [xp.full_like(rows[0], -xp.inf)]
    for row in rows:
        sums.append(_complex_logaddexp(xp, row, sums[-1]))
    result: Array = xp.moveaxis(xp.stack(sums[1:]), 0, dim)
    return result


def _complex_logaddexp(xp: ModuleType, a: Array, b: Array) -> Array:
    """log(exp(a) + exp(b)); the phase of an infinitely small sum is 0, NaN in a part is NaN."""
    low, high = xp.where(a.real < b.real, a, b), xp.where(a.real >= b.real, a, b)
    found = xp.log1p(xp.exp(low - high)) + high
    endless = xp.log(_exp_of_infinity(xp, low) + _exp_of_infinity(xp, high))
    both = ~xp.isfinite(high.real) & (low.real == high.real)
    found = xp.where(both, xp.where(low.real < 0, low, endless), found)
    nothing = a.dtype.type(complex(xp.nan, xp.nan))
    result: Array = xp.where(xp.isnan(a) | xp.isnan(b), nothing, found).astype(a.dtype)
    return result


def _exp_of_infinity(xp: ModuleType, x: Array) -> Array:
    """exp(inf + i phase), whose parts are infinite but for a phase of 0."""
    phase = x.imag
    made = xp.full_like(x, xp.inf)
    made.real = xp.where(phase == 0, xp.inf, xp.inf * xp.cos(phase))
    made.imag = xp.where(phase == 0, 0, xp.inf * xp.sin(phase))
    return made


def logcumsumexp_grad(grad: Tensor, self: Tensor, dim: int, result: Tensor) -> Tensor:
    """In logarithms, so nothing overflows; of real gradients the signs apart.

    Zeros have no logarithm: their part is a plain sum, which is 0 and has the right derivative.
    """
    if not self.meta.ndim or not self.meta.numel:
        return grad
    lowest = grad.new_full((), max(_LOWEST_LOG, finfo(grad.dtype).min))
    one = grad.new_ones(())

    def part(chosen: Tensor) -> Tensor:
        size = aten.where(chosen, grad, one)
        logs = (size.conj() if grad.is_complex() else size.abs()).log()
        shifted = aten.where(chosen, logs, lowest) - result
        ahead = shifted.flip((dim,)).logcumsumexp(dim).flip((dim,))
        return (ahead + self).exp()

    inner, outer = _weights(self, result, dim)
    zeros = reversed_sum(aten.where(grad == 0, grad, 0) * outer.conj(), dim) * inner.conj()
    if grad.is_complex():
        return part(grad != 0).conj() + zeros
    return part(grad > 0) - part(grad < 0) + zeros


def _weights(self: Tensor, result: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """``exp(self)`` and ``exp(-result)``, scaled by one number so that neither overflows."""
    most = (self.real if self.is_complex() else self).amax(dim, True).detach()
    most = aten.where(most.isfinite(), most, 0)
    rest = most - result
    highest = min(_HIGHEST_LOG, math.floor(math.log(finfo(self.dtype).max)))
    if not self.is_complex():
        return (self - most).exp(), rest.clamp_max(highest).exp()
    return (self - most).exp(), aten.polar(rest.real.clamp_max(highest).exp(), rest.imag)


_HIGHEST_LOG = 85  # its exponential is finite in float32
_LOWEST_LOG = -1e30  # the exponential of this and of anything added to it is 0

logcumsumexp.derivative(
    self=lambda grad, self, dim, result: logcumsumexp_grad(grad, self, dim, result)
)


@logcumsumexp.tangent
def logcumsumexp_tangent(self: Tensor, self_t: Tensor, dim: int, result: Tensor) -> Tensor:
    """The mean of the tangents so far, weighted with the exponentials; zeros as in the gradient."""
    if not self.meta.ndim or not self.meta.numel:
        return self_t.clone()
    lowest, one = self.new_full((), _LOWEST_LOG), self.new_ones(())

    def part(chosen: Tensor) -> Tensor:
        size = aten.where(chosen, self_t, one)
        logs = (size if self.is_complex() else size.abs()).log()
        found: Tensor = ((self + aten.where(chosen, logs, lowest)).logcumsumexp(dim) - result).exp()
        return found

    inner, outer = _weights(self, result, dim)
    zeros: Tensor = (aten.where(self_t == 0, self_t, 0) * inner).cumsum(dim) * outer
    if self.is_complex():
        return part(self_t != 0) + zeros
    return part(self_t > 0) - part(self_t < 0) + zeros


logcumsumexp.exact_out()
logcumsumexp.cost(reduction_cost)
logcumsumexp.batching(along)
