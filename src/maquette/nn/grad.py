"""`torch.nn.grad`: gradients of convolutions by themselves, of the input and of the weight."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor

Sizes = int | Sequence[int]


def _listed(value: Sizes, dims: int) -> list[int]:
    return [value] * dims if isinstance(value, int) else list(value)


def _gradient(
    dims: int,
    which: int,
    input: Tensor,
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    wanted = [place == which for place in range(3)]
    found: list[Tensor] = mq.convolution_backward(
        grad_output,
        input,
        weight,
        None,
        _listed(stride, dims),
        _listed(padding, dims),
        _listed(dilation, dims),
        False,
        [0] * dims,
        groups,
        wanted,
    )
    return found[which]


def _place_of(sizes: Sequence[int], like: Tensor) -> Tensor:
    # Only its sizes are read.
    return like.new_empty(1).expand(list(sizes))


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` for an input of ``input_size`` (N, C, L)."""
    given = _place_of(input_size, grad_output)
    return _gradient(1, 0, given, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` for a weight of ``weight_size`` (out, C / groups, l)."""
    given = _place_of(weight_size, grad_output)
    return _gradient(1, 1, input, given, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` for an input of ``input_size`` (N, C, H, W)."""
    given = _place_of(input_size, grad_output)
    return _gradient(2, 0, given, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` for a weight of ``weight_size`` (out, C / groups, h, w)."""
    given = _place_of(weight_size, grad_output)
    return _gradient(2, 1, input, given, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` for an input of ``input_size`` (N, C, D, H, W)."""
    given = _place_of(input_size, grad_output)
    return _gradient(3, 0, given, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` for a weight of ``weight_size`` (out, C / groups, d, h, w)."""
    given = _place_of(weight_size, grad_output)
    return _gradient(3, 1, input, given, grad_output, stride, padding, dilation, groups)
