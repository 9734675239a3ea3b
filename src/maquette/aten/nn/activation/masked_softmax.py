"""Softmax over what a mask leaves: `_masked_softmax`, and the gradient of it.

The mask is True where an element is left out. Its kind says what its shape is: 0 (length, length),
for all of a batch; 1 (batch, length), for all heads and rows; 2 that of the input.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.axes import total
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import bool as bool_dtype
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.library.page import Variant, define

_SQUARE, _BY_SAMPLE, _WHOLE = 0, 1, 2


def _mask_shape(self: TensorMeta, kind: int) -> tuple[Shape, str]:
    """The shape that a mask of a kind has beside this input, and how PyTorch writes it."""
    if kind == _SQUARE and self.ndim == 4:
        return (self.shape[2], self.shape[2]), "(L, L)"
    if kind == _BY_SAMPLE and self.ndim == 4:
        return (self.shape[0], self.shape[2]), "(B, L)"
    return self.shape, "match input shape"


def _aligned(mask: Array, ndim: int) -> Array:
    """The mask with the input's dimensions: one of each sample has none for heads and rows."""
    by_sample = mask.ndim == 2 and ndim == 4
    return mask[:, None, None, :] if by_sample else mask


_masked_softmax = define(
    "aten::_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor",
    variants=[Variant.OUT],
)


@_masked_softmax.shape
def _masked_softmax_shape(
    self: TensorMeta, mask: TensorMeta, dim: int | None, mask_type: int | None
) -> TensorMeta:
    check(mask.dtype is bool_dtype, lambda: f"Mask should be a boolean tensor; got {mask}")
    wanted, words = _mask_shape(self, _WHOLE if mask_type is None else mask_type)
    kind = _WHOLE if wanted is self.shape else mask_type
    check(
        mask.shape == wanted,
        lambda: f"For mask_type == {kind} mask shape should {_should(words)}; got {mask}, {self}",
    )
    wrap_dim(-1 if dim is None else dim, self.ndim)
    check_not_implemented(
        self.dtype.is_floating_point,
        lambda: f"\"masked_softmax\" not implemented for '{self.dtype.scalar_name}'",
    )
    return self.like()


def _should(words: str) -> str:
    return words if words.startswith("match") else f"be {words}"


@_masked_softmax.kernel
def _masked_softmax_kernel(
    xp: ModuleType, self: Array, mask: Array, dim: int | None, mask_type: int | None
) -> Array:
    values = wide(self)
    if mask_type == _BY_SAMPLE:
        mask = _aligned(mask, self.ndim)
    left: Array = xp.where(mask, xp.asarray(-xp.inf, dtype=values.dtype), values)
    if not self.size:
        return left
    axis = (-1 if dim is None else dim) if self.ndim else None
    with np.errstate(invalid="ignore"):
        powers = xp.exp(left - left.max(axis=axis, keepdims=True))
        result: Array = powers / powers.sum(axis=axis, keepdims=True)
    return result


_masked_softmax_backward = define(
    "aten::_masked_softmax_backward(Tensor grad_output, Tensor output, Tensor mask, "
    "int? dim=None) -> Tensor",
    variants=[Variant.OUT],
)


@_masked_softmax_backward.shape
def _backward_shape(
    grad_output: TensorMeta, output: TensorMeta, mask: TensorMeta, dim: int | None
) -> TensorMeta:
    check(
        grad_output.shape == mask.shape == output.shape,
        lambda: f"Mask should match grad shape; got {mask} for {grad_output} and {output}",
    )
    check(mask.dtype is bool_dtype, lambda: f"Mask should be a boolean tensor; got {mask}")
    wrap_dim(-1 if dim is None else dim, grad_output.ndim)
    return grad_output.fresh(grad_output.shape)


@_masked_softmax_backward.kernel
def _backward_kernel(
    xp: ModuleType, grad_output: Array, output: Array, mask: Array, dim: int | None
) -> Array:
    grad, out = wide(grad_output), wide(output)
    if not grad.ndim or not grad.size:
        return xp.zeros(grad.shape, grad.dtype)
    # What is left out has no part in the sum either, though all of a row may be: it is NaN then.
    product = xp.where(mask, 0, grad * out)
    inner = total(xp, product, ((-1 if dim is None else dim) % grad.ndim,), True)
    return xp.where(mask, 0, product - out * inner)


_masked_softmax.derivative(
    self=lambda grad, result, mask, dim: _masked_softmax_backward(grad, result, mask, dim)
)
