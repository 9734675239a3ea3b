"""Batches of sequences of different lengths: packed by time, padded, or one after the other.

How many elements there are, only data tells: lengths and offsets. `nn.utils.rnn` packs for layers
by slices of the padded batch; here are PyTorch's operators of the same meaning.
"""

from __future__ import annotations

from math import prod
from types import ModuleType

from maquette.aten.common.axes import Array
from maquette.aten.factory.ranges import arange
from maquette.aten.view.rearranging import constant_pad_nd
from maquette.core.dtype import int64
from maquette.core.errors import check, check_data
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import NewNumbers, define
from maquette.tensor.tensor import Tensor

Metas = tuple[TensorMeta, ...]
DYNAMIC = [Tag.dynamic_output_shape]

# --- packed by time --------------------------------------------------------------------------

_pack_padded_sequence = define(
    "aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> "
    "(Tensor, Tensor)",
    tags=DYNAMIC,
)
_pack_padded_sequence.describe(
    "The sequences of a padded batch, packed: all first elements, then all second ones, and how "
    "many there are at each time. `lengths` decrease."
)


def _check_packing(input: TensorMeta, lengths: TensorMeta, batch_first: bool) -> None:
    check(input.numel != 0, lambda: f"Cannot pack empty tensors; got {input}")
    batch = input.shape[0 if batch_first else 1]
    check(
        lengths.ndim == 1 and lengths.dtype is int64,
        lambda: f"'lengths' argument should be a 1D CPU int64 tensor, got {lengths}",
    )
    check(
        lengths.shape[0] == batch,
        lambda: (
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} "
            f"(batch_size={batch})"
        ),
    )


@_pack_padded_sequence.unbacked
def pack_padded_sequence_unbacked(
    new: NewNumbers, input: TensorMeta, lengths: TensorMeta, batch_first: bool
) -> Metas:
    _check_packing(input, lengths, batch_first)
    time = input.shape[1 if batch_first else 0]
    elements = new.size(0, time * lengths.shape[0])
    return input.fresh((elements, *input.shape[2:])), lengths.fresh((new.size(0, time),))


@_pack_padded_sequence.data_dependent(_check_packing)
def pack_padded_sequence_kernel(
    xp: ModuleType, input: Array, lengths: Array, batch_first: bool
) -> tuple[Array, Array]:
    steps = input.swapaxes(0, 1) if batch_first else input
    check_data(
        bool((lengths[:-1] >= lengths[1:]).all()),
        lambda: (
            f"`lengths` array must be sorted in decreasing order when `enforce_sorted` is True; "
            f"got {lengths.tolist()}. You can pass `enforce_sorted=False` to have the batch sorted."
        ),
    )
    check_data(
        int(lengths[-1]) > 0,
        lambda: (
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        ),
    )
    longest = int(lengths[0])
    check_data(
        longest <= len(steps),
        lambda: f"Expected lengths of at most {len(steps)}, the padded batch's, got {longest}",
    )
    inside = xp.arange(longest)[:, None] < lengths[None, :]  # [time, batch]
    return steps[:longest][inside], inside.sum(1).astype(xp.int64)


_pack_padded_sequence.nondifferentiable(1)


@_pack_padded_sequence.derivative("input")
def pack_padded_sequence_grad(
    grad: Tensor, input_meta: TensorMeta, result1: Tensor, batch_first: bool
) -> tuple[Tensor]:
    return (_pack_padded_sequence_backward(grad, input_meta.shape, result1, batch_first),)


_pack_padded_sequence_backward = define(
    "aten::_pack_padded_sequence_backward(Tensor grad, SymInt[] input_size, Tensor batch_sizes, "
    "bool batch_first) -> Tensor"
)
_pack_padded_sequence_backward.describe(
    "The gradient of a padded batch, of that of its packed elements: zeros where it was padded."
)


@_pack_padded_sequence_backward.explicit
def pack_padded_sequence_backward_explicit(
    grad: Tensor, input_size: tuple[int, ...], batch_sizes: Tensor, batch_first: bool
) -> Tensor:
    batch, time, *rest = input_size
    if not batch_first:
        batch, time = time, batch
    counts = constant_pad_nd(batch_sizes, [0, time - batch_sizes.shape[0]], 0)
    inside = counts.unsqueeze(1) > arange(batch, device=batch_sizes.device)
    where = inside.to(grad.device).reshape([time, batch, *[1] * len(rest)])
    steps = grad.new_zeros([time, batch, *rest]).masked_scatter(where, grad)
    return steps.transpose(0, 1) if batch_first else steps


# --- jagged: one after the other ---------------------------------------------------------------

_padded_dense_to_jagged_forward = define(
    "aten::_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) "
    "-> Tensor",
    tags=DYNAMIC,
)
_padded_dense_to_jagged_forward.describe(
    "The rows of a padded batch [rows, longest, *] one after the other, [elements, *]: row i has "
    "`offsets[0][i + 1] - offsets[0][i]` elements. `total_L` says how many there are together."
)


def _check_offsets(name: str, offsets: Metas) -> None:
    check(
        len(offsets) == 1,
        lambda: f"{name}(): only a single jagged dim is supported, got {len(offsets)} offsets",
    )
    check(
        offsets[0].ndim == 1 and offsets[0].shape[0] > 0,
        lambda: f"{name}(): expected 1D offsets with at least one element, got {offsets[0]}",
    )


def _check_to_jagged(dense: TensorMeta, offsets: Metas, total_L: int | None) -> TensorMeta | None:
    _check_offsets("_padded_dense_to_jagged_forward", offsets)
    rows = offsets[0].shape[0] - 1
    check(
        dense.ndim >= 2 and dense.shape[0] == rows,
        lambda: (
            f"_padded_dense_to_jagged_forward(): expected padded values of {rows} rows, as the "
            f"offsets have, got {dense}"
        ),
    )
    return None if total_L is None else dense.fresh((total_L, *dense.shape[2:]))


@_padded_dense_to_jagged_forward.unbacked
def padded_dense_to_jagged_forward_unbacked(
    new: NewNumbers, dense: TensorMeta, offsets: Metas, total_L: int | None
) -> TensorMeta:
    known = _check_to_jagged(dense, offsets, total_L)
    if known is not None:
        return known
    return dense.fresh((new.size(0, prod(dense.shape[:2])), *dense.shape[2:]))


@_padded_dense_to_jagged_forward.data_dependent(_check_to_jagged)
def padded_dense_to_jagged_forward_kernel(
    xp: ModuleType, dense: Array, offsets: tuple[Array, ...], total_L: int | None
) -> Array:
    (bounds,) = offsets
    lengths = bounds[1:] - bounds[:-1]
    longest = int(lengths.max()) if lengths.size else 0
    check_data(
        longest <= dense.shape[1],
        lambda: (
            f"_padded_dense_to_jagged_forward(): found batch item of length {longest} when max "
            f"length specified by padded input is {dense.shape[1]}"
        ),
    )
    check_data(
        total_L is None or int(bounds[-1]) == total_L,
        lambda: (
            f"_padded_dense_to_jagged_forward(): final offset should match total_L value: "
            f"{int(bounds[-1])} is not {total_L}"
        ),
    )
    found: Array = dense[xp.arange(dense.shape[1])[None, :] < lengths[:, None]]
    return found


_jagged_to_padded_dense_forward = define(
    "aten::_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, "
    "float padding_value=0.0) -> Tensor"
)
_jagged_to_padded_dense_forward.describe(
    "The rows of `values` [elements, *] as a padded batch [rows, max_lengths[0], *]: row i begins "
    "at `offsets[0][i]`; longer rows are cut, shorter ones filled with `padding_value`."
)


@_jagged_to_padded_dense_forward.shape
def jagged_to_padded_dense_forward_shape(
    values: TensorMeta, offsets: Metas, max_lengths: tuple[int, ...], padding_value: float
) -> TensorMeta:
    _check_offsets("_jagged_to_padded_dense_forward", offsets)
    check(
        len(max_lengths) == 1 and values.ndim >= 1,
        lambda: (
            f"_jagged_to_padded_dense_forward(): expected one length, got {max_lengths} for "
            f"{values}"
        ),
    )
    return values.fresh((offsets[0].shape[0] - 1, max_lengths[0], *values.shape[1:]))


@_jagged_to_padded_dense_forward.kernel
def jagged_to_padded_dense_forward_kernel(
    xp: ModuleType,
    values: Array,
    offsets: tuple[Array, ...],
    max_lengths: tuple[int, ...],
    padding_value: float,
) -> Array:
    (bounds,), (longest,) = offsets, max_lengths
    at = xp.arange(longest)[None, :]
    inside = at < (bounds[1:] - bounds[:-1])[:, None]
    found: Array = xp.full((*inside.shape, *values.shape[1:]), padding_value, values.dtype)
    found[inside] = values[(bounds[:-1, None] + at)[inside]]
    return found


_padded_dense_to_jagged_forward.derivative(
    dense=lambda grad, dense_meta, offsets: _jagged_to_padded_dense_forward(
        grad, offsets, [dense_meta.shape[1]]
    )
)

_jagged_to_padded_dense_forward.derivative(
    values=lambda grad, values_meta, offsets: _rows_of_padded(grad, offsets, values_meta.shape[0])
)


def _rows_of_padded(grad: Tensor, offsets: list[Tensor], total: int) -> Tensor:
    """The gradient of values that were padded; of those that were cut, zeros."""
    (bounds,) = offsets
    longest = grad.shape[1]
    at = arange(longest, device=grad.device).unsqueeze(0)
    inside = at < (bounds[1:] - bounds[:-1]).unsqueeze(1)
    places = (bounds[:-1].unsqueeze(1) + at).masked_fill(~inside, total)  # one place too many
    zeros = grad.new_zeros([total + 1, *grad.shape[2:]])
    return zeros.index_add(0, places.flatten(), grad.flatten(0, 1))[:-1]
