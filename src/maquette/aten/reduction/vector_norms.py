"""Vector norms: of order p over any dimensions.

`linalg_vector_norm` and the older forms of ``norm`` share the array function, the checks and the
derivative. Matrix norms are in `matrix_norms.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import (
    LONG_SUM,
    Array,
    Dims,
    axes_of,
    dims_of,
    reduced,
    reduced_shape,
    spread,
    total,
)
from maquette.aten.common.batching_forms import along, to_front
from maquette.aten.common.fresh_writes import unless_wrapped
from maquette.aten.common.large_arrays import SMALL, rows_along
from maquette.aten.reduction.sums import REDUCTION, cast
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.core.symbols import is_true
from maquette.library.page import Cost, OperatorPage, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo


def norm_array(
    xp: ModuleType, self: Array, order: Number, axes: tuple[int, ...], keepdims: bool
) -> Array:
    """The p-norm of the elements over axes, in the accumulation type."""
    p, self = float(order.real), wide(self)
    if p and math.prod([self.shape[axis] for axis in axes]) == 1:
        alone = xp.abs(self)  # nothing is added up, so that no power may overflow
        return alone if keepdims else xp.squeeze(alone, axis=axes)
    if p == 2 and len(axes) == self.ndim and not keepdims and _is_plain(xp, self):
        flat = self.reshape(-1)
        return xp.sqrt(xp.vdot(flat, flat))  # one pass of BLAS: 2.6 to 0.3 ms for 10⁶ float32
    if p == 2 and axes and self.ndim and _is_plain(xp, self):
        rows = rows_along(self, axes)
        if rows is not None and rows.shape[-1] <= LONG_SUM:
            lengths = np.sqrt(_squared_lengths(xp, rows))
            return lengths.reshape(reduced_shape(self.shape, axes, keepdims))
    magnitude = xp.abs(self)
    with np.errstate(all="ignore"):
        if p == 0:
            counted: Array = (magnitude != 0).sum(axis=axes, keepdims=keepdims)
            return counted.astype(magnitude.dtype)
        if math.isinf(p):
            if not all(magnitude.shape[a] for a in axes):
                nothing: Array = magnitude.sum(axis=axes, keepdims=keepdims)
                return nothing if p > 0 else nothing + magnitude.dtype.type(xp.inf)
            extreme = magnitude.max if p > 0 else magnitude.min
            most: Array = extreme(axis=axes, keepdims=keepdims)
            return most
        if p == 1:
            return total(xp, magnitude, axes, keepdims)
        if p == 2:
            return xp.sqrt(total(xp, magnitude * magnitude, axes, keepdims))
        powers = magnitude ** magnitude.dtype.type(p)
        result: Array = total(xp, powers, axes, keepdims) ** magnitude.dtype.type(1 / p)
        return result


def _squared_lengths(xp: ModuleType, rows: Array) -> Array:
    """The sum of squares of each row: by BLAS, a row at a time or of all squares at once."""
    if rows.shape[-1] >= _LONG_ROW:
        lengths: Array = np.vecdot(rows, rows)
        return lengths
    return total(xp, rows * rows, (rows.ndim - 1,), False)


_LONG_ROW = 64  # elements that are worth a call of BLAS (1,000 rows of 1,000: 0.18 to 0.07 ms)


def _is_plain(xp: ModuleType, x: Array) -> bool:
    """Whether the elements are floats in one piece of NumPy's memory, and many."""
    plain = xp is np and x.dtype.kind == "f" and x.itemsize >= 4
    return bool(plain and x.size >= SMALL and x.flags.c_contiguous)


def check_norm(name: str, self: TensorMeta, kind: dtype | None) -> dtype:
    """The dtype that a norm is taken in; RuntimeError if there is none."""
    check(
        self.dtype.category > 1,
        lambda: (
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{self.dtype.scalar_name}"
        ),
    )
    if kind is None:
        return self.dtype
    check(
        kind.category > 1,
        lambda: f"{name}: dtype should be floating point or complex, but got {kind.scalar_name}",
    )
    check(
        kind.is_complex == self.dtype.is_complex,
        lambda: (
            f"{name}: dtype should be {'complex' if self.dtype.is_complex else 'real'} for "
            f"{'complex' if self.dtype.is_complex else 'real'} inputs, but got {kind.scalar_name}"
        ),
    )
    check(
        kind.itemsize >= self.dtype.itemsize,
        lambda: (
            f"{name}: the dtype of the input ({self.dtype.scalar_name}) should be convertible "
            f"without narrowing to the specified dtype ({kind.scalar_name})"
        ),
    )
    return kind


def check_norm_of_nothing(self: TensorMeta, order: Number, dim: Dims) -> None:
    """A norm that is an extreme, or divides, needs an element."""
    if not is_true(self.numel == 0) or (0 <= order.real < math.inf):
        return
    check(
        dim is not None and dim != (),
        lambda: (
            f"linalg.vector_norm cannot compute the {order} norm on an empty tensor because "
            f"the operation does not have an identity"
        ),
    )
    empty = [d for d in dims_of(dim, self.ndim) if is_true(self.shape[d] == 0)]
    check(
        not empty,
        lambda: (
            f"linalg.vector_norm cannot compute the {order} norm on the dimension {empty[0]} "
            f"because this dimension is empty and the operation does not have an identity"
        ),
    )


def norm_grad(
    grad: Tensor, self: Tensor, p: Number, result: Tensor, dim: Dims, keepdim: bool
) -> Tensor:
    """The derivative of the p-norm; a subgradient where it has none."""
    rank, order = self.meta.ndim, float(p.real)
    dims = dims_of(dim, rank)
    if dim is not None and dim != ():
        grad, result = spread(grad, dim, keepdim, rank), spread(result, dim, keepdim, rank)
    if order == 0:
        return self.new_zeros(self.meta.shape)
    if order == 1:
        return self.sgn() * grad
    if order == 2:
        return grad * unless_wrapped("masked_fill", self / result, result == 0, 0)
    if math.isinf(order):
        magnitude = self.abs()
        ties = (magnitude == result).logical_or(magnitude.isnan())
        return grad / ties.sum(dims, True) * ties * self.sgn()
    if order < 1:
        powers = unless_wrapped("pow", self.abs(), order - 1)
        powers = unless_wrapped("masked_fill", powers, self == 0, 0)
        powers = self.sgn() * powers
        return powers * result.pow(1 - order) * grad
    powers = unless_wrapped("pow", self.abs(), order - 1 if order < 2 else order - 2)
    powers = self.sgn() * powers if order < 2 else self * powers
    scale = unless_wrapped("masked_fill", grad / result.pow(order - 1), result == 0, 0)
    return powers * scale


linalg_vector_norm = define(
    "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    tags=REDUCTION,
    variants=["out"],
)
linalg_vector_norm.describe("The norm of order `ord` of vectors in dimensions `dim`.")
linalg_vector_norm.autocast(cuda="float32 dtype")


@linalg_vector_norm.shape
def linalg_vector_norm_shape(
    self: TensorMeta, ord: Number, dim: Dims, keepdim: bool, dtype: dtype | None
) -> TensorMeta:
    check(
        not isinstance(ord, complex),
        lambda: (
            f"linalg.vector_norm: Expected a non-complex scalar as the order of norm, got {ord}"
        ),
    )
    kind = check_norm("linalg.vector_norm", self, dtype)
    check_norm_of_nothing(self, ord, dim)
    return reduced(self, dim, keepdim, kind.to_real())


@linalg_vector_norm.kernel
def linalg_vector_norm_kernel(
    xp: ModuleType, self: Array, ord: Number, dim: Dims, keepdim: bool, dtype: dtype | None
) -> Array:
    return norm_array(xp, cast(self, dtype), ord, axes_of(dim, self.ndim), keepdim)


linalg_vector_norm.derivative(
    self=lambda grad, self, ord, result, dim, keepdim: norm_grad(
        grad, self, ord, result, dim, keepdim
    )
)
linalg_vector_norm.exact_out()
linalg_vector_norm.cost(lambda self, *rest: Cost(flops=2 * self.numel))
linalg_vector_norm.batching(along)


def _norm_page(
    overload: str, parameters: str, place: Callable[..., tuple[object, ...]], out: str
) -> OperatorPage:
    """A form of the older ``norm``; ``place`` gives its p, dim, keepdim and dtype."""
    page = define(f"aten::norm.{overload}({parameters}) -> Tensor", tags=REDUCTION, variants=[out])
    page.describe("The norm of order `p`, by default 2, of the whole or of vectors in `dim`.")

    def shape(self: TensorMeta, *rest: object) -> TensorMeta:
        p, dim, keepdim, kind = place(*rest)
        wanted = check_norm("norm()", self, kind)  # type: ignore[arg-type]  # a dtype, by the schema
        if isinstance(p, (int, float)):
            check_norm_of_nothing(self, p, dim)  # type: ignore[arg-type]  # dimensions, by the schema
        return reduced(self, dim, bool(keepdim), wanted.to_real())  # type: ignore[arg-type]  # as above

    def kernel(xp: ModuleType, self: Array, *rest: object) -> Array:
        p, dim, keepdim, kind = place(*rest)
        order = 2 if p is None else p
        x = cast(self, kind)  # type: ignore[arg-type]  # a dtype, by the schema
        return norm_array(xp, x, order, axes_of(dim, self.ndim), bool(keepdim))  # type: ignore[arg-type]  # as above

    page.shape(shape)
    page.kernel(kernel)
    page.exact_out()
    page.cost(lambda self, *rest: Cost(flops=2 * self.numel))
    return page


norm_whole = _norm_page(
    "Scalar", "Tensor self, Scalar p=2", lambda p: (p, None, False, None), "Scalar_out"
)
norm_whole.autocast(cuda="float32")


@norm_whole.batching
def norm_whole_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, p: Any = 2, **kwargs: Any
) -> tuple[Tensor, int]:
    x = to_front(self, in_dims[0])
    x = x if x.meta.ndim > 1 else x.unsqueeze(-1)
    dims = list(range(1, x.meta.ndim))
    return linalg_vector_norm(x, 2 if p is None else p, dims, **kwargs), 0


norm_dim = _norm_page(
    "ScalarOpt_dim",
    "Tensor self, Scalar? p, int[1] dim, bool keepdim=False",
    lambda p, dim, keepdim: (p, dim, keepdim, None),
    "out",
)
norm_dim.node_name("NormBackward1")
norm_dim.autocast(cuda="float32")
norm_dim.batching(along)
norm_dim_dtype = _norm_page(
    "ScalarOpt_dim_dtype",
    "Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype",
    lambda p, dim, keepdim, dtype: (p, dim, keepdim, dtype),
    "dtype_out",
)
norm_dim_dtype.node_name("NormBackward3")
norm_dim_dtype.batching(along)
norm_dtype = _norm_page(
    "ScalarOpt_dtype",
    "Tensor self, Scalar? p, *, ScalarType dtype",
    lambda p, dtype: (p, None, False, dtype),
    "ScalarOpt_dtype_out",
)
norm_dtype.node_name("NormBackward2")
norm_dtype.batching(norm_whole_batching)
norm_whole.derivative(
    self=lambda grad, self, p, result: norm_grad(grad, self, p, result, None, False)
)
norm_dtype.derivative(
    self=lambda grad, self, p, result: norm_grad(
        grad, self, 2 if p is None else p, result, None, False
    )
)
for _page in (norm_dim, norm_dim_dtype):
    _page.derivative(
        self=lambda grad, self, p, result, dim, keepdim: norm_grad(
            grad, self, 2 if p is None else p, result, dim, keepdim
        )
    )

linalg__powsum = define(
    "aten::linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor"
)
linalg__powsum.describe("The sum of the absolute values to the power `ord`: a norm without root.")


@linalg__powsum.composite
def powsum(self: Tensor, ord: Number, dim: Dims, keepdim: bool, dtype: dtype | None) -> Tensor:
    x = self if dtype is None else self.to(dtype)
    summed: Tensor = x.abs().pow(ord).sum(dim, keepdim)
    return summed
