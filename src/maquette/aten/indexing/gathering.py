"""Elements taken from a tensor: index_select, gather, take, masked_select, nonzero.

Indexing by subscripts is in `index.py`, the writing counterparts in `scattering.py`.
"""

from __future__ import annotations

from functools import partial
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import compressed_at, data_says
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import along_like, wrapped
from maquette.aten.common.fresh_writes import into_fresh
from maquette.aten.common.large_arrays import compressed, taken_along
from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.common.operators import aten
from maquette.aten.factory.factories import resized
from maquette.core.broadcast import broadcast_shapes, wrap_dim
from maquette.core.dtype import bool_, int32, int64
from maquette.core.errors import check, check_index, of_data
from maquette.core.fitting import c_name
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import NewNumbers, Variant, define
from maquette.library.variants import check_writable
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]


def check_positions(name: str, index: TensorMeta) -> None:
    """Refuse an index of another dtype than int32 and int64."""
    check(
        index.dtype in (int32, int64),
        lambda: f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}",
    )


def sized(shape: Ints) -> Ints:
    """A 0-dim tensor counts as one of a single element."""
    return shape or (1,)


def in_range(index: Array, dim: int, size: int) -> None:
    """Refuse positions outside of a dimension; negative ones do not wrap."""
    if index.size == 0:
        return
    if index.__class__ is np.ndarray and index.dtype == np.int64:
        if index.view(np.uint64).max() < size:  # below zero, numbers without a sign are large
            return
    if data_says(lambda: index.max() >= size or index.min() < 0):
        extreme = index.max() if index.max() >= size else index.min()
        raise of_data(
            RuntimeError(f"index {extreme} is out of bounds for dimension {dim} with size {size}")
        )


# --- index_select --------------------------------------------------------------------

index_select = define(
    "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
    tags=[Tag.core],
    variants=[Variant.OUT],
)
index_select.describe(
    "The slices of `self` along `dim` at the positions of the vector `index`, as many as it has."
)


@index_select.shape
def index_select_shape(self: TensorMeta, dim: int, index: TensorMeta) -> TensorMeta:
    axis = wrap_dim(dim, self.ndim)
    check_index(index.ndim <= 1, lambda: "index_select(): Index is supposed to be a vector")
    check(
        index.dtype in (int32, int64),
        lambda: f"index_select(): Expected dtype int32 or int64 for index, got {index.dtype}",
    )
    check(
        self.ndim > 0 or index.numel == 1,
        lambda: (
            f"index_select(): Index to scalar can have only 1 value, got {index.numel} value(s)"
        ),
    )
    if self.ndim == 0:
        return self.fresh(())
    return self.fresh((*self.shape[:axis], index.numel, *self.shape[axis + 1 :]))


@index_select.kernel
def index_select_kernel(xp: ModuleType, self: Array, dim: int, index: Array) -> Array:
    size = self.shape[dim] if self.ndim else 1
    if index.size and data_says(lambda: index.max() >= size or index.min() < 0):
        raise of_data(_out_of_range(self, index, size))
    if self.ndim == 0:
        return xp.array(self, copy=True)
    taken: Array = xp.take(self, index.reshape(-1), axis=dim)
    return taken


def _out_of_range(self: Array, index: Array, size: int) -> Exception:
    """The error for positions outside: another one, as in PyTorch, of what has no elements."""
    if self.size:
        return IndexError(
            f"index out of range in self: from {index.min()} to {index.max()}, size {size}"
        )
    if not size:
        return RuntimeError("index_select(): self indexing axis dim should be positive")
    extreme = index.max() if index.max() >= size else index.min()
    return RuntimeError(f"INDICES element is out of DATA bounds, id={extreme} axis_dim={size}")


index_select_backward = define(
    "aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor"
)


@index_select_backward.composite
def index_select_backward_composite(
    grad: Tensor, self_sizes: Ints, dim: int, index: Tensor
) -> object:
    return into_fresh("index_add", grad.new_zeros(self_sizes), dim, index, grad)


index_select.exact_out()
index_select.linear(
    self=lambda grad, self_meta, dim, index: index_select_backward(
        grad, self_meta.shape, dim, index
    )
)


def _at(self: Tensor, dim: int, index: Tensor) -> list[Any]:
    dim = wrapped(dim, self.meta.ndim)
    return [*[None] * dim, index.reshape(-1)]


@index_select.batching_decomposition
def index_select_batching(self: Tensor, dim: int, index: Tensor) -> Tensor:
    if not self.meta.ndim:
        return aten.index.Tensor(self.reshape(1), [index.reshape(-1)]).reshape(())
    return aten.index.Tensor(self, _at(self, dim, index))


refuse_overlap(index_select.variants[0], "self", "index")

# --- gather --------------------------------------------------------------------------

gather = define(
    "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    tags=[Tag.core],
)
gather.describe(
    "The elements of `self` at positions `index` along `dim`; the result has the shape of `index`."
)
gather_out = define(
    "aten::gather.out(Tensor self, int dim, Tensor index, *, bool sparse_grad=False, "
    "Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@gather.shape
def gather_shape(self: TensorMeta, dim: int, index: TensorMeta, sparse_grad: bool) -> TensorMeta:
    axis = wrap_dim(dim, self.ndim)
    if not is_true(index.numel == 0):
        check_positions("gather", index)
        check_gathered(self, axis, index)
    return self.fresh(index.shape)


def check_gathered(self: TensorMeta, axis: int, index: TensorMeta) -> None:
    """Refuse an index of another rank, or larger than the tensor off the dimension."""
    own, wanted = sized(self.shape), sized(index.shape)
    check(
        len(own) == len(wanted),
        lambda: "Index tensor must have the same number of dimensions as input tensor",
    )

    def too_large(d: int) -> str:
        return (
            f"Size does not match at dimension {d} expected index {list(index.shape)} to "
            f"be no larger than self {list(self.shape)} apart from dimension {axis}"
        )

    for d, (limit, size) in enumerate(zip(own, wanted, strict=True)):
        check(d == axis or size <= limit, partial(too_large, d))


@gather.kernel
def gather_kernel(xp: ModuleType, self: Array, dim: int, index: Array, sparse_grad: bool) -> Array:
    if index.size == 0:
        return xp.empty(index.shape, self.dtype)
    source, where = self.reshape(sized(self.shape)), index.reshape(sized(index.shape))
    axis = dim % source.ndim
    in_range(index, axis, source.shape[axis])
    part = source[window(where.shape, axis)]
    taken = taken_along(xp, part, where.astype(xp.int64, copy=False), axis)
    return taken.reshape(index.shape)


def window(shape: Ints, axis: int) -> tuple[slice, ...]:
    """The corner of a tensor that an index of this shape selects from: the axis as a whole."""
    return tuple([slice(None) if d == axis else slice(0, n) for d, n in enumerate(shape)])


@gather_out.shape
def gather_out_shape(
    self: TensorMeta, dim: int, index: TensorMeta, sparse_grad: bool, out: TensorMeta
) -> TensorMeta:
    result = gather_shape(self, dim, index, sparse_grad)
    check_out(out, result)
    return resized(out, result.shape)


def check_out(out: TensorMeta, result: TensorMeta) -> None:
    """Refuse an ``out`` of another dtype, or one that is written where it is read."""
    check(
        out.dtype is result.dtype,
        lambda: (
            f"Expected out tensor to have dtype {c_name(result.dtype)}, but got "
            f"{c_name(out.dtype)} instead"
        ),
    )
    check_writable("out", out)


@gather_out.kernel
def gather_out_kernel(
    xp: ModuleType, self: Array, dim: int, index: Array, sparse_grad: bool, out: Array
) -> None:
    out[...] = gather_kernel(xp, self, dim, index, sparse_grad)


gather_backward = define(
    "aten::gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) "
    "-> Tensor"
)
gather_backward.composite(
    lambda grad, self, dim, index, sparse_grad: _gathered_back(
        grad, self.meta, dim, index, sparse_grad
    )
)


def _gathered_back(
    grad: Tensor, self: TensorMeta, dim: int, index: Tensor, sparse_grad: bool
) -> object:
    if sparse_grad:
        return aten._gather_sparse_backward(grad.new_empty(()).expand(self.shape), dim, index, grad)
    return into_fresh("scatter_add", grad.new_zeros(self.shape), dim, index, grad)


gather.linear(
    self=lambda grad, self_meta, dim, index, sparse_grad: _gathered_back(
        grad, self_meta, dim, index, sparse_grad
    )
)
gather.batching(along_like(1))
gather_out.facts.derivatives = gather.facts.derivatives
refuse_overlap(gather_out, "self", "index")

value_selecting_reduction_backward = define(
    "aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, "
    "SymInt[] sizes, bool keepdim) -> Tensor"
)


@value_selecting_reduction_backward.composite
def value_selecting_reduction_backward_composite(
    grad: Tensor, dim: int, indices: Tensor, sizes: Ints, keepdim: bool
) -> object:
    if not keepdim and sizes:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return into_fresh("scatter", grad.new_zeros(sizes), dim, indices, grad)


# --- take ----------------------------------------------------------------------------

take = define("aten::take(Tensor self, Tensor index) -> Tensor")
take.describe(
    "The elements at positions `index` of `self` seen as a vector; the result has the shape "
    "of `index`."
)
take_out = define(
    "aten::take.out(Tensor self, Tensor index, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)


@take.shape
def take_shape(self: TensorMeta, index: TensorMeta) -> TensorMeta:
    check(
        index.dtype is int64,
        lambda: f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}",
    )
    check_index(
        is_true(index.numel == 0) or expect_true(self.numel > 0),
        lambda: "take(): tried to take from an empty tensor",
    )
    return self.fresh(index.shape, strides=index.like().strides)


@take.kernel
def take_kernel(xp: ModuleType, self: Array, index: Array) -> Array:
    check_flat(index, self.size)
    taken: Array = self.reshape(-1)[index] if index.size else xp.empty(index.shape, self.dtype)
    return taken


def check_flat(index: Array, count: int) -> None:
    """Refuse flat positions out of range; negative ones count from the end."""
    if index.size == 0:
        return
    if data_says(lambda: index.max() >= count or index.min() < -count):
        extreme = index.max() if index.max() >= count else index.min()
        raise of_data(
            IndexError(
                f"out of range: tried to access index {extreme} on a tensor of {count} elements."
            )
        )


take.linear(
    self=lambda grad, self_meta, index: into_fresh(
        "put", grad.new_zeros(self_meta.shape), index, grad, True
    )
)


@take.batching_decomposition
def take_batching(self: Tensor, index: Tensor) -> Tensor:
    return aten.index.Tensor(self.reshape(-1), [index])


@take_out.shape
def take_out_shape(self: TensorMeta, index: TensorMeta, out: TensorMeta) -> TensorMeta:
    result = take_shape(self, index)
    check_out(out, result)
    return resized(out, result.shape)


@take_out.kernel
def take_out_kernel(xp: ModuleType, self: Array, index: Array, out: Array) -> None:
    out[...] = take_kernel(xp, self, index)


take_out.facts.derivatives = take.facts.derivatives
refuse_overlap(take_out, "self", "index")

take_along_dim = define(
    "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"
)
take_along_dim.describe(
    "The elements at positions `indices` along `dim`; the other dimensions are broadcast."
)


def _along(self: Tensor, indices: Tensor, dim: int | None) -> tuple[Tensor, int, Tensor]:
    """What ``gather`` takes: source and index of shapes that agree but along ``dim``."""
    if dim is None:
        return self.reshape((-1,)), 0, indices.reshape((-1,))
    check(
        self.meta.ndim == indices.meta.ndim,
        lambda: (
            f"torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {self.meta.ndim} dimensions for input, and {indices.meta.ndim} "
            f"dimensions for indices"
        ),
    )
    check(
        indices.meta.dtype is int64,
        lambda: (
            f"torch.take_along_dim(): dtype of indices should be Long but got "
            f"{indices.meta.dtype.scalar_name}"
        ),
    )
    axis = wrap_dim(dim, self.meta.ndim)
    own, wanted = self.meta.shape, indices.meta.shape
    common = broadcast_shapes(
        (*own[:axis], 1, *own[axis + 1 :]), (*wanted[:axis], 1, *wanted[axis + 1 :])
    )
    whole = self.expand((*common[:axis], own[axis], *common[axis + 1 :]))
    places = indices.expand((*common[:axis], wanted[axis], *common[axis + 1 :]))
    return whole, axis, places.remainder(own[axis])


take_along_dim.composite(lambda self, indices, dim: gather(*_along(self, indices, dim)))

take_along_dim_out = define(
    "aten::take_along_dim.out(Tensor self, Tensor indices, int? dim=None, *, Tensor(a!) out) "
    "-> Tensor(a!)",
    tags=[Tag.out],
)
take_along_dim_out.composite(
    lambda self, indices, dim, out: gather_out(*_along(self, indices, dim), out=out)
)

# --- by truth ------------------------------------------------------------------------

masked_select = define(
    "aten::masked_select(Tensor self, Tensor mask) -> Tensor", tags=[Tag.dynamic_output_shape]
)
masked_select.describe("The elements where `mask` is true, after both are broadcast: a vector.")


def _check_masked_select(self: TensorMeta, mask: TensorMeta) -> None:
    check(
        mask.dtype is bool_,
        lambda: f"masked_select: expected BoolTensor for mask, got {mask.dtype}",
    )
    broadcast_shapes(self.shape, mask.shape)


@masked_select.data_dependent(_check_masked_select)
def masked_select_kernel(xp: ModuleType, self: Array, mask: Array) -> Array:
    shape = broadcast_shapes(self.shape, mask.shape)
    return compressed(xp, xp.broadcast_to(self, shape), xp.broadcast_to(mask, shape))


@masked_select.unbacked
def masked_select_unbacked(new: NewNumbers, self: TensorMeta, mask: TensorMeta) -> TensorMeta:
    _check_masked_select(self, mask)
    elements = prod(broadcast_shapes(self.shape, mask.shape))
    few = elements.__class__ is int and elements <= 2  # a bound of 2 would be no size (F74)
    return self.fresh((new.size(0, None if few else elements),))


@masked_select.derivative("self")
def masked_select_grad(grad: Tensor, self_meta: TensorMeta, mask: Tensor) -> tuple[object]:
    shape = broadcast_shapes(self_meta.shape, mask.meta.shape)
    return (into_fresh("masked_scatter", grad.new_zeros(shape), mask, grad),)


nonzero = define("aten::nonzero(Tensor self) -> Tensor", tags=[Tag.core, Tag.dynamic_output_shape])
nonzero.describe(
    "The positions of elements that are not zero: int64, a row for each, a column "
    "for each dimension."
)
nonzero.nondifferentiable()


def nonzero_layout(shape: Ints, self: TensorMeta) -> TensorMeta:
    """Positions in columns, one a dimension, each of them contiguous even where there are none."""
    return self.fresh(shape, int64, (1, shape[0]))


@nonzero.data_dependent(layout=nonzero_layout)
def nonzero_kernel(xp: ModuleType, self: Array) -> Array:
    if self.ndim == 0:
        return xp.zeros((int(bool(self)), 0), xp.int64)
    if xp is np:
        return _places(np.flatnonzero(self if self.dtype == np.bool_ else self != 0), self.shape)
    found: Array = xp.stack(xp.nonzero(self)).astype(xp.int64)
    return found.T


def _places(flat: Array, shape: tuple[int, ...]) -> Array:
    """The coordinates of places in row-major order, a row each: [places, dimensions]."""
    found = np.empty((len(shape), len(flat)), np.int64)
    for d in range(len(shape) - 1, 0, -1):
        above = flat // max(shape[d], 1)
        np.subtract(flat, above * shape[d], out=found[d])
        flat = above
    found[0] = flat
    return found.T


@nonzero.memoised().unbacked
def nonzero_unbacked(new: NewNumbers, self: TensorMeta) -> TensorMeta:
    count = new.size(0, self.numel)
    return nonzero_layout((count, self.ndim), self)


nonzero_numpy = define("aten::nonzero_numpy(Tensor self) -> Tensor[]")
nonzero_numpy.describe(
    "The positions of elements that are not zero: a vector of int64 for each dimension."
)


@nonzero_numpy.composite
def nonzero_numpy_composite(self: Tensor) -> object:
    whole = self.unsqueeze(0) if self.meta.ndim == 0 else self
    return list(whole.nonzero().unbind(1))


argwhere = define("aten::argwhere(Tensor self) -> Tensor", tags=[Tag.dynamic_output_shape])
argwhere.describe(
    "The positions of elements that are not zero: int64, a row for each, a column for each "
    "dimension."
)
argwhere.composite(lambda self: self.nonzero())

nonzero_static = define(
    "aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"
)
nonzero_static.describe(
    "The first `size` positions of elements that are not zero, filled up with rows of `fill_value`."
)
nonzero_static.nondifferentiable()


@nonzero_static.shape
def nonzero_static_shape(self: TensorMeta, size: int, fill_value: int) -> TensorMeta:
    check(size >= 0, lambda: f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    return self.fresh((size, self.ndim), int64)


@nonzero_static.kernel
def nonzero_static_kernel(xp: ModuleType, self: Array, size: int, fill_value: int) -> Array:
    mask = self != 0
    where = [
        compressed_at(xp, xp.broadcast_to(line, self.shape), mask, size, fill_value)
        for line in xp.indices(self.shape, xp.int64, sparse=True)
    ]
    found: Array = xp.stack(where, -1) if where else xp.zeros((size, 0), xp.int64)
    return found
