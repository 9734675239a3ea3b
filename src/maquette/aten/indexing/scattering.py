"""Elements written at positions along a dimension: the scatter family.

One array function, `scatter_into`, serves every form; what differs is what meets at a position:
the last value, a sum, a product, a mean, an extreme. ``index_add`` and others are in
`index_writing.py`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import is_narrow, wide
from maquette.aten.common.array_libraries import assigned_at, combined_at
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import along, along_like
from maquette.aten.common.large_arrays import added_along, loops_of_places, places_of_slices
from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, result_dtype
from maquette.aten.indexing.gathering import check_positions, in_range, sized
from maquette.aten.reduction.linear_recurrence import products_before
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import bool_, dtype, from_numpy_dtype
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.library.variants import check_writable
from maquette.tensor.tensor import Tensor

# --- on arrays -----------------------------------------------------------------------


def positions_along(xp: ModuleType, where: Array, axis: int) -> tuple[Array, ...]:
    """For each element of an index along ``axis``, the position that it selects, in full."""
    grid = []
    for d, n in enumerate(where.shape):
        alone = [n if i == d else 1 for i in range(where.ndim)]
        grid.append(where if d == axis else xp.arange(n).reshape(alone))
    return tuple(xp.broadcast_arrays(*grid))


_IDENTITY = {"sum": 0, "add": 0, "mean": 0, "prod": 1, "multiply": 1}


def identity_of(reduce: str, kind: str) -> float:
    """What does not change under a reduction; for extremes the far end of the type."""
    if reduce in _IDENTITY:
        return _IDENTITY[reduce]
    least = reduce == "amax"
    if kind == "b":
        return 0 if least else 1
    return float("-inf") if least else float("inf")


def scatter_into(
    xp: ModuleType,
    target: Array,
    dim: int,
    index: Array,
    values: Array | Number,
    reduce: str | None = None,
    *,
    include_self: bool = True,
) -> Array:
    """Write ``values`` into ``target`` at the positions of ``index`` along ``dim``.

    The result is the array to go on with.
    """
    if index.size == 0:
        return target
    whole = target.reshape(sized(target.shape)) if target.ndim == 0 else target
    where = index.reshape(sized(index.shape))
    axis = dim % whole.ndim
    in_range(where, axis, whole.shape[axis])
    if isinstance(values, bool | int | float | complex):
        given = xp.full(
            where.shape, result_dtype(values, from_numpy_dtype(whole.dtype)), whole.dtype
        )
    else:
        part = values.reshape(sized(values.shape))
        given = part[tuple([slice(0, n) for n in where.shape])]
    if reduce is not None and is_narrow(whole):  # in single precision, rounded once
        options: dict[str, Any] = {"include_self": include_self}
        work = scatter_into(xp, wide(whole), axis, where, wide(given), reduce, **options)
        return assigned_at(xp, target, ..., converted(work, whole.dtype).reshape(target.shape))
    adds = reduce in ("sum", "add") and include_self and whole.dtype != np.bool_
    if adds and given.dtype == whole.dtype and added_along(xp, whole, where, given, axis):
        return target
    how = ufunc_of(reduce) if include_self else None
    if how is not None and combined_along(xp, whole, axis, where, given, how):
        return target
    if reduce == "mean" and include_self and _averaged_along(xp, whole, axis, where, given):
        return target
    at = positions_along(xp, where, axis)
    if reduce is None:
        written = assigned_at(xp, whole, at, given)
    else:
        written = reduce_into(xp, whole, at, given, reduce, include_self=include_self)
    return written.reshape(target.shape)


_UFUNCS = {
    None: "assign",
    "sum": "add",
    "add": "add",
    "prod": "multiply",
    "multiply": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


def ufunc_of(reduce: str | None) -> str | None:
    """What `combined_along` calls a reduction, or writing; None for a mean."""
    return _UFUNCS.get(reduce)


def combined_along(
    xp: ModuleType, target: Array, axis: int, where: Array, given: Array, how: str
) -> bool:
    """Combine values with a target along an axis by a compiled loop; False where there is none."""
    if xp is np and target.dtype == given.dtype == np.bool_:  # sums are "or", products are "and"
        target, given = target.view(np.uint8), given.view(np.uint8)
        how = {"add": "maximum", "multiply": "minimum"}.get(how, how)
    if xp is np and how == "assign" and target.itemsize == given.itemsize == 2:
        target, given = target.view(np.int16), given.view(np.int16)
    loops = loops_of_places(xp, where.size, target, given)
    rest = [(n, m) for d, (n, m) in enumerate(zip(target.shape, where.shape)) if d != axis]
    if loops is None or any(n != m for n, m in rest):
        return False
    values = given.copy() if np.may_share_memory(target, given) else given
    slices = places_of_slices(xp, where, axis) if target.flags.c_contiguous else None
    if slices is not None and how == "add":
        loops.add_slices(target, axis, slices, values)
    elif slices is not None and axis == 0 and how != "assign":
        loops.combine_rows(target, slices, values, how)
    elif target.flags.c_contiguous:
        loops.combine_along(target, axis, where, values, how)
    else:
        work = np.ascontiguousarray(target)
        loops.combine_along(work, axis, where, values, how)
        target[...] = work
    return True


def _averaged_along(xp: ModuleType, target: Array, axis: int, where: Array, given: Array) -> bool:
    """Means of values and what stands at positions along an axis; False where there is no loop."""
    if target.dtype.kind not in "iuf" or not combined_along(xp, target, axis, where, given, "add"):
        return False
    slices = places_of_slices(xp, where, axis)
    if slices is not None:
        shape = [-1 if d == axis else 1 for d in range(target.ndim)]
        count = (np.bincount(slices, minlength=target.shape[axis]) + 1).reshape(shape)
    else:
        count = np.ones(target.shape, np.int64)
        combined_along(xp, count, axis, where, np.ones(where.shape, np.int64), "add")
    if target.dtype.kind == "f":
        target /= count.astype(target.dtype)
    else:
        target //= count.astype(target.dtype)
    return True


def reduce_into(
    xp: ModuleType,
    target: Array,
    at: tuple[Array, ...],
    values: Array,
    reduce: str,
    *,
    include_self: bool,
) -> Array:
    """Let ``values`` meet at positions of ``target``, which is of no narrow type.

    The result is the array to go on with.
    """
    work, given = target, values.astype(target.dtype, copy=False)
    if not include_self:
        work = assigned_at(xp, work, at, _start(xp, reduce, work))
    if reduce in ("sum", "add", "mean"):
        work = combined_at(xp, "add", work, at, given)
    elif reduce in ("prod", "multiply"):
        work = _met(xp, "multiply", work, at, given)
    else:
        work = _met(xp, "maximum" if reduce == "amax" else "minimum", work, at, given)
    if reduce == "mean":
        work = _averaged(xp, work, at, include_self=include_self)
    if work is target or (xp is np and np.may_share_memory(work, target)):  # written in place
        return target
    return assigned_at(xp, target, ..., work.astype(target.dtype, copy=False))


def _met(xp: ModuleType, name: str, work: Array, at: tuple[Array, ...], given: Array) -> Array:
    """`combined_at`; whole rows of flat memory by a compiled loop."""
    if xp is np and work.dtype == given.dtype == np.bool_:
        bits = {"multiply": "minimum"}.get(name, name)  # products are "and"
        return _met(xp, bits, work.view(np.uint8), at, given.view(np.uint8)).view(np.bool_)
    loops = loops_of_places(xp, given.size, work, given) if len(at) == 1 else None
    if loops is None or not work.flags.c_contiguous or given.shape[1:] != work.shape[1:]:
        return combined_at(xp, name, work, at, given)
    loops.combine_rows(work, at[0], given, name)
    return work


def _start(xp: ModuleType, reduce: str, work: Array) -> object:
    if reduce not in _IDENTITY and work.dtype.kind in "iu":
        limits = xp.iinfo(work.dtype)
        return limits.min if reduce == "amax" else limits.max
    return identity_of(reduce, work.dtype.kind)


def _averaged(xp: ModuleType, work: Array, at: tuple[Array, ...], *, include_self: bool) -> Array:
    count = xp.full(work.shape, int(include_self), xp.int64)
    count = xp.maximum(combined_at(xp, "add", count, at, 1), 1)
    if work.dtype.kind in "iu":
        return work // count
    averaged: Array = work / count.astype(work.dtype)
    return averaged


# --- checks --------------------------------------------------------------------------


def check_scattered(
    name: str, self: TensorMeta, dim: int, index: TensorMeta, src: TensorMeta | Number
) -> None:
    """Refuse an index of another dtype or rank, or larger than the tensor that it selects from."""
    axis = wrap_dim(dim, self.ndim)
    if not is_true(index.numel == 0):  # an empty index may be of any dtype
        check_positions(name, index)
    if isinstance(src, TensorMeta):
        check(
            self.dtype is src.dtype,
            lambda: f"{name}(): Expected self.dtype to be equal to src.dtype",
        )
    else:
        check_fits(src, self.dtype)
    if is_true(index.numel == 0):
        return
    own, wanted = sized(self.shape), sized(index.shape)
    check(
        len(own) == len(wanted),
        lambda: "Index tensor must have the same number of dimensions as self tensor",
    )
    fits = all(
        d == axis or expect_true(n <= limit)
        for d, (n, limit) in enumerate(zip(wanted, own, strict=True))
    )
    if isinstance(src, TensorMeta):
        given = sized(src.shape)
        check(
            len(given) == len(wanted),
            lambda: "Index tensor must have the same number of dimensions as src tensor",
        )
        fits = fits and all(n <= limit for n, limit in zip(wanted, given, strict=True))
    check(
        fits,
        lambda: (
            f"Expected index {list(index.shape)} to be no larger than self {list(self.shape)} "
            f"apart from dimension {axis}"
            + (
                f" and to be no larger size than src {list(src.shape)}"
                if isinstance(src, TensorMeta)
                else ""
            )
        ),
    )


_OLD_REDUCTIONS = ("add", "multiply")
_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _check_reduction(reduce: str | None, allowed: tuple[str, ...]) -> None:
    check(
        reduce is None or reduce in allowed,
        lambda: f"reduce argument must be one of {', '.join(allowed)}, got {reduce}",
    )


# --- pages ---------------------------------------------------------------------------


def _check_reduced_type(reduce: str | None, kind: dtype) -> None:
    """Complex numbers have no order, and a mean of bools is no bool."""
    unordered = kind.is_complex and reduce in ("amax", "amin")
    check_not_implemented(
        not unordered and not (kind is bool_ and reduce == "mean"),
        lambda: (
            f'"scatter_gather_tensor_cpu_reduce_{reduce}" not implemented for '
            f"'{kind.scalar_name}'"
        ),
    )


def _family(
    name: str,
    overload: str,
    arguments: str,
    allowed: tuple[str, ...],
    *,
    out: str,
    tags: tuple[Tag, ...] = (),
    fixed: str | None = None,
) -> tuple[OperatorPage, OperatorPage, OperatorPage]:
    """The functional, in-place and ``out=`` pages of one form of scatter."""
    dot = f".{overload}" if overload else ""
    label = "scatter" if name != "scatter_reduce" else "scatter_reduce"
    plain = define(
        f"aten::{name}{dot}(Tensor self, int dim, Tensor index, {arguments}) -> Tensor", tags=tags
    )
    inplace = define(
        f"aten::{name}_{dot}(Tensor(a!) self, int dim, Tensor index, {arguments}) -> Tensor(a!)",
        tags=[Tag.inplace],
    )
    star = ", " if "*, " in arguments else ", *, "
    into = define(
        f"aten::{name}.{out}(Tensor self, int dim, Tensor index, {arguments}{star}"
        "Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    )

    plain.batching(along if name == "scatter_reduce" else along_like(0))

    def checked(
        self: TensorMeta, dim: int, index: TensorMeta, src: TensorMeta | Number, *rest: object
    ) -> None:
        reduce = rest[0] if rest else fixed
        assert reduce is None or isinstance(reduce, str)
        _check_reduction(reduce, allowed if rest else (*allowed, "sum"))
        _check_reduced_type(reduce, self.dtype)
        check_scattered(label, self, dim, index, src)

    def written(
        xp: ModuleType,
        target: Array,
        dim: int,
        index: Array,
        src: Array | Number,
        reduce: str | None = fixed,
        include_self: bool = True,
    ) -> Array:
        return scatter_into(xp, target, dim, index, src, reduce, include_self=include_self)

    @plain.shape
    def plain_shape(self: TensorMeta, *params: object) -> TensorMeta:
        checked(self, *params)  # type: ignore[arg-type]  # by the schema
        return self.fresh(self.shape)

    @plain.kernel
    def plain_kernel(xp: ModuleType, self: Array, *params: object) -> Array:
        made: Array = xp.array(self, copy=True)
        return written(xp, made, *params)  # type: ignore[arg-type]  # by the schema

    @inplace.shape
    def inplace_shape(self: TensorMeta, *params: object) -> TensorMeta:
        checked(self, *params)  # type: ignore[arg-type]  # by the schema
        check_writable(f"{name}_", self)
        return self

    @inplace.kernel
    def inplace_kernel(xp: ModuleType, self: Array, *params: object) -> None:
        written(xp, self, *params)  # type: ignore[arg-type]  # by the schema

    @into.shape
    def into_shape(self: TensorMeta, *params: object) -> TensorMeta:
        result = out_meta(plain_shape(self, *params[:-1]), params[-1])
        check_writable(name, result)
        return result

    @into.kernel
    def into_kernel(xp: ModuleType, self: Array, *params: object) -> None:
        target = params[-1]
        target[...] = plain_kernel(xp, self, *params[:-1])  # type: ignore[index]  # an array

    for page in (inplace, into):
        refuse_overlap(page, "index", "src")
    return plain, inplace, into


def out_meta(result: TensorMeta, out: object) -> TensorMeta:
    """``out`` where it fits the result, else laid out afresh; its dtype must be the result's."""
    assert isinstance(out, TensorMeta)
    check(
        out.dtype is result.dtype,
        lambda: f"Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead",
    )
    if out.shape == result.shape:
        return out
    return TensorMeta.of(out.dtype, result.shape, result.strides, out.offset, out.device)


_SRC = "Tensor src"
_VALUE = "Scalar value"
scatter_src = _family("scatter", "src", _SRC, (), out="src_out", tags=(Tag.core,))
describe(
    "scatter",
    "`self` with the elements of `src`, or a number, at positions `index` along `dim`.",
)
scatter_value = _family("scatter", "value", _VALUE, (), out="value_out", tags=(Tag.core,))
scatter_value[0].node_name("ScatterBackward1")
scatter_reduced = _family(
    "scatter", "reduce", f"{_SRC}, *, str reduce", _OLD_REDUCTIONS, out="reduce_out"
)
scatter_value_reduced = _family(
    "scatter", "value_reduce", f"{_VALUE}, *, str reduce", _OLD_REDUCTIONS, out="value_reduce_out"
)
scatter_add = _family("scatter_add", "", _SRC, (), out="out", tags=(Tag.core,), fixed="sum")
describe("scatter_add", "`self` with the elements of `src` added at positions `index` along `dim`.")
scatter_add[0].autocast(cuda="promote")
scatter_reduce = _family(
    "scatter_reduce",
    "two",
    f"{_SRC}, str reduce, *, bool include_self=True",
    _REDUCTIONS,
    out="two_out",
    tags=(Tag.core,),
)
describe(
    "scatter_reduce",
    "`self` with the elements of `src` combined at positions `index` along `dim` by `reduce`.",
)

# --- derivatives ---------------------------------------------------------------------

for _page in scatter_src:
    _page.linear(
        self=lambda grad, dim, index: grad.scatter(dim, index, 0),
        src=lambda grad, src_meta, dim, index: gathered(grad, src_meta, dim, index),
    )
for _page in scatter_value:
    _page.linear(self=lambda grad, dim, index: grad.scatter(dim, index, 0), value=None)
for _page in scatter_add:
    _page.linear(
        self=lambda grad: grad,
        src=lambda grad, src_meta, dim, index: gathered(grad, src_meta, dim, index),
    )


def gathered(grad: Tensor, src: TensorMeta, dim: int, index: Tensor) -> Tensor:
    """The gradient of what was scattered; zero where the index did not reach."""
    return _in_corner(grad.gather(dim, index), src.shape)


def _corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of a larger tensor that an index of this shape reaches."""
    return tuple([slice(0, n) for n in shape])


def _in_corner(part: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``part`` in the corner of zeros."""
    if part.meta.shape == shape:
        return part
    whole: Tensor = part.new_zeros(shape)
    whole[_corner(part.meta.shape)] = part
    return whole


def reduce_grad(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of ``scatter_reduce``: sums share, extremes split among equals, products divide."""
    if self.meta.numel == 0:
        return grad, gathered(grad, src.meta, dim, index)
    whole = index.meta.shape == src.meta.shape
    part = src if whole else src[_corner(index.meta.shape)]
    if reduce == "sum":
        mine, theirs = grad, grad.gather(dim, index)
    elif reduce == "mean":
        mine, theirs = _mean_grad(grad, dim, index, part, include_self)
    elif reduce == "prod":
        mine, theirs = _product_grad(grad, self, dim, index, part, include_self)
    else:
        mine, theirs = _extreme_grad(grad, self, dim, index, part, include_self, result)
    if not include_self:
        mine = mine.scatter(dim, index, 0)
    return mine, _in_corner(theirs, src.meta.shape)


def _mean_grad(
    grad: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    count = aten.ones_like(grad) if include_self else aten.zeros_like(grad)
    count = count.scatter_add(dim, index, aten.ones_like(src))
    count.masked_fill_(count == 0, 1)
    mine = grad / count
    their_count = count.gather(dim, index)
    return mine, grad.gather(dim, index) / their_count


def _extreme_grad(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    include_self: bool,
    result: Tensor,
) -> tuple[Tensor, Tensor]:
    theirs = result.gather(dim, index)
    own = (self == result).to(self.dtype)
    if not include_self:
        own = own.scatter(dim, index, 0)
    equal = (src == theirs).to(src.dtype)
    count = own.scatter_add(dim, index, equal)
    del own, equal
    share = grad / count
    mine = aten.eq(self, result) * share  # again, for a mask is smaller than what counted
    their_share = share.gather(dim, index)
    return mine, aten.eq(src, theirs) * their_share


def _product_grad(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    include_self: bool,
) -> tuple[Tensor, Tensor]:
    """For each factor the product of the others that go to its place: no division, any zeros."""
    mine = grad
    if include_self:
        mine = grad * self.new_ones(self.meta.shape).scatter_reduce(dim, index, src, "prod").conj()
    if not src.meta.numel:
        return mine, src
    theirs = grad.gather(dim, index) * _products_of_others(src, index, dim).conj()
    if include_self:
        theirs = theirs * self.gather(dim, index).conj()
    return mine, theirs


def _products_of_others(src: Tensor, index: Tensor, dim: int) -> Tensor:
    """For each source the product of the other ones of its place: in their order by place."""
    if not src.meta.ndim:
        return src.new_ones(())
    dim = wrap_dim(dim, src.meta.ndim)
    places, order = index.sort(stable=True, dim=dim)
    factors = src.gather(dim, order)
    n = src.meta.shape[dim]
    edge = aten.zeros_like(places.narrow(dim, 0, 1), dtype=bool_)
    as_before = aten.eq(places.narrow(dim, 1, n - 1), places.narrow(dim, 0, n - 1))
    before = products_before(factors, aten.cat([edge, as_before], dim), dim)
    from_end = aten.cat([edge, as_before.flip((dim,))], dim)
    behind = products_before(factors.flip((dim,)), from_end, dim).flip((dim,))
    found: Tensor = aten.zeros_like(src).scatter(dim, order, before * behind)
    return found


def reduce_tangent(
    self: Tensor,
    self_t: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    src_t: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Each element moves its place by its slope, which is its gradient where that place's is 1."""
    if reduce in ("sum", "mean"):
        moved: Tensor = self_t.scatter_reduce(dim, index, src_t, reduce, include_self=include_self)
        return moved
    one = aten.ones_like(result)
    slopes = reduce_grad(one, self, dim, index, src, reduce, include_self, result)
    mine, theirs = (slope.conj() for slope in slopes)
    by_slopes: Tensor = (self_t * mine).scatter_add(dim, index, src_t * theirs)
    return by_slopes


for _page in scatter_reduce:
    _page.derivative("self", "src")(reduce_grad)
    _page.tangent(reduce_tangent)
    _page.real_derivative()
