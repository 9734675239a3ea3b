"""Convolutions and their transposes, in one to three dimensions; unfolding into columns.

Each name is an operator; the shapes are PyTorch's: (batch, channels, *space), the batch optional.
"""

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.tensor import Tensor

Sizes = int | Sequence[int]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Correlate over one dimension; `weight` is (out, in / groups, width)."""
    return mq.conv1d(input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Correlate along time: input (time, batch, in), weight (width, in, out)."""
    return mq.conv_tbc(input, weight, bias, pad)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Correlate over two dimensions; `weight` is (out, in / groups, height, width)."""
    return mq.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Correlate over three dimensions; `weight` is (out, in / groups, depth, height, width)."""
    return mq.conv3d(input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The gradient of `conv1d` in its input, as a layer; `weight` is (in, out / groups, width)."""
    return mq.conv_transpose1d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The gradient of `conv2d` in its input, as a layer."""
    return mq.conv_transpose2d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The gradient of `conv3d` in its input, as a layer."""
    return mq.conv_transpose3d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def unfold(
    input: Tensor,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """The sliding blocks of an image as columns: (batch, channels * block, blocks)."""
    return mq.im2col(input, pair(kernel_size), pair(dilation), pair(padding), pair(stride))


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """The image whose overlapping blocks add up from columns: the transpose of `unfold`."""
    return mq.col2im(
        input, pair(output_size), pair(kernel_size), pair(dilation), pair(padding), pair(stride)
    )


def pair(value: Sizes) -> list[int]:
    """Two sizes: `value` twice if it is one number."""
    return [value, value] if isinstance(value, int) else list(value)
