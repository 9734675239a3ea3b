"""Operators of NumPy, to try tests and transforms on: importing this defines ``_torch_testing::*``.

Their names and schemas are those of PyTorch's test operators. Each kernel copies to NumPy and back,
so that nothing sees through it; fake, derivative and batching rule stand beside it where there are
any. `samples` gives calls of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from maquette.api import functions as mq
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import int64
from maquette.library import CustomOpDef, custom_op, get_ctx
from maquette.tensor.tensor import Tensor

_NS = "_torch_testing"


def _array(x: Tensor) -> Any:
    return x.detach().cpu().resolve_conj().resolve_neg().numpy()


def _tensor(values: Any, like: Tensor, dtype: Any = None) -> Tensor:
    return mq.tensor(np.array(values, order="C"), device=like.device, dtype=dtype or like.dtype)


def _front(x: Tensor, dim: int | None, size: int) -> Tensor:
    """A tensor with its batch in front; one without is expanded."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _shape_of_all(x: Tensor, y: Tensor) -> Sequence[Any]:
    if x.device != y.device:
        raise RuntimeError(f"expected one device, got {x.device} and {y.device}")
    return broadcast_shapes(x.shape, y.shape)


# --- elementwise --------------------------------------------------------------------------------


def _cube(x: Tensor) -> tuple[Tensor, Tensor]:
    values = _array(x)
    return _tensor(values**3, x), _tensor(3 * values**2, x)


numpy_cube = custom_op(
    f"{_NS}::numpy_cube", _cube, mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)"
)


@numpy_cube.register_fake
def _cube_fake(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _cube_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output[1])


def _cube_backward(ctx: Any, grad: Tensor, grad_slope: Tensor) -> Tensor:
    x, slope = ctx.saved_tensors
    by_value, by_slope = numpy_mul(grad, slope), numpy_mul(grad_slope, x)
    assert isinstance(by_value, Tensor)
    assert isinstance(by_slope, Tensor)
    return by_value + 6 * by_slope


numpy_cube.register_autograd(_cube_backward, setup_context=_cube_setup)


@numpy_cube.register_vmap
def _cube_vmap(info: Any, in_dims: Any, x: Tensor) -> Any:
    return numpy_cube(x), (in_dims[0], in_dims[0])


numpy_mul = custom_op(
    f"{_NS}::numpy_mul",
    lambda x, y: _tensor(_array(x) * _array(y), x, mq.result_type(x, y)),
    mutates_args=(),
    schema="(Tensor x, Tensor y) -> Tensor",
)


@numpy_mul.register_fake
def _mul_fake(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(_shape_of_all(x, y), dtype=mq.result_type(x, y))


def _mul_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _mul_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, y = ctx.saved_tensors
    return (
        grad * y.conj() if ctx.needs_input_grad[0] else None,
        grad * x.conj() if ctx.needs_input_grad[1] else None,
    )


numpy_mul.register_autograd(_mul_backward, setup_context=_mul_setup)


@numpy_mul.register_vmap
def _mul_vmap(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> Any:
    given = [t.unsqueeze(-1) if d is None else t.movedim(d, -1) for t, d in zip((x, y), in_dims)]
    return numpy_mul(*given), -1


numpy_mul_scalar = custom_op(
    f"{_NS}::numpy_mul_scalar",
    lambda x, *, scalar: _tensor(_array(x) * scalar, x, _scaled(x)),
    mutates_args=(),
    schema="(Tensor x, *, float scalar) -> Tensor",
)


def _scaled(x: Tensor) -> Any:
    """The dtype of a tensor times a float."""
    return mq.result_type(x, 1.0)


@numpy_mul_scalar.register_fake
def _mul_scalar_fake(x: Tensor, *, scalar: float) -> Tensor:
    return x.new_empty(x.shape, dtype=_scaled(x))


def _mul_scalar_setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.scalar = keyword_only_inputs["scalar"]


numpy_mul_scalar.register_autograd(
    lambda ctx, grad: grad * ctx.scalar, setup_context=_mul_scalar_setup
)


@numpy_mul_scalar.register_vmap
def _mul_scalar_vmap(info: Any, in_dims: Any, x: Tensor, *, scalar: float) -> Any:
    return numpy_mul_scalar(x, scalar=scalar), in_dims[0]


# --- order and positions ------------------------------------------------------------------------


def _sort(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    values = _array(x)
    order = np.argsort(values, axis=dim, kind="stable")
    back = np.argsort(order, axis=dim, kind="stable")
    taken = np.take_along_axis(values, order, axis=dim)
    return _tensor(taken, x), _tensor(order, x, int64), _tensor(back, x, int64)


numpy_sort = custom_op(
    f"{_NS}::numpy_sort",
    _sort,
    mutates_args=(),
    schema="(Tensor x, SymInt dim) -> (Tensor, Tensor, Tensor)",
)


@numpy_sort.register_fake
def _sort_fake(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    _check_dim(x, dim)
    positions = x.new_empty(x.shape, dtype=int64)
    return x.new_empty(x.shape), positions, mq.empty_like(positions)


def _check_dim(x: Tensor, dim: int) -> None:
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(f"dim {dim} is out of range for {x.ndim} dimensions")


def _sort_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.dim = inputs[1]
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _sort_backward(ctx: Any, grad: Tensor, *unused: Any) -> Any:
    order, back = ctx.saved_tensors
    return numpy_take(grad, back, order, ctx.dim), None


numpy_sort.register_autograd(_sort_backward, setup_context=_sort_setup)


@numpy_sort.register_vmap
def _sort_vmap(info: Any, in_dims: Any, x: Tensor, dim: int) -> Any:
    inner = dim if dim >= 0 else dim + x.ndim - 1
    return numpy_sort(x.movedim(in_dims[0], 0), inner + 1), (0, 0, 0)


def _check_positions(x: Tensor, ind: Tensor, ind_inv: Tensor, dim: int) -> None:
    _check_dim(x, dim)
    for t in (ind, ind_inv):
        if t.dtype is not int64 or t.device != x.device or t.shape != x.shape:
            raise RuntimeError(f"expected int64 positions like {x.shape}, got {t.dtype} {t.shape}")


def _take(x: Tensor, ind: Tensor, ind_inv: Tensor, dim: int) -> Tensor:
    """The elements of ``x`` in the order ``ind`` along a dimension; ``ind_inv`` undoes it."""
    _check_positions(x, ind, ind_inv, dim)
    order, back = _array(ind), _array(ind_inv)
    if not (np.diff(np.take_along_axis(order, back, dim), axis=dim) == 1).all():
        raise RuntimeError("expected ind_inv to be the inverse of ind along the dimension")
    return _tensor(np.take_along_axis(_array(x), order, dim), x)


numpy_take = custom_op(
    f"{_NS}::numpy_take",
    _take,
    mutates_args=(),
    schema="(Tensor x, Tensor ind, Tensor ind_inv, SymInt dim) -> Tensor",
)


@numpy_take.register_fake
def _take_fake(x: Tensor, ind: Tensor, ind_inv: Tensor, dim: int) -> Tensor:
    _check_positions(x, ind, ind_inv, dim)
    return x.new_empty(ind.shape)


def _take_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.dim = inputs[3]
    ctx.save_for_backward(inputs[1], inputs[2])


def _take_backward(ctx: Any, grad: Tensor) -> Any:
    ind, ind_inv = ctx.saved_tensors
    return numpy_take(grad, ind_inv, ind, ctx.dim), None, None, None


numpy_take.register_autograd(_take_backward, setup_context=_take_setup)


@numpy_take.register_vmap
def _take_vmap(info: Any, in_dims: Any, x: Tensor, ind: Tensor, ind_inv: Tensor, dim: int) -> Any:
    inner = x.ndim - (in_dims[0] is not None)
    given = [_front(t, d, info.batch_size) for t, d in zip((x, ind, ind_inv), in_dims)]
    return numpy_take(*given, dim % inner + 1), 0


numpy_nonzero = custom_op(
    f"{_NS}::numpy_nonzero",
    lambda x: _tensor(np.argwhere(_array(x)), x, int64),
    mutates_args=(),
    schema="(Tensor x) -> Tensor",
)


@numpy_nonzero.register_fake
def _nonzero_fake(x: Tensor) -> Tensor:
    return x.new_empty(get_ctx().new_dynamic_size(), x.ndim, dtype=int64)


# --- boxes --------------------------------------------------------------------------------------


def _nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Which boxes (x1, y1, x2, y2) stay, best first, when worse ones that overlap them go."""
    _check_boxes(boxes, scores)
    b = _array(boxes).astype(np.float64)
    left = np.argsort(-_array(scores), kind="stable")
    kept = []
    while left.size:
        best, left = left[0], left[1:]
        kept.append(best)
        left = left[_overlap(b[best], b[left]) <= iou_threshold]
    return _tensor(np.array(kept, np.int64), boxes, int64)


def _overlap(box: Any, others: Any) -> Any:
    """Intersection over union; lengths count both ends, as of pixels."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.prod(np.maximum(high - low + 1, 0), 1)
    areas = np.prod(others[:, 2:] - others[:, :2] + 1, 1)
    return both / (np.prod(box[2:] - box[:2] + 1) + areas - both)


def _check_boxes(boxes: Tensor, scores: Tensor) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise RuntimeError(f"expected boxes [n, 4], scores [n]; got {boxes.shape}, {scores.shape}")
    if boxes.device != scores.device:
        raise RuntimeError(f"expected one device, got {boxes.device} and {scores.device}")


numpy_nms = custom_op(
    f"{_NS}::numpy_nms",
    _nms,
    mutates_args=(),
    schema="(Tensor boxes, Tensor scores, Scalar iou_threshold) -> Tensor",
)


@numpy_nms.register_fake
def _nms_fake(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    _check_boxes(boxes, scores)
    return boxes.new_empty(get_ctx().new_dynamic_size(), dtype=int64)


# --- shapes -------------------------------------------------------------------------------------

numpy_view_copy = custom_op(
    f"{_NS}::numpy_view_copy",
    lambda x, shape: _tensor(_array(x).reshape(shape).copy(), x),
    mutates_args=(),
    schema="(Tensor x, SymInt[] shape) -> Tensor",
)


@numpy_view_copy.register_fake
def _view_copy_fake(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.new_empty(x.new_empty(x.shape).view(shape).shape)


def _view_copy_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.shape = inputs[0].shape


numpy_view_copy.register_autograd(
    lambda ctx, grad: (numpy_view_copy(grad, ctx.shape), None), setup_context=_view_copy_setup
)


@numpy_view_copy.register_vmap
def _view_copy_vmap(info: Any, in_dims: Any, x: Tensor, shape: Sequence[int]) -> Any:
    front = x.movedim(in_dims[0], 0)
    if -1 in shape:
        shape = x.new_empty(front.shape[1:]).view(shape).shape
    return numpy_view_copy(front, [info.batch_size, *shape]), 0


def _cat(xs: Sequence[Tensor], dim: int) -> Tensor:
    _check_alike(xs)
    return _tensor(np.concatenate([_array(x) for x in xs], axis=dim), xs[0])


def _check_alike(xs: Sequence[Tensor]) -> None:
    if not xs or any((x.device, x.dtype) != (xs[0].device, xs[0].dtype) for x in xs):
        raise RuntimeError("expected tensors of one dtype and device, one at least")
    if any(x.ndim == 0 or x.ndim != xs[0].ndim for x in xs):
        raise RuntimeError("expected tensors of equal rank, none 0-d")


numpy_cat = custom_op(
    f"{_NS}::numpy_cat", _cat, mutates_args=(), schema="(Tensor[] xs, SymInt dim) -> Tensor"
)


@numpy_cat.register_fake
def _cat_fake(xs: Sequence[Tensor], dim: int) -> Tensor:
    _check_alike(xs)
    _check_dim(xs[0], dim)
    d = dim % xs[0].ndim
    rests = [[*x.shape[:d], *x.shape[d + 1 :]] for x in xs]
    if any(rest != rests[0] for rest in rests):
        raise RuntimeError(f"expected equal sizes but at {dim}, got {[list(x.shape) for x in xs]}")
    shape = list(xs[0].shape)
    shape[d] = sum([x.shape[d] for x in xs])
    return xs[0].new_empty(shape)


def _cat_setup(ctx: Any, inputs: Any, output: Any) -> None:
    xs, ctx.dim = inputs
    ctx.sizes = [x.shape[ctx.dim] for x in xs]


def _cat_backward(ctx: Any, grad: Tensor) -> Any:
    ends = [sum(ctx.sizes[: i + 1]) for i in range(len(ctx.sizes) - 1)]
    return numpy_split_copy(grad, ends, ctx.dim), None


numpy_cat.register_autograd(_cat_backward, setup_context=_cat_setup)


@numpy_cat.register_vmap
def _cat_vmap(info: Any, in_dims: Any, xs: Sequence[Tensor], dim: int) -> Any:
    given = [_front(x, d, info.batch_size) for x, d in zip(xs, in_dims[0])]
    return numpy_cat(given, dim % (given[0].ndim - 1) + 1), 0


def _check_splits(x: Tensor, splits: Sequence[int], dim: int) -> None:
    _check_dim(x, dim)
    places = [0, *splits, x.shape[dim]]
    if any(end < begin for begin, end in pairwise(places)):
        raise RuntimeError(f"expected rising splits of a size {x.shape[dim]}, got {list(splits)}")


def _split(x: Tensor, splits: Sequence[int], dim: int) -> list[Tensor]:
    _check_splits(x, splits, dim)
    return [_tensor(part.copy(), x) for part in np.split(_array(x), splits, axis=dim)]


def _split_fake(x: Tensor, splits: Sequence[int], dim: int) -> list[Tensor]:
    _check_splits(x, splits, dim)
    parts = mq.tensor_split(x, list(splits), dim)
    return [x.new_empty(part.shape) for part in parts]


def _split_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.dim = inputs[2]


numpy_split_copy = custom_op(
    f"{_NS}::numpy_split_copy",
    _split,
    mutates_args=(),
    schema="(Tensor x, SymInt[] splits, SymInt dim) -> Tensor[]",
)
numpy_split_copy.register_fake(_split_fake)
numpy_split_copy.register_autograd(
    lambda ctx, grads: (numpy_cat(grads, ctx.dim), None, None), setup_context=_split_setup
)


@numpy_split_copy.register_vmap
def _split_vmap(info: Any, in_dims: Any, x: Tensor, splits: Sequence[int], dim: int) -> Any:
    parts: Any = numpy_split_copy(x.movedim(in_dims[0], 0), splits, dim % (x.ndim - 1) + 1)
    return parts, [0] * len(parts)


numpy_split_copy_with_int = custom_op(
    f"{_NS}::numpy_split_copy_with_int",
    lambda x, splits, dim: (_split(x, splits, dim), len(splits)),
    mutates_args=(),
    schema="(Tensor x, SymInt[] splits, SymInt dim) -> (Tensor[], SymInt)",
)


@numpy_split_copy_with_int.register_fake
def _split_with_int_fake(x: Tensor, splits: Sequence[int], dim: int) -> tuple[list[Tensor], int]:
    return _split_fake(x, splits, dim), len(splits)


numpy_split_copy_with_int.register_autograd(
    lambda ctx, grads, unused: (numpy_cat(grads, ctx.dim), None, None),
    setup_context=_split_setup,
)


@numpy_split_copy_with_int.register_vmap
def _split_with_int_vmap(
    info: Any, in_dims: Any, x: Tensor, splits: Sequence[int], dim: int
) -> Any:
    inner = dim % (x.ndim - 1)
    result: Any = numpy_split_copy_with_int(x.movedim(in_dims[0], 0), splits, inner + 1)
    return result, ([0] * len(result[0]), None)


# --- calls --------------------------------------------------------------------------------------


def samples() -> dict[CustomOpDef, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Calls of each operator, on new tensors; those that are differentiable require grad."""
    make = np.random.default_rng(0)

    def x(*shape: int, grad: bool = True) -> Tensor:
        return mq.tensor(make.uniform(0.9, 2, shape), requires_grad=grad)

    order = x(3, 5, grad=False).argsort(-1)
    boxes = mq.cat([x(6, 2, grad=False), x(6, 2, grad=False) + 3], 1)
    return {
        numpy_cube: [((x(2, 3),), {})],
        numpy_mul: [((x(2, 3), x(2, 3)), {}), ((x(2, 3), x(3)), {})],
        numpy_mul_scalar: [((x(2, 3),), {"scalar": 3.14})],
        numpy_sort: [((x(3, 5), -1), {}), ((x(3, 5), 0), {})],
        numpy_take: [((x(3, 5), order, order.argsort(-1), -1), {})],
        numpy_nonzero: [((mq.tensor([0.0, 1.5, 0.0, 2.5]),), {})],
        numpy_nms: [((boxes, x(6, grad=False), 0.4), {})],
        numpy_view_copy: [((x(2, 3, 4), [2, 12]), {})],
        numpy_cat: [(([x(2, 3), x(4, 3), x(1, 3)], 0), {})],
        numpy_split_copy: [((x(2, 9), [1, 3, 6], 1), {})],
        numpy_split_copy_with_int: [((x(2, 9), [1, 3, 6], 1), {})],
    }


__all__ = [
    "numpy_cat",
    "numpy_cube",
    "numpy_mul",
    "numpy_mul_scalar",
    "numpy_nms",
    "numpy_nonzero",
    "numpy_sort",
    "numpy_split_copy",
    "numpy_split_copy_with_int",
    "numpy_take",
    "numpy_view_copy",
    "samples",
]
