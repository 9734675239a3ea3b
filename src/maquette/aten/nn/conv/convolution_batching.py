"""Batching rules of convolution: images of the batch are more images, or more channels."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.batching_forms import to_front
from maquette.aten.common.operators import aten
from maquette.core.errors import check
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo


def _grouped(t: Tensor, d: int | None, size: int, dim: int) -> Tensor:
    """The batch made part of dimension ``dim`` of the example."""
    front = to_front(t, d, size)
    return front.movedim(0, dim).flatten(dim, dim + 1)


def _biased(out: Tensor, bias: Tensor | None, d: int | None) -> Tensor:
    if bias is None or d is None:
        return out
    b = to_front(bias, d)
    check(
        b.dtype is out.dtype,
        lambda: f"Input type ({out.dtype}) and bias type ({b.dtype}) should be the same",
    )
    return out + b.reshape(b.shape[0], 1, -1, *[1] * (out.meta.ndim - 3))


def convolution_batching(
    info: VmapInfo, in_dims: Any, x: Tensor, weight: Tensor, bias: Any, *rest: Any
) -> Any:
    *options, groups = rest
    size = info.batch_size
    if in_dims[1] is None:
        # One filter for all: images of the batch are more images.
        inputs = to_front(x, in_dims[0])
        if inputs is not None and in_dims[0] is not None:
            n = inputs.shape[1]
            own_bias = None if in_dims[2] is not None else bias
            out = aten.convolution(inputs.flatten(0, 1), weight, own_bias, *options, groups)
            return _biased(out.unflatten(0, (size, n)), bias, in_dims[2]), 0
    # A filter each: groups of channels.
    images = _grouped(x, in_dims[0], size, 1)
    filters = _grouped(weight, in_dims[1], size, 0)
    own_bias = None if bias is None else _grouped(bias, in_dims[2], size, 0)
    out = aten.convolution(images, filters, own_bias, *options, groups * size)
    return out.unflatten(1, (size, -1)).movedim(1, 0), 0


def convolution_backward_batching(
    info: VmapInfo,
    in_dims: Any,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    size = info.batch_size
    given = [_grouped(grad, in_dims[0], size, 1), _grouped(x, in_dims[1], size, 1)]
    given.append(_grouped(weight, in_dims[2], size, 0))
    found = aten.convolution_backward(
        *given, None, stride, padding, dilation, transposed, output_padding, groups * size,
        [mask[0], mask[1], False],
    )  # fmt: skip
    dx = found[0].unflatten(1, (size, -1)).movedim(1, 0) if mask[0] else None
    dw = found[1].unflatten(0, (size, -1)) if mask[1] else None
    db = None
    if mask[2]:
        front = to_front(grad, in_dims[0], size)
        db = front.sum([1, *range(3, front.meta.ndim)])
    return (dx, dw, db), tuple([None if r is None else 0 for r in (dx, dw, db)])
