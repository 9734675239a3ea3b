"""Convolution layers, plain and transposed, in one to three dimensions.

The classes of one dimension each only say how many dimensions there are and which function runs;
sizes, parameters, initial values and the printed form are the common base's.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn import init
from maquette.nn.base import Module
from maquette.nn.modules._construct import (
    DeviceLike,
    Sizes,
    add_parameter,
    described,
    repeated,
)
from maquette.nn.modules.utils import _pair as _pair
from maquette.nn.modules.utils import _reverse_repeat_tuple as _reverse_repeat_tuple
from maquette.nn.modules.utils import _single as _single
from maquette.nn.modules.utils import _triple as _triple
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """weight (out, in / groups, *kernel), or transposed (in, out / groups, *kernel)."""

    weight: Parameter
    bias: Parameter | None
    _mq_dims: int
    _mq_run: ClassVar[str]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes | str,
        dilation: Sizes,
        transposed: bool,
        output_padding: Sizes,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike | None,
        dtype: dtype_ | None,
    ) -> None:
        super().__init__()
        n = self._mq_dims
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = repeated(kernel_size, n)
        self.stride = repeated(stride, n)
        self.padding = padding if isinstance(padding, str) else repeated(padding, n)
        self.dilation = repeated(dilation, n)
        self.transposed = transposed
        self.output_padding = repeated(output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        self._mq_check_options()
        self._reversed_padding_repeated_twice = self._mq_border()
        maps = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (maps[0], maps[1] // groups, *self.kernel_size)
        add_parameter(self, "weight", shape, device, dtype)
        add_parameter(self, "bias", (out_channels,), device, dtype, wanted=bias)
        self.reset_parameters()

    def _mq_check_options(self) -> None:
        if self.groups <= 0:
            raise ValueError(f"groups must be a positive integer; got {self.groups}")
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups != 0:
                raise ValueError(
                    f"{name} must be divisible by groups; got {getattr(self, name)} and "
                    f"{self.groups}"
                )
        if isinstance(self.padding, str) and self.padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {self.padding!r}, should be one of 'same', 'valid'"
            )
        if self.padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError(
                "padding='same' is not supported for strided convolutions; got stride "
                f"{self.stride}"
            )
        if self.padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode="
                f"'{self.padding_mode}'"
            )

    def _mq_border(self) -> list[int]:
        """The padding as `F.pad` wants it: (before, after) from the last dimension backwards."""
        border: list[int] = []
        for i in reversed(range(self._mq_dims)):
            if isinstance(self.padding, str):
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                before = total // 2 if self.padding == "same" else 0
                border += [before, total - before if self.padding == "same" else 0]
            else:
                border += [self.padding[i], self.padding[i]]
        return border

    def reset_parameters(self) -> None:
        """Draw new values, uniform within 1/sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Channels, kernel and stride, and what is not the default."""
        n = self._mq_dims
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts.append(described(self, "kernel_size", "stride"))
        for name, default in (
            ("padding", (0,) * n),
            ("dilation", (1,) * n),
            ("output_padding", (0,) * n),
            ("groups", 1),
        ):
            if getattr(self, name) != default:
                parts.append(described(self, name))
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(described(self, "padding_mode"))
        return ", ".join(parts)


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            False,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """(batch, in_channels, *space) to (batch, out_channels, *space), the batch optional."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # A method of its own because layers that compute their weight call it (as in PyTorch).
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._mq_dims
        run = getattr(F, self._mq_run)
        return run(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Convolution over a sequence."""

    _mq_dims = 1
    _mq_run = "conv1d"


class Conv2d(_Conv):
    """Convolution over an image."""

    _mq_dims = 2
    _mq_run = "conv2d"


class Conv3d(_Conv):
    """Convolution over a volume."""

    _mq_dims = 3
    _mq_run = "conv3d"


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}; got '
                f"{padding_mode!r}"
            )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            True,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(batch, in_channels, *space) to a larger space, of `output_size` where it is given.

        Raises ValueError for a size that this stride cannot give.
        """
        output_padding: Sequence[int] = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(input, output_size)
        return getattr(F, self._mq_run)(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """What must be added to the smallest output to have the size wanted."""
        n = self._mq_dims
        leading = input.dim() - n
        wanted = list(output_size)[leading:] if len(output_size) > n else list(output_size)
        if len(wanted) != n or len(output_size) not in (n, n + leading):
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {n} or "
                f"{n + leading} elements (got {len(output_size)})"
            )
        padding = [0] * n if isinstance(self.padding, str) else self.padding
        smallest = [
            (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1
            for size, stride, pad, dilation, kernel in zip(
                input.shape[leading:], self.stride, padding, self.dilation, self.kernel_size
            )
        ]
        largest = [size + stride - 1 for size, stride in zip(smallest, self.stride)]
        if not all(low <= size <= high for low, size, high in zip(smallest, wanted, largest)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {smallest} to "
                f"{largest} (for an input of {input.shape[leading:]})"
            )
        return [size - low for size, low in zip(wanted, smallest)]


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over a sequence."""

    _mq_dims = 1
    _mq_run = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over an image."""

    _mq_dims = 2
    _mq_run = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over a volume."""

    _mq_dims = 3
    _mq_run = "conv_transpose3d"
