"""`torch.nn.grad`: gradients of convolutions by themselves, of the input and of the weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def _input_gradient(dims: int, sizes: str) -> Callable[..., Tensor]:
    """The function for inputs with ``dims`` dimensions beside N and C, in words ``sizes``."""

    def gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        given = _place_of(input_size, grad_output)
        return _gradient(dims, 0, given, weight, grad_output, stride, padding, dilation, groups)

    return _named(gradient, dims, "input", f"(N, C, {sizes})")


def _weight_gradient(dims: int, sizes: str) -> Callable[..., Tensor]:
    """The function for weights with ``dims`` dimensions beside the channels."""

    def gradient(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        given = _place_of(weight_size, grad_output)
        return _gradient(dims, 1, input, given, grad_output, stride, padding, dilation, groups)

    return _named(gradient, dims, "weight", f"(out, C / groups, {sizes})")


def _named(
    gradient: Callable[..., Tensor], dims: int, of: str, sizes: str
) -> Callable[..., Tensor]:
    gradient.__name__ = gradient.__qualname__ = f"conv{dims}d_{of}"
    gradient.__doc__ = f"The gradient of `conv{dims}d` for the {of}, of ``{of}_size`` {sizes}."
    return gradient


conv1d_input = _input_gradient(1, "L")
conv2d_input = _input_gradient(2, "H, W")
conv3d_input = _input_gradient(3, "D, H, W")
conv1d_weight = _weight_gradient(1, "l")
conv2d_weight = _weight_gradient(2, "h, w")
conv3d_weight = _weight_gradient(3, "d, h, w")
