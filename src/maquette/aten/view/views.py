"""Views of one tensor: other shapes, strides and offsets over the same storage.

A page here is a schema and a geometry from `maquette.core.views`; the kernel that lays it over the
storage is derived. Lists of views are in `splitting.py`, forms that change their tensor's geometry
in `inplace_views.py`, the operators that derivatives call in `view_gradients.py`, views defined by
other views in `reshaping.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maquette.aten.common.batching_forms import along, rank_of, same_shape, sized, to_front, wrapped
from maquette.aten.common.operators import aten
from maquette.aten.view.view_gradients import (
    as_strided_backward,
    diagonal_backward,
    select_backward,
    slice_backward,
    unfold_backward,
)
from maquette.core.broadcast import wrap_dims
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import is_true
from maquette.core.views import (
    as_strided_check,
    diagonal_view,
    expand_view,
    permute_view,
    select_view,
    slice_view,
    squeeze_view,
    transpose_view,
    unfold_view,
    unsqueeze_view,
    view_dtype,
    view_shape_infer,
    view_strides,
)
from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.aliasing import alias_kernel
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.memory import lifted
from maquette.transforms.pointwise import VmapInfo

Ints = tuple[int, ...]

view = define("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", tags=[Tag.core])
view.describe(
    "The tensor seen with another shape of as many elements, or as another dtype: a view."
)


@view.shape
def view_shape(self: TensorMeta, size: Ints) -> TensorMeta:
    shape = view_shape_infer(size, self.numel, self.shape)
    strides = view_strides(self.shape, self.strides, shape)
    if strides is None:
        raise RuntimeError(
            f"view size is not compatible with input tensor's size and stride (at least one "
            f"dimension spans across two contiguous subspaces). Use .reshape(...) instead. The "
            f"tensor is {self} with strides {self.strides}, the size asked for is {list(size)}."
        )
    return self.view(shape, strides)


def reshaped_back(grad: Tensor, self_meta: TensorMeta) -> Tensor:
    """The gradient in the shape of what was viewed: a view itself wherever it can be."""
    if grad.meta.is_contiguous:
        return view(grad, self_meta.shape)  # reshape would come to this: 3 us less
    return grad.reshape(self_meta.shape)


view.linear(self=reshaped_back)
view.batching(sized)

view_as_dtype = define("aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)")
view_as_dtype.without_base()
view_as_dtype.refuse_conjugates(
    "Tensor.view is not supported for conjugate view tensors when converting to a different dtype."
)
view_as_dtype.refuse_negatives(
    "Tensor.view is not supported for tensors with negative bit set when converting to a different "
    "dtype."
)
view_as_dtype.nondifferentiable()


@view_as_dtype.shape
def view_as_dtype_shape(self: TensorMeta, dtype: dtype) -> TensorMeta:
    shape, strides, offset = view_dtype(self.shape, self.strides, self.offset, self.dtype, dtype)
    return TensorMeta.of(dtype, shape, strides, offset, self.device, self.layout)


@view_as_dtype.batching
def view_dtype_batching(info: VmapInfo, in_dims: Any, self: Tensor, dtype: Any) -> Any:
    x = to_front(self, in_dims[0])
    if rank_of(self, in_dims[0]) == 0:
        return x.unsqueeze(-1).view(dtype).squeeze(-1), 0
    return aten.view.dtype(x, dtype), 0


def share_storage(page: OperatorPage, view: OperatorPage, rule: Callable[..., object]) -> None:
    """Let ``page`` give views as ``view`` does although its schema does not say so.

    Such results share the storage and have neither base nor version in common.
    """
    page.shape(rule)
    below = ~(ADINPLACE | K.AUTOGRAD | K.REQUIRES_GRAD)

    table, resolve = view.op._table, view.op.resolve

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        low = ks & below
        return lambda ks, *params: (table.get(low) or resolve(low))(low, *params)

    for key in (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta, DispatchKey.Fake):
        page.op.register(key, Kernel(factory))


_unsafe_view = define("aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor")
share_storage(_unsafe_view, view, view_shape)
_unsafe_view.linear(self=reshaped_back)
_unsafe_view.hides_aliases()


def viewable(t: Tensor, shape: Ints) -> Tensor:
    """The tensor, or a contiguous copy where its strides have no view of that shape."""
    meta = t.meta
    wanted = view_shape_infer(shape, meta.numel, meta.shape)
    seen = view_strides(meta.shape, meta.strides, wanted)
    return t.contiguous() if seen is None else t


@_unsafe_view.batching
def _unsafe_view_batching(
    info: VmapInfo, in_dims: Sequence[int | None], self: Tensor, size: Ints
) -> tuple[Tensor, int]:
    """Copied where the batch lies across the example: no memory is seen to be shared."""
    front, shape = to_front(self, in_dims[0]), (info.batch_size, *size)
    return _unsafe_view(viewable(front, shape), shape), 0


_reshape_alias = define(
    "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"
)


@_reshape_alias.shape
def _reshape_alias_shape(self: TensorMeta, size: Ints, stride: Ints) -> TensorMeta:
    return self.view(size, stride)


_reshape_alias.linear(self=reshaped_back)


@_reshape_alias.batching
def reshape_alias_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, size: Sequence[int], stride: Sequence[int]
) -> Any:
    return to_front(self, in_dims[0]).reshape((info.batch_size, *size)), 0


as_strided = define(
    "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, "
    "SymInt? storage_offset=None) -> Tensor(a)",
    tags=[Tag.core],
)
as_strided.describe("The memory of the tensor seen with a size, strides and an offset: a view.")


@as_strided.shape
def as_strided_shape(
    self: TensorMeta, size: Ints, stride: Ints, storage_offset: int | None
) -> TensorMeta:
    # Whether the storage is long enough no meta knows: see `_within_storage`.
    return self.view(size, stride, self.offset if storage_offset is None else storage_offset)


def _within_storage(op: OpOverload, ks: int) -> Callable[..., object]:
    """As for every view, after the check that the geometry lies within the storage (T7)."""
    link = alias_kernel(op, ks)
    assert link is not None

    def kernel(
        ks: int, self: Tensor, size: Ints, stride: Ints, storage_offset: int | None
    ) -> object:
        offset = self.meta.offset if storage_offset is None else storage_offset
        as_strided_check(size, stride, offset, self.meta.itemsize, self._storage.nbytes())
        return link(ks, self, size, stride, storage_offset)

    return kernel


as_strided.op.register(DispatchKey.ADInplaceOrView, Kernel(_within_storage))
as_strided.linear(
    self=lambda grad, self_meta, size, stride, storage_offset: as_strided_backward(
        grad, self_meta, size, stride, storage_offset
    )
)


@as_strided.batching
def as_strided_batching(
    info: VmapInfo,
    in_dims: Any,
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    step = self.stride(in_dims[0])
    made = aten.as_strided(self, (info.batch_size, *size), (step, *stride), storage_offset)
    return made, 0


expand = define(
    "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
    tags=[Tag.core],
)
expand.describe(
    "The tensor with dimensions of size 1 repeated to a size, without a copy: a view; -1 keeps one."
)


@expand.shape
def expand_shape(self: TensorMeta, size: Ints, implicit: bool) -> TensorMeta:
    return self.view(*expand_view(self.shape, self.strides, self.offset, size))


# The engine sums a gradient that broadcasts over its input; that of a 0-dim tensor is a sum always,
# as PyTorch's.
expand.linear(
    self=lambda grad, self_meta: grad if self_meta.shape or grad.meta.shape else grad.sum()
)


@expand.batching
def expand_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, size: Sequence[int], *, implicit: bool = False
) -> Any:
    x = to_front(self, in_dims[0])
    batch, *shape = x.shape
    # A view of any rank, as modes see in PyTorch: of the same one, too.
    x = x.view((batch, *[1] * (len(size) - len(shape)), *shape))
    return x.expand((batch, *size), implicit=implicit), 0


permute = define("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", tags=[Tag.core])
permute.describe("The tensor with its dimensions in the order `dims`: a view.")


@permute.shape
def permute_shape(self: TensorMeta, dims: Ints) -> TensorMeta:
    return self.view(*permute_view(self.shape, self.strides, self.offset, dims))


def inverse_permutation(dims: Ints) -> Ints:
    """The order of dimensions that undoes ``dims``."""
    order = wrap_dims(dims, len(dims))
    return tuple(sorted(range(len(order)), key=order.__getitem__))


permute.linear(self=lambda grad, dims: grad.permute(inverse_permutation(dims)))


@permute.batching
def permute_batching(info: VmapInfo, in_dims: Any, self: Tensor, dims: Sequence[int]) -> Any:
    rank = rank_of(self, in_dims[0])
    x = to_front(self, in_dims[0])
    return x.permute([0, *(wrapped(d, rank) + 1 for d in dims)]), 0


transpose = define("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
transpose.describe("The tensor with two dimensions exchanged: a view.")


@transpose.shape
def transpose_shape(self: TensorMeta, dim0: int, dim1: int) -> TensorMeta:
    return self.view(*transpose_view(self.shape, self.strides, self.offset, dim0, dim1))


transpose.linear(self=lambda grad, dim0, dim1: transpose(grad, dim0, dim1))


@transpose.batching
def transpose_batching(info: VmapInfo, in_dims: Any, self: Tensor, dim0: int, dim1: int) -> Any:
    rank = rank_of(self, in_dims[0])
    dim0, dim1 = wrapped(dim0, rank), wrapped(dim1, rank)
    x = to_front(self, in_dims[0])
    return (x.transpose(dim0 + 1, dim1 + 1) if rank else aten.alias(x)), 0


t = define("aten::t(Tensor(a) self) -> Tensor(a)")
t.describe("A matrix transposed; a vector itself: a view.")


@t.shape
def t_shape(self: TensorMeta) -> TensorMeta:
    check(
        self.ndim <= 2,
        lambda: f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D",
    )
    return self if self.ndim < 2 else transpose_shape(self, 0, 1)


t.linear(self=lambda grad: t(grad))


@t.batching
def t_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    rank = rank_of(self, in_dims[0])
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    x = to_front(self, in_dims[0])
    return (x.transpose(1, 2) if rank == 2 else aten.alias(x)), 0


unsqueeze = define("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", tags=[Tag.core])
unsqueeze.describe("The tensor with a dimension of size 1 put in at `dim`: a view.")


@unsqueeze.shape
def unsqueeze_shape(self: TensorMeta, dim: int) -> TensorMeta:
    return self.view(*unsqueeze_view(self.shape, self.strides, self.offset, dim))


unsqueeze.linear(self=lambda grad, dim: grad.squeeze(dim))


@unsqueeze.batching
def unsqueeze_batching(info: VmapInfo, in_dims: Any, self: Tensor, dim: int) -> Any:
    rank = rank_of(self, in_dims[0])
    return to_front(self, in_dims[0]).unsqueeze(wrapped(dim, rank + 1) + 1), 0


squeeze = define("aten::squeeze(Tensor(a) self) -> Tensor(a)")
squeeze.describe(
    "The tensor without dimensions of size 1, or without those of the ones given: a view."
)
squeeze_dim = define("aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", tags=[Tag.core])
squeeze_dim.node_name("SqueezeBackward1")
squeeze_dims = define("aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", tags=[Tag.core])
squeeze_dims.node_name("SqueezeBackward2")


@squeeze.shape
def squeeze_shape(self: TensorMeta) -> TensorMeta:
    return self.view(*squeeze_view(self.shape, self.strides, self.offset))


@squeeze_dim.shape
def squeeze_dim_shape(self: TensorMeta, dim: int) -> TensorMeta:
    return squeeze_dims_shape(self, (dim,))


@squeeze_dims.shape
def squeeze_dims_shape(self: TensorMeta, dim: Ints) -> TensorMeta:
    return self.view(*squeeze_view(self.shape, self.strides, self.offset, dim))


@squeeze.batching
@squeeze_dim.batching
@squeeze_dims.batching
def squeeze_batching(info: VmapInfo, in_dims: Any, self: Tensor, dim: Any = None) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if dim is None:
        dims = list(range(rank))
    else:
        dims = [wrapped(d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    ones = [d + 1 for d in dims if d < rank and x.shape[d + 1] == 1]
    return aten.squeeze.dims(x, ones), 0


def _unsqueezed(grad: Tensor, shape: Ints, dims: Sequence[int]) -> Tensor:
    """The gradient with those of the dimensions back that were squeezed, being of size 1."""
    candidates = wrap_dims(dims, len(shape)) if shape else ()
    for dim in sorted(candidates):
        if is_true(shape[dim] == 1):
            grad = unsqueeze(grad, dim)
    return grad


squeeze.linear(
    self=lambda grad, self_meta: _unsqueezed(grad, self_meta.shape, range(self_meta.ndim))
)
squeeze_dim.linear(self=lambda grad, self_meta, dim: _unsqueezed(grad, self_meta.shape, (dim,)))
squeeze_dims.linear(self=lambda grad, self_meta, dim: _unsqueezed(grad, self_meta.shape, dim))

select = define(
    "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", tags=[Tag.core]
)
select.describe("The slice of position `index` along `dim`, without it: a view.")


@select.shape
def select_shape(self: TensorMeta, dim: int, index: int) -> TensorMeta:
    return self.view(*select_view(self.shape, self.strides, self.offset, dim, index))


select.linear(
    self=lambda grad, self_meta, dim, index: select_backward(grad, self_meta.shape, dim, index)
)
select.batching(along)

slice = define(
    "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor(a)",
    tags=[Tag.core],
)
slice.describe("The slices along `dim` from `start` to `end` in steps of `step`: a view.")
LARGEST_INT = 2**63 - 1


@slice.shape
def slice_shape(
    self: TensorMeta, dim: int, start: int | None, end: int | None, step: int
) -> TensorMeta:
    return self.view(*slice_view(self.shape, self.strides, self.offset, dim, start, end, step))


@slice.linear("self")
def slice_grad(
    grad: Tensor,
    self_meta: TensorMeta,
    dim: int,
    start: int | None,
    end: int | None,
    step: int,
) -> tuple[object]:
    last = LARGEST_INT if end is None else end
    return (slice_backward(grad, self_meta.shape, dim, start or 0, last, step),)


slice.batching(along)


unfold = define("aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)")
unfold.describe(
    "Windows of `size` along `dimension` in steps of `step`, in a last dimension: a view."
)


@unfold.shape
def unfold_shape(self: TensorMeta, dimension: int, size: int, step: int) -> TensorMeta:
    geometry = unfold_view(self.shape, self.strides, self.offset, dimension, size, step)
    return self.view(*geometry)


unfold.linear(
    self=lambda grad, self_meta, dimension, size, step: unfold_backward(
        grad, self_meta.shape, dimension, size, step
    )
)


@unfold.batching
def unfold_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, dimension: int, size: int, step: int
) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not rank:
        return aten.unfold(x.unsqueeze(1), 1, size, step).squeeze(1), 0
    return aten.unfold(x, wrapped(dimension, rank) + 1, size, step), 0


diagonal = define(
    "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    tags=[Tag.core],
)
diagonal.describe("A diagonal of two dimensions as a last dimension: a view.")


@diagonal.shape
def diagonal_shape(self: TensorMeta, offset: int, dim1: int, dim2: int) -> TensorMeta:
    geometry = diagonal_view(self.shape, self.strides, self.offset, offset, dim1, dim2)
    return self.view(*geometry)


diagonal.linear(
    self=lambda grad, self_meta, offset, dim1, dim2: diagonal_backward(
        grad, self_meta.shape, offset, dim1, dim2
    )
)


@diagonal.batching
def diagonal_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    rank = rank_of(self, in_dims[0])
    x = to_front(self, in_dims[0])
    return x.diagonal(offset, wrapped(dim1, rank) + 1, wrapped(dim2, rank) + 1), 0


alias = define("aten::alias(Tensor(a) self) -> Tensor(a)", tags=[Tag.core])
alias.describe("The tensor seen once more: a view.")
alias.shape(lambda self: self)
alias.linear(self=lambda grad: grad)
alias.batching(same_shape)

detach = define("aten::detach(Tensor(a) self) -> Tensor(a)").without_base()
detach.describe("The tensor outside of autograd's graph, over the same memory.")
detach.shape(lambda self: self)
detach.nondifferentiable()
detach.batching(same_shape)


def _itself(op: OpOverload, ks: int) -> Callable[..., object]:
    return lambda ks, self: self


lift_fresh = define("aten::lift_fresh(Tensor(a) self) -> Tensor(a)").without_base()
lift_fresh.describe("The tensor as transforms and modes see it; it was just made.")
lift_fresh.batching(same_shape)
lift_fresh.hides_aliases()
lift_fresh.functionalization(lifted)
lift = define("aten::lift(Tensor self) -> Tensor")
lift.describe("The tensor as transforms and modes see it.")
lift.batching(same_shape)
lift.hides_aliases()
for _page in (lift_fresh, lift):
    _page.shape(lambda self: self)
    _page.nondifferentiable()  # it gives its argument, with the history that has
    _page.tangent(lambda self_t: self_t)
    for _key in (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta):
        _page.op.register(_key, Kernel(_itself))

__all__ = [
    "alias",
    "as_strided",
    "detach",
    "diagonal",
    "expand",
    "permute",
    "select",
    "slice",
    "squeeze",
    "t",
    "transpose",
    "unfold",
    "unsqueeze",
    "view",
]
