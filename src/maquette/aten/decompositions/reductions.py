"""Reductions, and the products that are sums."""

from __future__ import annotations

import math
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, by_page, by_vmap, decomposes
from maquette.core.dtype import dtype as DType


@decomposes("sum", wide=False)
def sum_all(self: Any, dtype: DType | None) -> Any:
    return aten.sum(self, [], False, dtype=dtype)


@decomposes("nansum", wide=False)
def nansum(self: Any, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Any:
    clean = aten.where(self != self, 0, self)
    return aten.sum(clean, list(dim or ()), keepdim, dtype=dtype)


@decomposes("all")
def all_elements(self: Any) -> Any:
    return aten.logical_not(aten.any(aten.logical_not(self)))


@decomposes("all.dim")
def all_dim(self: Any, dim: int, keepdim: bool) -> Any:
    return aten.logical_not(aten.any(aten.logical_not(self), dim, keepdim))


@decomposes("all.dims")
def all_dims(self: Any, dim: Ints | None, keepdim: bool) -> Any:
    turned = aten.logical_not(self)
    return aten.logical_not(aten.any(turned, None if dim is None else list(dim), keepdim))


@decomposes("aminmax")
def aminmax(self: Any, dim: int | None, keepdim: bool) -> Any:
    dims = [] if dim is None else [dim]
    return aten.amin(self, dims, keepdim), aten.amax(self, dims, keepdim)


@decomposes("count_nonzero")
def count_nonzero(self: Any, dim: int | None) -> Any:
    return (self != 0).sum([] if dim is None else [dim])


@decomposes("count_nonzero.dim_IntList")
def count_nonzero_dims(self: Any, dim: Ints) -> Any:
    return (self != 0).sum(list(dim))


@decomposes("logsumexp")
def logsumexp(self: Any, dim: Ints, keepdim: bool) -> Any:
    dims = list(dim)
    if not self.is_floating_point() and not self.is_complex():
        self = self.to(aten.true_divide(self, 1).dtype)
    if not self.numel():
        return aten.log(aten.exp(self).sum(dims, keepdim))
    real = aten.real(self) if self.is_complex() else self
    top = aten.amax(real, dims, True)
    top = aten.where(aten.abs(top) == math.inf, 0, top)
    total = aten.log(aten.exp(self - top).sum(dims, keepdim))
    gone = dims if dims else list(range(self.ndim))
    return total + (top if keepdim or not self.ndim else aten.squeeze(top, gone))


@decomposes("std.correction")
def std(self: Any, dim: Ints | None, correction: float | None, keepdim: bool) -> Any:
    return aten.sqrt(aten.var(self, dim, correction=correction, keepdim=keepdim))


@decomposes("std_mean.correction")
def std_mean(self: Any, dim: Ints | None, correction: float | None, keepdim: bool) -> Any:
    var, mean = aten.var_mean(self, dim, correction=correction, keepdim=keepdim)
    return aten.sqrt(var), mean


@decomposes("norm.Scalar")
def norm(self: Any, p: float) -> Any:
    return aten.linalg_vector_norm(self, p)


@decomposes("norm.ScalarOpt_dtype")
def norm_dtype(self: Any, p: float | None, dtype: DType) -> Any:
    return aten.linalg_vector_norm(self, 2.0 if p is None else p, dtype=dtype)


@decomposes("norm.ScalarOpt_dim")
def norm_dim(self: Any, p: float | None, dim: Ints, keepdim: bool) -> Any:
    return aten.linalg_vector_norm(self, 2.0 if p is None else p, list(dim) or None, keepdim)


@decomposes("norm.ScalarOpt_dim_dtype")
def norm_dim_dtype(self: Any, p: float | None, dim: Ints, keepdim: bool, dtype: DType) -> Any:
    order = 2.0 if p is None else p
    return aten.linalg_vector_norm(self, order, list(dim) or None, keepdim, dtype=dtype)


@decomposes("trace")
def trace(self: Any) -> Any:
    return aten.diagonal(self).sum()


# --- products -------------------------------------------------------------------------------------


@decomposes("mv")
def mv(self: Any, vec: Any) -> Any:
    return (self * vec).sum([1])


@decomposes("dot")
def dot(self: Any, tensor: Any) -> Any:
    return (self * tensor).sum([])


@decomposes("vdot")
def vdot(self: Any, other: Any) -> Any:
    return (aten.conj_physical(self) * other).sum([])


@decomposes("linalg_cross")
def cross(self: Any, other: Any, dim: int) -> Any:
    def turned(x: Any, order: list[int]) -> Any:
        return aten.cat([aten.narrow(x, dim, i, 1) for i in order], dim)

    self, other = aten.broadcast_tensors([self, other])
    one = turned(self, [1, 2, 0]) * turned(other, [2, 0, 1])
    return one - turned(self, [2, 0, 1]) * turned(other, [1, 2, 0])


by_page("_euclidean_dist")
by_page("affine_grid_generator")


by_vmap("addmm", "addmv", "dist", core=False)
by_vmap("addr", "baddbmm", "renorm")
