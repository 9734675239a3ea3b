"""The operators that derivatives of views call: a gradient put back to where it was taken from."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from maquette.aten.common.array_libraries import added_to, assigned_at
from maquette.aten.common.axes import Array
from maquette.aten.common.backward_checks import check_sizes
from maquette.aten.common.batching_forms import wrapped
from maquette.aten.common.operators import aten
from maquette.aten.factory.ranges import arange_start
from maquette.core.broadcast import wrap_dim
from maquette.core.meta import TensorMeta
from maquette.core.symbols import is_true
from maquette.core.views import diagonal_view, select_view, slice_view, unfold_view
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]


def _fresh(name: str, grad: TensorMeta, wanted: Ints, input_sizes: Ints) -> TensorMeta:
    """The meta of the whole, for a gradient of the shape that the view has."""
    check_sizes(name, "a gradient", grad, wanted)
    return grad.fresh(input_sizes)


def _zeros(xp: ModuleType, like: Array, sizes: Ints) -> Array:
    made: Array = xp.zeros(sizes, like.dtype)
    return made


select_backward = define(
    "aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) "
    "-> Tensor"
)


@select_backward.shape
def select_backward_shape(
    grad_output: TensorMeta, input_sizes: Ints, dim: int, index: int
) -> TensorMeta:
    wanted, _, _ = select_view(input_sizes, (0,) * len(input_sizes), 0, dim, index)
    return _fresh("select_backward", grad_output, wanted, input_sizes)


@select_backward.kernel
def select_backward_kernel(
    xp: ModuleType, grad_output: Array, input_sizes: Ints, dim: int, index: int
) -> Array:
    whole = _zeros(xp, grad_output, input_sizes)
    at = (*[slice(None)] * (dim % len(input_sizes)), index)
    return assigned_at(xp, whole, at, grad_output)


select_backward.linear(grad_output=lambda grad, dim, index: grad.select(dim, index))


@select_backward.batching_decomposition
def select_backward_batching(grad: Tensor, input_sizes: Any, dim: int, index: int) -> Tensor:
    return aten.select_scatter(grad.new_zeros(input_sizes), grad, dim, index)


slice_backward = define(
    "aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, "
    "SymInt end, SymInt step) -> Tensor"
)


@slice_backward.shape
def slice_backward_shape(
    grad_output: TensorMeta, input_sizes: Ints, dim: int, start: int, end: int, step: int
) -> TensorMeta:
    wanted, _, _ = slice_view(input_sizes, (0,) * len(input_sizes), 0, dim, start, end, step)
    return _fresh("slice_backward", grad_output, wanted, input_sizes)


@slice_backward.kernel
def slice_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    input_sizes: Ints,
    dim: int,
    start: int,
    end: int,
    step: int,
) -> Array:
    whole = _zeros(xp, grad_output, input_sizes)
    index = [slice(None)] * len(input_sizes)
    index[dim] = slice(start, end, step)
    return assigned_at(xp, whole, tuple(index), grad_output)


slice_backward.linear(
    grad_output=lambda grad, dim, start, end, step: aten.slice(grad, dim, start, end, step)
)


@slice_backward.batching_decomposition
def slice_backward_batching(
    grad: Tensor, input_sizes: Any, dim: int, start: int, end: int, step: int
) -> Tensor:
    return aten.slice_scatter(grad.new_zeros(input_sizes), grad, dim, start, end, step)


diagonal_backward = define(
    "aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, "
    "int dim2) -> Tensor"
)


@diagonal_backward.shape
def diagonal_backward_shape(
    grad_output: TensorMeta, input_sizes: Ints, offset: int, dim1: int, dim2: int
) -> TensorMeta:
    wanted, _, _ = diagonal_view(input_sizes, (0,) * len(input_sizes), 0, offset, dim1, dim2)
    return _fresh("diagonal_backward", grad_output, wanted, input_sizes)


@diagonal_backward.kernel
def diagonal_backward_kernel(
    xp: ModuleType, grad_output: Array, input_sizes: Ints, offset: int, dim1: int, dim2: int
) -> Array:
    whole = _zeros(xp, grad_output, input_sizes)
    return write_diagonal(xp, whole, grad_output, offset, dim1, dim2)


def write_diagonal(
    xp: ModuleType, target: Array, values: Array, offset: int, dim1: int, dim2: int
) -> Array:
    """Write ``values`` to a diagonal of two dimensions; it is the last one of ``values``.

    The result is the array to go on with.
    """
    last = xp.moveaxis(target, (dim1, dim2), (-2, -1))
    count = values.shape[-1]
    rows = xp.arange(count) + max(-offset, 0)
    columns = xp.arange(count) + max(offset, 0)
    written = assigned_at(xp, last, (..., rows, columns), values)
    return xp.moveaxis(written, (-2, -1), (dim1, dim2))


diagonal_backward.linear(
    grad_output=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)
)


@diagonal_backward.batching_decomposition
def diagonal_backward_batching(
    grad: Tensor, input_sizes: Any, offset: int, dim1: int, dim2: int
) -> Tensor:
    return aten.diagonal_scatter(grad.new_zeros(input_sizes), grad, offset, dim1, dim2)


unfold_backward = define(
    "aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) "
    "-> Tensor"
)


@unfold_backward.shape
def unfold_backward_shape(
    grad_in: TensorMeta, input_sizes: Ints, dim: int, size: int, step: int
) -> TensorMeta:
    wanted, _, _ = unfold_view(input_sizes, (0,) * len(input_sizes), 0, dim, size, step)
    return _fresh("unfold_backward", grad_in, wanted, input_sizes)


@unfold_backward.kernel
def unfold_backward_kernel(
    xp: ModuleType, grad_in: Array, input_sizes: Ints, dim: int, size: int, step: int
) -> Array:
    whole = _zeros(xp, grad_in, input_sizes)
    if not input_sizes:
        return grad_in[..., 0] + whole if size else whole
    axis = wrap_dim(dim, len(input_sizes))
    lines = xp.moveaxis(whole, axis, -1)
    windows = xp.moveaxis(grad_in, axis, -2)
    for window in range(windows.shape[-2]):
        # Windows overlap, but no window meets itself: adding one at a time is exact.
        at = (..., slice(window * step, window * step + size))
        lines = added_to(xp, lines, at, windows[..., window, :])
    return xp.moveaxis(lines, -1, axis)


unfold_backward.linear(grad_in=lambda grad, dim, size, step: grad.unfold(dim, size, step))


@unfold_backward.batching_decomposition
def unfold_backward_batching(
    grad: Tensor, input_sizes: Any, dim: int, size: int, step: int
) -> Tensor:
    made = grad.new_zeros(input_sizes)
    if not len(input_sizes):
        return made + grad.reshape(())
    dim = wrapped(dim, len(input_sizes))
    count = grad.shape[dim]
    index = aten.arange(count, device=grad.device) * step
    whole = index.unsqueeze(-1) + aten.arange(size, device=grad.device)
    source = grad.movedim(-1, dim + 1).flatten(dim, dim + 1)
    return made.index_add(dim, whole.flatten(), source)


def as_strided_backward(
    grad: Tensor, meta: TensorMeta, size: Ints, stride: Ints, storage_offset: int | None
) -> Tensor:
    """The gradient of ``as_strided`` for a tensor of ``meta``.

    The gradient is added up where the view showed one element of the storage several times, and
    shared out equally where the input did.
    """
    offset = meta.offset if storage_offset is None else storage_offset
    first = min(offset, meta.offset)
    span = max(
        _span(size, stride, offset - first), _span(meta.shape, meta.strides, meta.offset - first)
    )
    for dim in reversed(range(len(size))):
        if is_true(size[dim] == 1):
            grad = grad.squeeze(dim)
            size, stride = size[:dim] + size[dim + 1 :], stride[:dim] + stride[dim + 1 :]
    flat = grad.new_zeros((span,))
    if _may_overlap(size, stride):
        places = _positions(grad, span).as_strided(size, stride, offset - first)
        added = grad.reshape(-1)
        flat.index_add_(0, places.reshape(-1), added)
    else:
        flat.as_strided(size, stride, offset - first).copy_(grad)
    if _may_overlap(meta.shape, meta.strides):
        own = _places(grad, span, meta.shape, meta.strides, meta.offset - first)
        kind = meta.dtype.to_real()
        ones = flat.new_ones(own.shape, dtype=kind)
        shown = flat.new_zeros((span,), dtype=kind).index_add(0, own, ones)
        flat = flat / shown.clamp_min(1)
    return flat.as_strided(meta.shape, meta.strides, meta.offset - first)


def on_storage(
    grad: Tensor, meta: TensorMeta, size: Ints, stride: Ints, offset: int
) -> tuple[Tensor, int]:
    """A gradient of a tensor of ``meta`` where its elements lie in the storage, zero elsewhere.

    It spans that tensor and the other geometry; also given is where in the storage it begins.
    """
    first = min(offset, meta.offset)
    span = max(
        _span(size, stride, offset - first), _span(meta.shape, meta.strides, meta.offset - first)
    )
    own = _places(grad, span, meta.shape, meta.strides, meta.offset - first)
    return grad.new_zeros((span,)).index_add(0, own, grad.reshape(-1)), first


def _span(size: Ints, stride: Ints, offset: int) -> int:
    if 0 in size:
        return offset
    return offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _may_overlap(size: Ints, stride: Ints) -> bool:
    """Whether two elements of a geometry can be one: not, where each stride steps over the rest."""
    reach = 0
    for step, n in sorted(zip(stride, size, strict=True)):
        if n != 1:
            if step <= reach:
                return True
            reach += step * (n - 1)
    return False


def _places(grad: Tensor, span: int, size: Ints, stride: Ints, offset: int) -> Tensor:
    """The flat position in the storage of each element of a geometry."""
    return _positions(grad, span).as_strided(size, stride, offset).reshape(-1)


def _positions(grad: Tensor, span: int) -> Tensor:
    positions = arange_start(0, span, device=grad.device)
    assert isinstance(positions, Tensor)
    return positions
