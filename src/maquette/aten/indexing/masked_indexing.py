"""Indexing where only some positions count: what resizing kernels are decomposed to.

Positions outside of the tensor are allowed where the mask is false; nothing is read or written
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from maquette.aten.common.axes import Array
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, result_dtype
from maquette.aten.indexing.index import (
    Indices,
    check_indices,
    check_values_dtype,
    index_put__kernel,
    indexed,
)
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import from_numpy_dtype
from maquette.core.errors import check
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

masked_index = define(
    "aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor"
)
masked_index_put = define(
    "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, "
    "Tensor values) -> Tensor"
)


def _clamped(xp: ModuleType, self: Array, indices: Sequence[Array | None]) -> list[Array | None]:
    pairs = zip(indices, self.shape, strict=False)
    return [None if i is None else xp.clip(i, -size, size - 1) for i, size in pairs]


@masked_index.shape
def masked_index_shape(
    self: TensorMeta, mask: TensorMeta, indices: Indices, fill: Number
) -> TensorMeta:
    check_indices(self, indices)
    check_fits(fill, self.dtype)
    result = indexed(self, indices)
    shape = broadcast_shapes(result.shape, mask.shape)
    return result if shape == result.shape else result.fresh(shape)


@masked_index.kernel
def masked_index_kernel(
    xp: ModuleType, self: Array, mask: Array, indices: Sequence[Array | None], fill: Number
) -> Array:
    where = tuple([slice(None) if i is None else i for i in _clamped(xp, self, indices)])
    number = xp.asarray(result_dtype(fill, from_numpy_dtype(self.dtype)), self.dtype)
    taken: Array = xp.where(mask, self[where], number)
    return taken


@masked_index_put.shape
def masked_index_put_shape(
    self: TensorMeta, mask: TensorMeta, indices: Indices, values: TensorMeta
) -> TensorMeta:
    check_indices(self, indices)
    target, given = indexed(self, indices).shape, broadcast_shapes(mask.shape, values.shape)
    check(
        broadcast_shapes(target, given) == target,
        lambda: (
            f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to "
            f"indexing result of shape {list(target)}"
        ),
    )
    check_values_dtype(self, values)
    return self.like()


@masked_index_put.kernel
def masked_index_put_kernel(
    xp: ModuleType, self: Array, mask: Array, indices: Sequence[Array | None], values: Array
) -> Array:
    made: Array = xp.array(self, copy=True)
    given = xp.where(mask, values, xp.zeros((), values.dtype))
    return index_put__kernel(xp, made, _clamped(xp, self, indices), given, accumulate=True)


masked_index.linear(
    fill=None,
    self=lambda grad, self_meta, mask, indices: masked_index_put(
        grad.new_zeros(self_meta.shape), mask, list(indices), grad
    ),
)


@masked_index.batching_decomposition
def unsafe_masked_index_batching(self: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    inside = [i if i is None else i.clamp(0, n - 1) for i, n in zip(indices, self.shape)]
    return aten.index.Tensor(self, inside).masked_fill(mask.logical_not(), fill)


masked_index_put.linear(
    self=lambda grad: grad,
    values=lambda grad, mask, indices: masked_index(grad, mask, list(indices), 0),
)


@masked_index_put.batching_decomposition
def unsafe_masked_index_put_accumulate_batching(
    self: Tensor, mask: Tensor, indices: Any, values: Tensor
) -> Tensor:
    inside = [i if i is None else i.clamp(-n, n - 1) for i, n in zip(indices, self.shape)]
    return aten.index_put(self, inside, values.masked_fill(mask.logical_not(), 0), True)
