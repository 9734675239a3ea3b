"""Tensors joined to a larger one: cat, stack, and chunks of several, ``_chunk_cat``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from types import ModuleType
from typing import Any

from maquette.aten.common.array_libraries import assigned_at
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import rank_of, to_front, wrapped
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import cast
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import from_numpy_dtype, promote_types, result_type_of
from maquette.core.errors import check, check_type, check_value
from maquette.core.layout import contiguous_format, memory_format
from maquette.core.meta import TensorMeta
from maquette.core.promotion import can_cast
from maquette.core.strides import format_strides
from maquette.core.symbols import is_true
from maquette.core.views import view_strides
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define, set_shape_rule
from maquette.library.variants import out_shape
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Metas = tuple[TensorMeta, ...]

cat = define(
    "aten::cat(Tensor[] tensors, int dim=0) -> Tensor", tags=[Tag.core], variants=[Variant.OUT]
)
cat.describe("Tensors one after the other along `dim`, all of them alike in the other dimensions.")
cat.autocast(cpu="promote")


def _is_skipped(shape: tuple[int, ...]) -> bool:
    """An empty 1-D tensor goes with any other shape, as it always has."""
    return len(shape) == 1 and is_true(shape[0] == 0)


@cat.shape
def cat_shape(tensors: Metas, dim: int) -> TensorMeta:
    check_value(len(tensors) > 0, lambda: "torch.cat(): expected a non-empty list of Tensors")
    for i, t in enumerate(tensors):
        if t.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    first = next((t for t in tensors if not _is_skipped(t.shape)), tensors[0])
    if _is_skipped(first.shape):
        dim = 0  # nothing is joined: as PyTorch, any dimension will do
    axis = wrap_dim(dim, first.ndim)
    total = 0
    for i, t in enumerate(tensors):
        if _is_skipped(t.shape):
            continue
        _check_joins(first, t, axis, i)
        total += t.shape[axis]
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    format = _common_format(tensors)
    strides = None
    if format is not contiguous_format and len(shape) == first.ndim:
        strides = format_strides(shape, (), format)
    return first.fresh(shape, result_type_of(tensors), strides)


def _check_joins(first: TensorMeta, t: TensorMeta, axis: int, position: int) -> None:
    check(
        t.ndim == first.ndim,
        lambda: f"Tensors must have same number of dimensions: got {first.ndim} and {t.ndim}",
    )

    def mismatch(dim: int) -> str:
        return (
            f"Sizes of tensors must match except in dimension {axis}. Expected size "
            f"{first.shape[dim]} but got size {t.shape[dim]} for tensor number {position} in the "
            f"list."
        )

    for dim, (expected, got) in enumerate(zip(first.shape, t.shape, strict=True)):
        check(dim == axis or expected == got, partial(mismatch, dim))


def _common_format(tensors: Metas) -> memory_format:
    format = tensors[0].suggested_format
    return format if all(t.suggested_format is format for t in tensors) else contiguous_format


@cat.kernel
def cat_kernel(xp: ModuleType, tensors: Sequence[Array], dim: int) -> Array:
    kind = result_type(tensors)
    parts = [in_dtype(xp, t, kind) for t in tensors if not _is_skipped(t.shape)]
    if not parts:
        return xp.zeros((0,), kind.numpy)
    joined: Array = xp.concatenate(parts, dim)
    return joined


def result_type(tensors: Sequence[Array]) -> DType:
    """The promoted dtype of arrays that count as tensors with dimensions."""
    kind = from_numpy_dtype(tensors[0].dtype)
    for t in tensors[1:]:
        if t.dtype != tensors[0].dtype:
            kind = promote_types(kind, from_numpy_dtype(t.dtype))
    return kind


def in_dtype(xp: ModuleType, array: Array, kind: DType) -> Array:
    """The array itself where it has the dtype, else a cast copy."""
    return array if array.dtype == kind.numpy else cast(xp, array, kind)


@cat.linear("tensors")
def cat_grad(grad: Tensor, tensors_meta: Metas, dim: int) -> tuple[object]:
    joined = any(not _is_skipped(meta.shape) for meta in tensors_meta)
    axis = wrap_dim(dim, grad.meta.ndim) if joined else 0
    grads: list[Tensor] = []
    begin = 0
    for meta in tensors_meta:
        if _is_skipped(meta.shape):
            grads.append(zeros_beside(grad, (0,)))
            continue
        grads.append(grad.narrow(axis, begin, meta.shape[axis]))
        begin += meta.shape[axis]
    return (grads,)


@cat.batching
def cat_batching(info: VmapInfo, in_dims: Any, tensors: Any, dim: int = 0) -> Any:
    ranks = [rank_of(t, d) for t, d in zip(tensors, in_dims[0])]
    given = [to_front(t, d, info.batch_size) for t, d in zip(tensors, in_dims[0])]
    rank = max(ranks)
    # As everywhere, cat passes over empty tensors of rank 1.
    kept = [t for t, r in zip(given, ranks) if r == rank or t.shape[1:] != (0,)]
    return aten.cat(kept, wrapped(dim, rank) + 1), 0


def _check_joined_dtype(name: str, result: DType, target: DType) -> None:
    check_type(
        can_cast(result, target),
        lambda: (
            f"torch.{name}(): input types can't be cast to the desired output type "
            f"{target.scalar_name}: together they are {result.scalar_name}"
        ),
    )


set_shape_rule(cat.variants[0], out_shape(cat.op, 1, _check_joined_dtype))
refuse_overlap(cat.variants[0], "tensors")


stack = define("aten::stack(Tensor[] tensors, int dim=0) -> Tensor", variants=[Variant.OUT])
stack.describe("Tensors of one shape along a new dimension `dim`.")
stack.autocast(cpu="promote")


@stack.shape
def stack_shape(tensors: Metas, dim: int) -> TensorMeta:
    check(len(tensors) > 0, lambda: "stack expects a non-empty TensorList")
    first = tensors[0]
    axis = wrap_dim(dim, first.ndim + 1)
    for i, t in enumerate(tensors):
        if t.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got "
                f"{list(first.shape)} at entry 0 and {list(t.shape)} at entry {i}"
            )
    shape = (*first.shape[:axis], len(tensors), *first.shape[axis:])
    plain = first.fresh(shape, result_type_of(tensors))
    if axis == first.ndim or _common_format(tensors) is contiguous_format:
        return plain
    # Channels-last tensors: the cat along the dimension, split in two.
    joined = cat_shape(tensors, axis)
    strides = view_strides(joined.shape, joined.strides, shape)
    return plain if strides is None else plain.fresh(shape, strides=strides)


@stack.kernel
def stack_kernel(xp: ModuleType, tensors: Sequence[Array], dim: int) -> Array:
    kind = result_type(tensors)
    stacked: Array = xp.stack([in_dtype(xp, t, kind) for t in tensors], dim)
    return stacked


stack.linear(
    tensors=lambda grad, tensors_meta, dim: [
        grad.select(dim, index) for index in range(len(tensors_meta))
    ]
)


@stack.batching
def stack_batching(info: VmapInfo, in_dims: Any, tensors: Any, dim: int = 0) -> Any:
    given = [to_front(t, d, info.batch_size) for t, d in zip(tensors, in_dims[0])]
    rank = given[0].meta.ndim
    return aten.stack(given, wrapped(dim, rank) + 1), 0


# --- chunks of several tensors -------------------------------------------------------

# Sharded data parallelism packs parameters so: every tensor is cut in as many chunks as there are
# workers, and the chunks of one worker are joined to a row.
_chunk_cat = define(
    "aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
    variants=[Variant.OUT],
)


def _cut_dim(tensors: Metas, dim: int, num_chunks: int) -> int:
    """The dimension that is cut, from the front, of tensors that go together."""
    check(len(tensors) > 0, lambda: "_chunk_cat expects a non-empty input tensor list")
    check(num_chunks > 0, lambda: "_chunk_cat expects positive num_chunks")
    first = tensors[0]
    check(
        all(t.dtype is first.dtype for t in tensors),
        lambda: f"_chunk_cat expects all input tensors with the same dtype; got {_listed(tensors)}",
    )
    check(
        not any(is_true(t.numel == 0) for t in tensors),
        lambda: "_chunk_cat expects non-empty tensor",
    )
    check(
        dim >= 0 or len({t.ndim for t in tensors}) == 1,
        lambda: "_chunk_cat expects non-negative dim when input tensors have different ndims",
    )
    axis = wrap_dim(dim, first.ndim)
    check(
        all(axis < t.ndim for t in tensors),
        lambda: "_chunk_cat expects dim < ndim for all input tensors",
    )
    check(
        all(t.shape[:axis] == first.shape[:axis] for t in tensors),
        lambda: "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors",
    )
    return axis


def _listed(tensors: Metas) -> str:
    return ", ".join(str(t) for t in tensors)


def _per_chunk(size: int, num_chunks: int) -> int:
    return -(-size // num_chunks)


@_chunk_cat.shape
def chunk_cat_shape(tensors: Metas, dim: int, num_chunks: int) -> TensorMeta:
    axis = _cut_dim(tensors, dim, num_chunks)
    width = sum(_per_chunk(t.shape[axis], num_chunks) * prod(t.shape[axis + 1 :]) for t in tensors)
    return tensors[0].fresh((*tensors[0].shape[:axis], num_chunks, width))


@_chunk_cat.kernel
def chunk_cat_kernel(xp: ModuleType, tensors: Sequence[Array], dim: int, num_chunks: int) -> Array:
    """Chunks of one size: what is missing of the last ones is zero."""
    axis = dim % tensors[0].ndim
    rows = []
    for t in tensors:
        size = t.shape[axis]
        whole = (*t.shape[:axis], _per_chunk(size, num_chunks) * num_chunks, *t.shape[axis + 1 :])
        padded = xp.zeros(whole, t.dtype)
        padded = assigned_at(xp, padded, (slice(None),) * axis + (slice(size),), t)
        rows.append(padded.reshape(*t.shape[:axis], num_chunks, -1))
    joined: Array = xp.concatenate(rows, -1)
    return joined


def _refuse_nothing(op: OpOverload, ks: int) -> Callable[..., object]:
    """Without tensors there are no keys: the shape rule says what is wrong."""
    rule = op.shape_rule
    assert rule is not None
    return lambda ks, *params: rule(*params)


for _page in (cat, stack, _chunk_cat):
    _page.op.register(DispatchKey.Undefined, Kernel(_refuse_nothing))
