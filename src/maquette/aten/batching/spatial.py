"""Batching rules of convolution, pooling, padding, resizing: one more batch of images."""

from __future__ import annotations

from typing import Any

from maquette.aten.batching.forms import VmapInfo, aten, folded, to_front
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import family, rule_for

family(
    "_adaptive_avg_pool2d _adaptive_avg_pool3d _adaptive_avg_pool2d_backward "
    "_adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool3d "
    "adaptive_max_pool2d_backward adaptive_max_pool3d_backward avg_pool2d avg_pool3d "
    "avg_pool2d_backward avg_pool3d_backward max_pool2d_with_indices max_pool3d_with_indices "
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward max_unpool2d max_unpool3d "
    "fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_backward "
    "fractional_max_pool3d_backward reflection_pad1d reflection_pad2d reflection_pad3d "
    "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
    "replication_pad1d replication_pad2d replication_pad3d replication_pad1d_backward "
    "replication_pad2d_backward replication_pad3d_backward im2col col2im "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
    "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d _upsample_nearest_exact3d _upsample_bilinear2d_aa "
    "_upsample_bicubic2d_aa upsample_nearest1d_backward upsample_nearest2d_backward "
    "upsample_nearest3d_backward upsample_linear1d_backward upsample_bilinear2d_backward "
    "upsample_bicubic2d_backward upsample_trilinear3d_backward _upsample_nearest_exact1d_backward "
    "_upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward "
    "_upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward grid_sampler_2d "
    "grid_sampler_3d grid_sampler_2d_backward grid_sampler_3d_backward",
    folded,
)


def _grouped(t: Tensor, d: int | None, size: int, dim: int) -> Tensor:
    """The batch made part of dimension ``dim`` of the example."""
    front = to_front(t, d, size)
    return front.movedim(0, dim).flatten(dim, dim + 1)


@rule_for("convolution")
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
    out = aten.convolution(images, filters, None, *options, groups * size)
    out = out.unflatten(1, (size, -1)).movedim(1, 0)
    if bias is not None and in_dims[2] is None:
        bias, bias_dim = to_front(bias, None, size), 0
    else:
        bias_dim = in_dims[2]
    return _biased(out, bias, bias_dim), 0


def _biased(out: Tensor, bias: Tensor | None, d: int | None) -> Tensor:
    if bias is None or d is None:
        return out
    b = to_front(bias, d)
    return out + b.reshape(b.shape[0], 1, -1, *[1] * (out.meta.ndim - 3))


@rule_for("convolution_backward")
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
