"""The result of an elementwise operation: shape, strides, device.

One rule for eager, meta and fake tensors (spec T37-T39): operands of equal geometry hand it on,
else dimensions are sorted as the operands order them.
"""

from collections.abc import Sequence

from maquette.core.broadcast import broadcast_shapes, expand_strides
from maquette.core.device import cpu
from maquette.core.device_rules import common_device
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number, SymbolicNumber
from maquette.core.scalar_types import dtype as DType
from maquette.core.strides import (
    Shape,
    Strides,
    channels_last_strides,
    contiguous_strides,
    is_channels_last,
    is_contiguous,
    is_dense,
    packed_strides,
    preserve_strides,
    stride_order,
)
from maquette.core.symbols import alike


def elementwise(
    operands: Sequence[TensorMeta | Number | SymbolicNumber],
    dtype: DType,
    *,
    common_dtype: DType | None = None,
    op_name: str = "elementwise operation",
) -> TensorMeta:
    """The result of an elementwise operation on tensors and Python numbers.

    dtype: the result's. common_dtype: what the operation computes in, if it converts its operands;
    one of another dtype counts as its copy.
    Raises RuntimeError if shapes do not broadcast, DeviceMismatchError if devices do not mix.
    """
    first = operands[0]
    if isinstance(first, TensorMeta) and first.is_contiguous:
        if all(operand is first for operand in operands):
            return first.fresh(first.shape, dtype)
    metas = [operand for operand in operands if isinstance(operand, TensorMeta)]
    device = common_device(op_name, metas) if metas else cpu
    shape = broadcast_shapes(*[meta.shape for meta in metas])
    if (len(metas) == len(operands) or not shape) and _all_contiguous(metas, shape):
        return TensorMeta.of(dtype, shape, None, 0, device)
    geometry = [
        _geometry(operand, common_dtype) if isinstance(operand, TensorMeta) else ((), ())
        for operand in operands
    ]
    return TensorMeta.of(dtype, shape, elementwise_strides(shape, geometry), 0, device)


def _all_contiguous(metas: Sequence[TensorMeta], shape: Shape) -> bool:
    """Whether every tensor has exactly this shape and is contiguous, as most are."""
    return all(_same_shape(meta.shape, shape) and meta.is_contiguous for meta in metas)


def _geometry(meta: TensorMeta, common_dtype: DType | None) -> tuple[Shape, Strides]:
    if common_dtype is None or meta.dtype is common_dtype or meta.is_dense:
        return meta.shape, meta.strides
    return meta.shape, preserve_strides(meta.shape, meta.strides)


def elementwise_strides(shape: Shape, operands: Sequence[tuple[Shape, Strides]]) -> Strides:
    """Strides of an elementwise result of this shape (spec T37, T38).

    operands: shape and strides of each, outputs that are given first, then inputs; a number has
    those of a 0-dim tensor.
    """
    if all(_same_shape(each, shape) for each, _ in operands):
        strides = _common_strides(shape, [strides for _, strides in operands])
        if strides is not None:
            return strides
    stretched = [expand_strides(each, strides, shape) for each, strides in operands]
    order = stride_order(shape, stretched)
    if order == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    return packed_strides(shape, order)


def _same_shape(a: Shape, b: Shape) -> bool:
    return a is b or (len(a) == len(b) and alike(a, b))


def _common_strides(shape: Shape, operands: Sequence[Strides]) -> Strides | None:
    """The result's strides if the operands, all of its shape, agree on a format."""
    if all(is_contiguous(shape, strides) for strides in operands):
        return contiguous_strides(shape)
    if len(shape) == 4 and all(is_channels_last(shape, strides, 4) for strides in operands):
        return channels_last_strides(shape)
    first = operands[0]
    if all(_same_shape(strides, first) for strides in operands[1:]) and is_dense(shape, first):
        return first
    return None
