"""Slices and elements written at positions: index_add, index_copy, index_fill, index_reduce, put.

Functional, in-place and ``out=`` forms of one array function each.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import is_narrow, wide
from maquette.aten.common.array_libraries import (
    assigned_at,
    combined_at,
    compressed_at,
    data_says,
    is_array,
    spread_at,
)
from maquette.aten.common.axes import Array
from maquette.aten.common.formula_helpers import times
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.large_arrays import added_slices
from maquette.aten.common.memory_overlap import refuse_overlap, warn_of_expanded
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, result_dtype
from maquette.aten.indexing.gathering import check_flat
from maquette.aten.indexing.index_batching import (
    check_masked,
    index_add_batching,
    index_copy_batching,
    index_fill_scalar_batching,
    index_fill_tensor_batching,
    index_reduce_batching,
    masked_scatter_batching,
    put_batching,
)
from maquette.aten.indexing.scattering import (
    combined_along,
    out_meta,
    reduce_grad,
    reduce_into,
    ufunc_of,
)
from maquette.core.broadcast import broadcast_shapes, wrap_dim
from maquette.core.dtype import bool_, from_numpy_dtype, int32, int64
from maquette.core.errors import check, check_data, check_index, check_not_implemented, of_data
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.library.variants import check_writable
from maquette.tensor.tensor import Tensor

Check = Callable[..., None]
Write = Callable[..., Array]


def _written(
    name: str,
    overload: str,
    arguments: str,
    check_call: Check,
    write: Write,
    *,
    out: bool,
    dense: bool = False,
) -> list[OperatorPage]:
    """Pages that copy the tensor and write into the copy, or into itself, or into ``out``.

    dense: the copy is contiguous whatever the tensor's order is.
    """
    dot = f".{overload}" if overload else ""
    plain = define(f"aten::{name}{dot}(Tensor self, {arguments}) -> Tensor")
    inplace = define(
        f"aten::{name}_{dot}(Tensor(a!) self, {arguments}) -> Tensor(a!)", tags=[Tag.inplace]
    )

    @plain.shape
    def plain_shape(self: TensorMeta, *params: object) -> TensorMeta:
        check_call(self, *params)
        return self.fresh(self.shape) if dense else self.like()

    @plain.kernel
    def plain_kernel(xp: ModuleType, self: Array, *params: object) -> Array:
        made: Array = np.array(self, order="C") if xp is np and dense else xp.array(self, copy=True)
        return write(xp, made, *params)

    @inplace.shape
    def inplace_shape(self: TensorMeta, *params: object) -> TensorMeta:
        check_call(self, *params)
        if name != "index_fill":  # which warns
            check_writable(f"{name}_", self)
        return self

    inplace.kernel(write)
    refuse_overlap(inplace, "index", "source", let_expanded=name == "index_fill")
    pages = [plain, inplace]
    if out:
        pages.append(_out_page(name, arguments, plain_shape, plain_kernel))
        refuse_overlap(pages[-1], "index", "source")
    return pages


def _out_page(
    name: str, arguments: str, shape_of: Callable[..., TensorMeta], value_of: Callable[..., Array]
) -> OperatorPage:
    star = ", " if "*, " in arguments else ", *, "
    page = define(
        f"aten::{name}.out(Tensor self, {arguments}{star}Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    )

    @page.shape
    def shape(*params: object) -> TensorMeta:
        result = shape_of(*params[:-1])
        target = out_meta(result.fresh(result.shape), params[-1])
        check_writable(name, target)
        return target

    @page.kernel
    def kernel(xp: ModuleType, *params: object) -> None:
        target = params[-1]
        target[...] = value_of(xp, *params[:-1])  # type: ignore[index]  # an array

    return page


def _check_index(name: str, self: TensorMeta, dim: int, index: TensorMeta) -> int:
    axis = wrap_dim(dim, self.ndim)
    check_index(
        index.ndim <= 1,
        lambda: (
            f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{index.dtype.scalar_name} and size: {list(index.shape)}"
        ),
    )
    check(
        index.dtype in (int32, int64),
        lambda: (
            f"{name}(): Expected dtype int32/int64 for index but got: {index.dtype.scalar_name}"
        ),
    )
    return axis


def _check_has_dim(name: str, axis: int, source: TensorMeta) -> None:
    check(
        axis == 0 or axis < source.ndim,
        lambda: (
            f"{name}(): Indexing dim {axis} is out of bounds of the source tensor with dim "
            f"{source.ndim}"
        ),
    )


def _check_source(
    name: str, self: TensorMeta, axis: int, index: TensorMeta, source: TensorMeta
) -> None:
    check(
        self.dtype is source.dtype,
        lambda: (
            f"{name}(): self and source expected to have the same dtype, but got (self) "
            f"{self.dtype.scalar_name} and (source) {source.dtype.scalar_name}"
        ),
    )
    count = source.shape[axis] if axis < source.ndim else 1
    # index_copy_ alone has a number where a vector of one is due, and asks for the count last.
    loose = name == "index_copy_"
    if not loose:
        _check_count(name, index, count, axis)
    own = self.shape[:axis] + self.shape[axis + 1 :]
    given = source.shape[:axis] + source.shape[axis + 1 :]
    check(
        (own == given and self.ndim == source.ndim)
        or (loose and 0 in (self.ndim, source.ndim) and self.ndim + source.ndim <= 1),
        lambda: (
            f"source tensor shape must match self tensor shape, excluding the specified "
            f"dimension. Got self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
        ),
    )
    if loose:
        _check_count(name, index, count, axis, check_index)


def _check_count(
    name: str, index: TensorMeta, count: int, axis: int, checked: Callable[..., None] = check
) -> None:
    checked(
        index.numel == count,
        lambda: (
            f"{name}(): Number of indices ({index.numel}) should be equal to source.size(dim): "
            f"({count}), for dim: {axis}"
        ),
    )


def lines(xp: ModuleType, array: Array, dim: int) -> Array:
    """A view with the dimension in front; a 0-dim array has one line."""
    moved: Array = array.reshape(1) if array.ndim == 0 else xp.moveaxis(array, dim, 0)
    return moved


def out_of_lines(xp: ModuleType, lined: Array, like: Array, dim: int) -> Array:
    """The inverse of `lines`, for an array like this one."""
    moved: Array = lined.reshape(()) if like.ndim == 0 else xp.moveaxis(lined, 0, dim)
    return moved


def _in_lines(
    index: Array, size: int, *, least: int = 0, error: type[Exception] = IndexError
) -> Array:
    """The positions as a vector, refused where they are none; from ``least`` on they count."""
    flat = index.reshape(-1)
    if flat.size and data_says(lambda: flat.max() >= size or flat.min() < least):
        extreme = flat.max() if flat.max() >= size else flat.min()
        raise of_data(
            error(f"index out of range in self: index {extreme} is out of bounds for size {size}")
        )
    return flat


# --- index_add -----------------------------------------------------------------------


def _check_add(
    self: TensorMeta, dim: int, index: TensorMeta, source: TensorMeta, alpha: Number
) -> None:
    axis = _check_index("index_add", self, dim, index)
    _check_has_dim("index_add_", axis, source)
    _check_source("index_add", self, axis, index, source)


def _add(
    xp: ModuleType, self: Array, dim: int, index: Array, source: Array, alpha: Number
) -> Array:
    target = lines(xp, self, dim)
    # PyTorch scatters where it can, and says so in another error.
    scattered = self.ndim in (2, 3) and alpha == 1 and index.dtype == np.int64
    error = RuntimeError if scattered else IndexError
    where = _in_lines(index, len(target), error=error)
    factor = result_dtype(alpha, from_numpy_dtype(source.dtype))
    scaled = source if alpha == 1 else source * source.dtype.type(factor)
    if xp is np and self.ndim and added_slices(self, dim % self.ndim, where, scaled):
        return self
    return out_of_lines(
        xp, combined_at(xp, "add", target, where, lines(xp, scaled, dim)), self, dim
    )


index_add, index_add_, index_add_out = _written(
    "index_add",
    "",
    "int dim, Tensor index, Tensor source, *, Scalar alpha=1",
    _check_add,
    _add,
    out=True,
    dense=True,
)
index_add.batching_decomposition(index_add_batching)
describe(
    "index_add",
    "`self` with ``alpha`` times the slices of `source` added along `dim` at the positions "
    "`index`.",
)


def _source_grad(grad: Tensor, source: TensorMeta, dim: int, index: Tensor) -> Tensor:
    """Slices of the gradient where the source's slices went."""
    if source.ndim:
        taken = grad.index_select(dim, index)
        return taken.expand(source.shape) if taken.meta.ndim <= source.ndim else taken
    taken = grad.index_select(dim, index.squeeze(0))
    return taken.reshape(()) if taken.meta.ndim else taken


def _added_grad(
    grad: Tensor, source_meta: TensorMeta, dim: int, index: Tensor, alpha: Number
) -> Tensor:
    taken = _source_grad(grad, source_meta, dim, index)
    return taken if alpha == 1 else times(taken, alpha)


for _page in (index_add, index_add_, index_add_out):
    _page.linear(self=lambda grad: grad, source=_added_grad)

# --- index_copy ----------------------------------------------------------------------


def _check_copy(self: TensorMeta, dim: int, index: TensorMeta, source: TensorMeta) -> None:
    axis = _check_index("index_copy_", self, dim, index)
    check(
        index.dtype is int64,
        lambda: (
            f"index_copy_(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        ),
    )
    check_index(
        self.ndim == source.ndim or not self.ndim or not source.ndim,
        lambda: (
            f"index_copy_(): When source and destination are not scalars, their dimensionality "
            f"must match. Source dimensionality ({source.ndim}), destination dimensionality "
            f"({self.ndim})"
        ),
    )
    _check_source("index_copy_", self, axis, index, source)


def _copy(xp: ModuleType, self: Array, dim: int, index: Array, source: Array) -> Array:
    target = lines(xp, self, dim)
    where = _in_lines(index, len(target))
    return out_of_lines(xp, assigned_at(xp, target, where, lines(xp, source, dim)), self, dim)


index_copy, index_copy_, index_copy_out = _written(
    "index_copy",
    "",
    "int dim, Tensor index, Tensor source",
    _check_copy,
    _copy,
    out=True,
    dense=True,
)
describe(
    "index_copy",
    "`self` with the slices along `dim` at the positions `index` replaced by those of `source`.",
)
index_copy.autocast(cpu="promote")
index_copy.batching_decomposition(index_copy_batching)
for _page in (index_copy, index_copy_, index_copy_out):
    _page.linear(
        self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
        source=lambda grad, source_meta, dim, index: _source_grad(grad, source_meta, dim, index),
    )

# --- index_fill ----------------------------------------------------------------------


def _check_fill(self: TensorMeta, dim: int, index: TensorMeta, value: TensorMeta | Number) -> None:
    wrap_dim(dim, self.ndim)
    check_index(
        index.dtype is int64,
        lambda: "index_fill_(): Expected dtype int64 for index.",
    )
    check(index.ndim <= 1, lambda: "Index has to be a vector/scalar")
    if isinstance(value, TensorMeta):
        check(
            value.ndim == 0,
            lambda: (
                f"Only supports 0-dimension value tensor, but got tensor with {value.ndim} "
                f"dimension(s)."
            ),
        )
    else:
        check(
            not isinstance(value, complex) or self.dtype.is_complex,
            lambda: "index_fill_(): Converting complex Scalar to non-complex type is not supported",
        )
        check_fits(value, self.dtype)


def _fill(xp: ModuleType, self: Array, dim: int, index: Array, value: Array | Number) -> Array:
    warn_of_expanded("index_fill_", self)
    target = lines(xp, self, dim)
    number = value.item() if isinstance(value, np.ndarray) else value
    kind = from_numpy_dtype(self.dtype)
    # Negative positions count from the end: of all these operators, here alone.
    where = _in_lines(index, len(target), least=-len(target))
    given = number.astype(target.dtype) if is_array(number) else result_dtype(number, kind)
    filled = assigned_at(xp, target, where, given)
    return out_of_lines(xp, filled, self, dim)


index_fill_scalar = _written(
    "index_fill", "int_Scalar", "int dim, Tensor index, Scalar value", _check_fill, _fill, out=False
)
describe(
    "index_fill",
    "`self` with the slices along `dim` at the positions `index` filled with `value`.",
)
index_fill_tensor = _written(
    "index_fill", "int_Tensor", "int dim, Tensor index, Tensor value", _check_fill, _fill, out=False
)
index_fill_scalar[0].batching_decomposition(index_fill_scalar_batching)
index_fill_tensor[0].node_name("IndexFillBackward1")
index_fill_tensor[0].batching_decomposition(index_fill_tensor_batching)


def _filled(grad: Tensor, dim: int, index: Tensor) -> Tensor:
    """The gradient where it was filled, each position once however often it is named."""
    elsewhere = grad.new_ones(grad.shape, dtype=bool_).index_fill(dim, index, False)
    found: Tensor = grad.masked_fill(elsewhere, 0)
    return found


for _page in index_fill_scalar:
    _page.linear(self=lambda grad, dim, index: grad.index_fill(dim, index, 0), value=None)
for _page in index_fill_tensor:
    _page.linear(
        self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
        value=lambda grad, dim, index: _filled(grad, dim, index).sum(),
    )

# --- index_reduce --------------------------------------------------------------------

_INDEX_REDUCTIONS = ("prod", "mean", "amax", "amin")


def _check_reduce(
    self: TensorMeta,
    dim: int,
    index: TensorMeta,
    source: TensorMeta,
    reduce: str,
    include_self: bool,
) -> None:
    check(
        reduce in _INDEX_REDUCTIONS,
        lambda: (
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        ),
    )
    axis = _check_index("index_reduce", self, dim, index)
    _check_reduced(self, reduce)
    _check_has_dim("index_reduce_", axis, source)
    _check_source("index_reduce", self, axis, index, source)


def _check_reduced(self: TensorMeta, reduce: str) -> None:
    """Lines are of numbers with an order; slices are reduced by operators, each with its types."""
    kind = self.dtype
    if self.ndim < 2:
        loop, takes = "index_func_", kind is not bool_ and not kind.is_complex
    elif reduce == "mean":
        loop, takes = "div_floor_cpu", kind is not bool_
    else:
        loop = "maximum_cpu" if reduce == "amax" else "minimum_cpu"
        takes = reduce == "prod" or not kind.is_complex
    check_not_implemented(takes, lambda: f"\"{loop}\" not implemented for '{kind.scalar_name}'")


def _reduce(
    xp: ModuleType,
    self: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    include_self: bool,
) -> Array:
    if is_narrow(self):
        summed = _reduce(xp, wide(self), dim, index, wide(source), reduce, include_self)
        return assigned_at(xp, self, ..., converted(summed, self.dtype))
    target = lines(xp, self, dim)
    where = _in_lines(index, len(target))
    if not where.size:
        return self
    axis = dim % self.ndim if self.ndim else 0
    how = ufunc_of(reduce) if include_self and self.ndim else None
    if xp is np and how is not None and axis:
        column = where.reshape([-1 if d == axis else 1 for d in range(self.ndim)])
        every = np.broadcast_to(column, source.shape)
        if combined_along(xp, self, axis, every, source, how):
            return self
    given = lines(xp, source, dim)
    reduced = reduce_into(xp, target, (where,), given, reduce, include_self=include_self)
    return out_of_lines(xp, reduced, self, dim)


index_reduce = _written(
    "index_reduce",
    "",
    "int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True",
    _check_reduce,
    _reduce,
    out=True,
    dense=True,
)
index_reduce[0].batching_decomposition(index_reduce_batching)
describe(
    "index_reduce",
    "`self` with the slices of `source` combined along `dim` at the positions `index`.",
)


def _mean_shares(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    include_self: bool,
    result: Tensor,
) -> tuple[Tensor, Tensor]:
    count = aten.ones_like(grad) if include_self else aten.zeros_like(grad)
    count = count.index_add(dim, index, aten.ones_like(source))
    count.masked_fill_(count == 0, 1)
    mine = grad / count
    their_count = count.index_select(dim, index)
    return mine, grad.index_select(dim, index) / their_count


def _extreme_shares(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    include_self: bool,
    result: Tensor,
) -> tuple[Tensor, Tensor]:
    theirs = result.index_select(dim, index)
    own = (self == result).to(self.dtype)
    if not include_self:
        own = own.index_fill(dim, index, 0)
    equal = (source == theirs).to(source.dtype)
    share = grad / own.index_add(dim, index, equal)
    return own * share, equal * share.index_select(dim, index)


def _index_reduce_grad(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> tuple[object, object]:
    """Means share and extremes split; products as ``scatter_reduce`` has them.

    `index_fill`, which some need, takes no index of int32.
    """
    index = index.to(int64)
    if reduce != "prod" and self.meta.numel:
        shares = _mean_shares if reduce == "mean" else _extreme_shares
        mine, theirs = shares(grad, self, dim, index, source, include_self, result)
        return mine if include_self else mine.index_fill(dim, index, 0), theirs
    if self.meta.ndim == 0:
        wide = index.reshape(source.meta.shape)
    else:
        shape = [1] * source.meta.ndim
        shape[dim] = index.meta.numel
        wide = index.reshape(tuple(shape)).expand(source.meta.shape)
    return reduce_grad(grad, self, dim, wide, source, reduce, include_self, result)


for _page in index_reduce:
    _page.derivative("self", "source")(_index_reduce_grad)

# --- put -----------------------------------------------------------------------------


def _check_put(self: TensorMeta, index: TensorMeta, source: TensorMeta, accumulate: bool) -> None:
    check(
        index.dtype is int64,
        lambda: f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}",
    )
    check(
        self.dtype is source.dtype,
        lambda: (
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{self.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}"
        ),
    )
    check_index(
        index.numel == source.numel,
        lambda: (
            f"put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel}, index.numel() = {index.numel}"
        ),
    )
    check_index(
        is_true(index.numel == 0) or expect_true(self.numel > 0),
        lambda: "put_(): Cannot put elements into an empty tensor",
    )


def _put(xp: ModuleType, self: Array, index: Array, source: Array, accumulate: bool) -> Array:
    check_flat(index, self.size)
    if index.size == 0:
        return self
    if xp is np and self.flags.c_contiguous:
        into, given, how = self.reshape(-1), source.reshape(-1), "add" if accumulate else "assign"
        flat = index.reshape(-1)
        flat = np.where(flat < 0, flat + self.size, flat) if flat.min() < 0 else flat
        if accumulate and added_slices(into, 0, flat, given):
            return self
        if combined_along(xp, into, 0, flat, given, how):
            return self
    where = xp.unravel_index(index.reshape(-1) % self.size, self.shape) if self.ndim else ()
    if not accumulate:
        given = source.reshape(-1) if self.ndim else source.reshape(-1)[-1]
        return assigned_at(xp, self, where, given)
    if self.ndim:
        return combined_at(xp, "add", self, where, source.reshape(-1))
    return assigned_at(xp, self, ..., self + source.sum())


put, put_ = _written(
    "put", "", "Tensor index, Tensor source, bool accumulate=False", _check_put, _put, out=False
)
put.batching_decomposition(put_batching)
describe(
    "put",
    "`self` with the elements of `source` at positions `index` of its vector; accumulate adds.",
)
for _page in (put, put_):
    _page.linear(
        self=lambda grad, index, source_meta, accumulate: (
            grad if accumulate else grad.put(index, zeros_beside(grad, source_meta.shape), False)
        ),
        source=lambda grad, index, source_meta: grad.take(index).reshape(source_meta.shape),
    )

# --- masked_scatter ------------------------------------------------------------------


def _masked(xp: ModuleType, self: Array, mask: Array, source: Array) -> Array:
    where = xp.broadcast_to(mask, self.shape)
    check_data(
        not data_says(lambda: source.size < int(where.sum())),
        lambda: (
            f"masked_scatter: expected self and source to have at least as many elements as "
            f"the mask has true ones: {source.size} and {int(where.sum())}"
        ),
    )
    return spread_at(xp, self, where, source.reshape(-1))


masked_scatter = define(
    "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", tags=[Tag.core]
)
masked_scatter.describe(
    "`self` with the first elements of `source`, in order, where `mask` is true."
)
masked_scatter_ = define(
    "aten::masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)",
    tags=[Tag.inplace],
)


@masked_scatter.shape
def masked_scatter_shape(self: TensorMeta, mask: TensorMeta, source: TensorMeta) -> TensorMeta:
    check_masked(self, mask, source)
    return self.fresh(broadcast_shapes(self.shape, mask.shape))


@masked_scatter.kernel
def masked_scatter_kernel(xp: ModuleType, self: Array, mask: Array, source: Array) -> Array:
    shape = xp.broadcast_shapes(self.shape, mask.shape)
    made: Array = xp.array(xp.broadcast_to(self, shape), copy=True)
    return _masked(xp, made, mask, source)


masked_scatter.batching_decomposition(masked_scatter_batching)


@masked_scatter_.shape
def masked_scatter__shape(self: TensorMeta, mask: TensorMeta, source: TensorMeta) -> TensorMeta:
    result = masked_scatter_shape(self, mask, source)
    check(
        result.shape == self.shape,
        lambda: (
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        ),
    )
    check_writable("masked_scatter_", self)
    return self


masked_scatter_.kernel(_masked)

masked_scatter_backward = define(
    "aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor"
)


@masked_scatter_backward.shape
def masked_scatter_backward_shape(
    grad_output: TensorMeta, mask: TensorMeta, sizes: tuple[int, ...]
) -> TensorMeta:
    broadcast_shapes(grad_output.shape, mask.shape)
    check(
        mask.dtype is bool_,
        lambda: f"masked_scatter_backward: expected a mask of dtype bool, got {mask}",
    )
    return grad_output.fresh(sizes)


@masked_scatter_backward.kernel
def masked_scatter_backward_kernel(
    xp: ModuleType, grad_output: Array, mask: Array, sizes: tuple[int, ...]
) -> Array:
    shown, where = xp.broadcast_arrays(grad_output, mask)
    size = prod(sizes)
    check_data(
        not data_says(lambda: int(where.sum()) > size),
        lambda: (
            f"masked_scatter_backward: the mask takes {int(where.sum())} elements, more than sizes "
            f"{list(sizes)} hold"
        ),
    )
    return compressed_at(xp, shown, where, size).reshape(sizes)


masked_scatter_backward.linear(
    grad_output=lambda grad, grad_output_meta, mask: masked_scatter(
        grad.new_zeros(grad_output_meta.shape), mask, grad
    )
)
for _page in (masked_scatter, masked_scatter_):
    _page.linear(
        self=lambda grad, mask: grad.masked_fill(mask, 0),
        source=lambda grad, mask, source_meta: masked_scatter_backward(
            grad, mask, source_meta.shape
        ),
    )
