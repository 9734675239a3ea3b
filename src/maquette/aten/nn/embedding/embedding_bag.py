"""Bags of embedding rows, summed, averaged or maximized, without holding the rows one by one.

A bag is a run of indices; `offsets` says where each begins. Results besides the output are what the
backward pass needs. As in PyTorch, the number of the bag of each index is left out where the
fast sum does not need it. Numbers of modes: 0 sum, 1 mean, 2 max.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import byte_strides, combined_at, data_says
from maquette.aten.common.axes import wrap_existing_dim
from maquette.aten.common.backward_checks import check_floats_only, check_sizes
from maquette.aten.common.large_arrays import loops_of_places
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.aten.nn.embedding.embedding import check_indices, checked_rows
from maquette.core.device_rules import any_elsewhere
from maquette.core.dtype import bfloat16, float16, float32, int64
from maquette.core.errors import check, check_not_implemented, of_data
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

SUM, MEAN, MAX = 0, 1, 2
Metas = tuple[TensorMeta, ...]
Results = tuple[Tensor, Tensor, Tensor, Tensor]


def _check_bags(
    weight: TensorMeta, indices: TensorMeta, offsets: TensorMeta, mode: int, scale: object
) -> None:
    check(
        weight.ndim == 2,
        lambda: f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}",
    )
    check(
        indices.ndim == 1,
        lambda: f"input has to be a 1D or 2D Tensor, but got Tensor of dimension {indices.ndim}",
    )
    check(
        offsets.ndim == 1,
        lambda: f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.ndim}",
    )
    check_indices("embedding_bag", indices)
    check_indices("embedding_bag", offsets)
    check(mode in (SUM, MEAN, MAX), lambda: f"embedding_bag: mode must be 0, 1 or 2; got {mode}")
    check(
        scale is None or mode == SUM,
        lambda: "embedding_bag: per_sample_weights only supported with mode='sum'",
    )


def _forward(name: str, tags: list[Tag], *, requires_grad: bool) -> OperatorPage:
    page = define(
        f"aten::{name}(Tensor weight, Tensor indices, Tensor offsets, "
        f"bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
        f"Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
        f"(Tensor, Tensor, Tensor, Tensor)",
        tags=tags,
    )

    @page.shape
    def embedding_bag_shape(
        weight: TensorMeta,
        indices: TensorMeta,
        offsets: TensorMeta,
        scale_grad_by_freq: bool,
        mode: int,
        sparse: bool,
        per_sample_weights: TensorMeta | None,
        include_last_offset: bool,
        padding_idx: int,
    ) -> Metas:
        _check_bags(weight, indices, offsets, mode, per_sample_weights)
        check(
            weight.dtype.is_floating_point,
            lambda: (
                f"Expected tensor for argument #1 'weight' to have one of the following scalar "
                f"types: Half, BFloat16, Float, Double; but got {weight}"
            ),
        )
        check(
            per_sample_weights is None or per_sample_weights.dtype is weight.dtype,
            lambda: (
                f"Expected per_sample_weights to have the same type as weight {weight}; got "
                f"{per_sample_weights}"
            ),
        )
        check(
            per_sample_weights is None or per_sample_weights.shape == indices.shape,
            lambda: (
                f"expected per_sample_weights of the shape of input {indices}; got "
                f"{per_sample_weights}"
            ),
        )
        check(
            is_true(indices.numel == 0) or expect_true(offsets.numel > include_last_offset),
            lambda: f"embedding_bag: expected offsets of at least one bag for {indices}",
        )
        kind = int64 if int64 in (indices.dtype, offsets.dtype) else offsets.dtype
        fast = mode == SUM and _sums_fast(weight, per_sample_weights, padding_idx)
        bags = offsets.shape[0] - include_last_offset
        counted = requires_grad or mode != SUM
        sizes = offsets.fresh((bags,) if counted else offsets.shape, kind)
        places = offsets.fresh((bags, weight.shape[1]), kind) if mode == MAX else sizes
        return (
            weight.fresh((bags, weight.shape[1])),
            indices.fresh((0,) if fast else indices.shape, kind),
            sizes,
            places,
        )

    @page.kernel
    def embedding_bag_kernel(
        xp: ModuleType,
        weight: Array,
        indices: Array,
        offsets: Array,
        scale_grad_by_freq: bool,
        mode: int,
        sparse: bool,
        per_sample_weights: Array | None,
        include_last_offset: bool,
        padding_idx: int,
    ) -> tuple[Array, ...]:
        bags = offsets.shape[0] - include_last_offset
        bag = of_bag = _bag_of_each(xp, offsets[:bags], indices.shape[0])
        rows, table = _checked(xp, indices, weight.shape[0]), wide(weight)
        scale = None if per_sample_weights is None else wide(per_sample_weights)
        if padding_idx >= 0:
            kept = indices != padding_idx
            rows, of_bag = rows[kept], bag[kept]
            scale = None if scale is None else scale[kept]
        fast = mode == SUM and _array_sums_fast(weight, per_sample_weights, padding_idx)
        numbers = bag[:0] if fast else bag
        if mode == MAX:
            out, places = _maxima(xp, table, rows, of_bag, bags)
            return out, numbers, xp.bincount(of_bag, minlength=bags), places
        out = _sums(xp, table, rows, of_bag, bags, scale)
        if mode == MEAN:
            counts = xp.bincount(of_bag, minlength=bags)
            out = out / xp.maximum(counts, 1).astype(out.dtype)[:, None]
            return out, numbers, counts, counts
        unused = xp.zeros(bags if requires_grad else offsets.shape[0], xp.int64)
        return out, numbers, unused, unused

    # Results are on the device of the weight, of the indices, or of the offsets (F57).
    page.any_device(
        when=lambda weight, indices, offsets, *rest: (
            weight.device.type == "meta" or any_elsewhere((weight, indices, offsets))
        )
    )
    return page


def _sums_fast(weight: TensorMeta, scale: TensorMeta | None, padding_idx: int) -> bool:
    return (
        weight.dtype in (float32, float16, bfloat16)
        and (weight.strides[1] == 1 or weight.shape[1] == 0)
        and (scale is None or scale.strides[0] == 1)
        and padding_idx < 0
    )


def _array_sums_fast(weight: Array, scale: Array | None, padding_idx: int) -> bool:
    return (
        weight.dtype.name in ("float32", "float16", "bfloat16")
        and (weight.shape[1] == 0 or byte_strides(weight)[1] == weight.itemsize)
        and (scale is None or byte_strides(scale)[0] == scale.itemsize)
        and padding_idx < 0
    )


def _checked(xp: ModuleType, indices: Array, rows: int) -> Array:
    """The indices; RuntimeError names the first that is not of the table."""
    if indices.__class__ is np.ndarray and indices.dtype == np.int64 and indices.size:
        if indices.view(np.uint64).max() < rows:  # below zero, numbers without a sign are large
            return indices
    wrong = xp.flatnonzero((indices < 0) | (indices >= rows))
    if wrong.size:
        at = int(wrong[0])
        raise of_data(
            RuntimeError(
                f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                f"{int(indices[at])} at place {at} of the input, with {rows} embeddings"
            )
        )
    return indices


def _bag_of_each(xp: ModuleType, offsets: Array, count: int) -> Array:
    """The number of the bag that each of `count` indices is in."""
    if offsets.size and data_says(lambda: int(offsets[0]) != 0):
        raise of_data(
            RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {int(offsets[0])}"
            )
        )
    if offsets.size and data_says(lambda: int(offsets[-1]) > count):
        raise of_data(
            RuntimeError(
                f"offsets[-1] can not be greater than input's length {count} but got "
                f"offsets[-1] of {int(offsets[-1])}"
            )
        )
    if xp is np and offsets.size and offsets.min() >= 0:
        begun = np.bincount(offsets, minlength=count)[:count]
        return np.cumsum(begun) - 1
    bags: Array = xp.searchsorted(offsets, xp.arange(count), side="right") - 1
    return bags


def _sums(
    xp: ModuleType, table: Array, rows: Array, bag: Array, bags: int, scale: Array | None
) -> Array:
    """The sums of the table's rows in each bag, each times a factor if that is given."""
    loops = loops_of_places(xp, rows.size * table.shape[1], table)
    if loops is not None:
        by_loop: Array = loops.bag_sums(table, rows, bag, bags, scale)
        return by_loop
    values = table[rows] if scale is None else table[rows] * scale[:, None]
    out: Array = xp.zeros((bags, table.shape[1]), values.dtype)
    return combined_at(xp, "add", out, bag, values)


def _maxima(
    xp: ModuleType, table: Array, rows: Array, bag: Array, bags: int
) -> tuple[Array, Array]:
    """The largest of each bag and column, and the row it is from; 0 for empty bags.

    NaN is larger than nothing, and stays where it is a bag's first.
    """
    loops = loops_of_places(xp, rows.size * table.shape[1], table)
    if loops is not None:
        found: tuple[Array, Array] = loops.bag_maxima(table, rows, bag, bags)
        return found
    count, shape = len(rows), (bags, table.shape[1])
    order, values = xp.arange(count)[:, None], table[rows]
    numbers = xp.where(values == values, values, -xp.inf)
    best = xp.full(shape, -xp.inf, values.dtype)
    best = combined_at(xp, "maximum", best, bag, numbers)
    first = xp.full(shape, count, xp.int64)
    mine = xp.where(numbers == best[bag], order, count)
    first = combined_at(xp, "minimum", first, bag, mine)
    begin = combined_at(xp, "minimum", xp.full((bags, 1), count, xp.int64), bag, order)
    opening = xp.concatenate([values, xp.zeros((1, shape[1]), values.dtype)])[begin[:, 0]]
    first = xp.where(opening == opening, first, begin)
    best = xp.where(opening == opening, best, opening)
    return xp.where(first < count, best, 0), xp.append(rows, 0)[first]


_embedding_bag = _forward("_embedding_bag", [Tag.core], requires_grad=True)
_embedding_bag_forward_only = _forward("_embedding_bag_forward_only", [], requires_grad=False)


@_embedding_bag.derivative("weight", "per_sample_weights")
def _embedding_bag_gradients(
    grad: Tensor,
    weight_meta: TensorMeta,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int,
    result1: Tensor,
    result2: Tensor,
    result3: Tensor,
    needs: list[bool],
) -> tuple[object, object]:
    by_scale = by_weight = None
    if needs[1]:
        by_scale = _embedding_bag_per_sample_weights_backward(
            grad, weight, indices, offsets, result1, mode, padding_idx
        )
    if needs[0] and sparse:
        by_weight = aten._embedding_bag_sparse_backward(
            grad,
            indices,
            offsets,
            result1,
            result2,
            weight_meta.shape[0],
            scale_grad_by_freq,
            mode,
            per_sample_weights,
            padding_idx,
        )
    elif needs[0]:
        by_weight = _embedding_bag_backward(
            grad,
            indices,
            offsets,
            result1,
            result2,
            result3,
            weight_meta.shape[0],
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            padding_idx,
        )
    return by_weight, by_scale


_embedding_bag.nondifferentiable(1, 2, 3)


@_embedding_bag.tangent
def _embedding_bag_tangent(
    weight: Tensor,
    weight_t: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    per_sample_weights_t: Tensor | None,
    include_last_offset: bool,
    padding_idx: int,
    result2: Tensor,
    result3: Tensor,
) -> tuple[Tensor, None, None, None]:
    """A sum is linear in rows and in their weights; a maximum takes the tangent of its place."""
    if mode == MAX:
        rows = result3.clamp_min(0)
        moved = weight_t.gather(0, rows).masked_fill(result2[: rows.shape[0]].unsqueeze(-1) == 0, 0)
        return moved, None, None, None
    bags = (indices, offsets, False, mode, sparse)  # frequencies are of gradients alone
    ends = (include_last_offset, padding_idx)
    moved = _embedding_bag(weight_t, *bags, per_sample_weights, *ends)[0]
    if per_sample_weights_t is not None:
        moved = moved + _embedding_bag(weight, *bags, per_sample_weights_t, *ends)[0]
    return moved, None, None, None


# --- gradients --------------------------------------------------------------------------------

_embedding_bag_backward = define(
    "aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, "
    "Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, "
    "int mode, bool sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor"
)


@_embedding_bag_backward.shape
def _embedding_bag_backward_shape(
    grad: TensorMeta,
    indices: TensorMeta,
    offsets: TensorMeta,
    offset2bag: TensorMeta,
    bag_size: TensorMeta,
    maximum_indices: TensorMeta,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: TensorMeta | None,
    padding_idx: int,
) -> TensorMeta:
    check_not_implemented(
        not sparse,
        lambda: (
            "_embedding_bag_backward(sparse=True): makes dense gradients only; "
            "_embedding_bag_sparse_backward makes sparse ones"
        ),
    )
    name = "_embedding_bag_backward"
    _check_gradient(name, grad, indices, offsets)
    check_sizes(name, "bag_size", bag_size, grad.shape[:1])
    check_sizes(name, "per_sample_weights", per_sample_weights, indices.shape)
    if mode == MAX:
        check_sizes(name, "maximum_indices", maximum_indices, grad.shape)
        check_indices(name, maximum_indices)
    return grad.fresh((num_weights, grad.shape[1]))


def _check_gradient(name: str, grad: TensorMeta, indices: TensorMeta, offsets: TensorMeta) -> None:
    check(
        grad.ndim == 2 and indices.ndim == 1 and offsets.ndim == 1,
        lambda: (
            f"{name}: expected a gradient of two dimensions, indices and offsets of one; got "
            f"{grad}, {indices} and {offsets}"
        ),
    )
    check_floats_only(name, grad)
    check_indices(name, indices)
    check_indices(name, offsets)
    bags = grad.shape[0]
    check(
        offsets.numel in (bags, bags + 1) and (bags > 0 or indices.numel == 0),
        lambda: f"{name}: expected offsets of {bags} bags, got {offsets} for {indices}",
    )


@_embedding_bag_backward.kernel
def _embedding_bag_backward_kernel(
    xp: ModuleType,
    grad: Array,
    indices: Array,
    offsets: Array,
    offset2bag: Array,
    bag_size: Array,
    maximum_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Array | None,
    padding_idx: int,
) -> Array:
    g = wide(grad)
    # Added up in the gradient's own type, one by one, as `embedding_dense_backward` does.
    result: Array = xp.zeros((num_weights, g.shape[1]), grad.dtype)
    if mode == MAX:
        filled = bag_size > 0
        columns = xp.broadcast_to(xp.arange(g.shape[1]), (int(filled.sum()), g.shape[1]))
        rows = checked_rows(xp, maximum_indices[filled], num_weights)
        return combined_at(xp, "add", result, (rows, columns), grad[filled])
    if mode == MEAN:
        g = g / xp.maximum(bag_size, 1).astype(g.dtype)[:, None]
    bag = _bag_of_each(xp, offsets[: g.shape[0]], indices.shape[0])
    kept = indices != padding_idx
    if per_sample_weights is None and not scale_grad_by_freq and g.dtype == grad.dtype:
        rows = checked_rows(xp, indices[kept], num_weights)
        return _sums(xp, g, bag[kept], rows, num_weights, None)
    values = g[bag]
    if per_sample_weights is not None:
        values = values * wide(per_sample_weights)[:, None]
    if scale_grad_by_freq:
        counts = xp.bincount(checked_rows(xp, indices, num_weights), minlength=num_weights)
        values = values / counts[indices].astype(g.dtype)[:, None]
    rows = checked_rows(xp, indices[kept], num_weights)
    return combined_at(xp, "add", result, rows, converted(values[kept], grad.dtype))


_embedding_bag_per_sample_weights_backward = define(
    "aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, "
    "Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor"
)


@_embedding_bag_per_sample_weights_backward.shape
def _scale_backward_shape(
    grad: TensorMeta,
    weight: TensorMeta,
    indices: TensorMeta,
    offsets: TensorMeta,
    offset2bag: TensorMeta,
    mode: int,
    padding_idx: int,
) -> TensorMeta:
    name = "_embedding_bag_per_sample_weights_backward"
    _check_gradient(name, grad, indices, offsets)
    check_sizes(name, "weight", weight, (weight.shape[0] if weight.ndim else 0, grad.shape[1]))
    return grad.fresh(indices.shape)


@_embedding_bag_per_sample_weights_backward.kernel
def _scale_backward_kernel(
    xp: ModuleType,
    grad: Array,
    weight: Array,
    indices: Array,
    offsets: Array,
    offset2bag: Array,
    mode: int,
    padding_idx: int,
) -> Array:
    bag = _bag_of_each(xp, offsets[: grad.shape[0]], indices.shape[0])
    rows = wide(weight)[checked_rows(xp, indices, weight.shape[0])]
    products = (wide(grad)[bag] * rows).sum(axis=1)
    return xp.where(indices == padding_idx, 0, products)


# --- what users call --------------------------------------------------------------------------

_PARAMETERS = (
    "Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq{0}, int mode{1}, "
    "bool sparse{0}, Tensor? per_sample_weights{2}, bool include_last_offset{0}"
)
embedding_bag = define(
    f"aten::embedding_bag({_PARAMETERS.format('=False', '=0', '=None')}) -> "
    f"(Tensor, Tensor, Tensor, Tensor)"
)
embedding_bag.describe(
    "Sums, means or maxima of rows of `weight`, a row for each bag that `offsets` begins."
)
embedding_bag_padding_idx = define(
    f"aten::embedding_bag.padding_idx({_PARAMETERS.format('', '', '')}, int? padding_idx) -> "
    f"(Tensor, Tensor, Tensor, Tensor)"
)


@embedding_bag_padding_idx.composite
def embedding_bag_composite(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> object:
    padding = -1
    if padding_idx is not None:
        rows = weight.shape[wrap_existing_dim(0, weight.ndim)]
        check(
            -rows <= padding_idx < rows,
            lambda: (
                f"padding_idx must be within the number of embeddings, {-rows} through "
                f"{rows - 1}, but got {padding_idx}"
            ),
        )
        padding = padding_idx + rows if padding_idx < 0 else padding_idx
    learns = wants_derivative(weight) or wants_derivative(per_sample_weights)
    page = _embedding_bag if learns else _embedding_bag_forward_only
    return page(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding,
    )


@embedding_bag.composite
def embedding_bag_without_padding(*arguments: object) -> object:
    return embedding_bag_padding_idx(*arguments, None)
