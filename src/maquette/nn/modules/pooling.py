"""Pooling layers: maxima, means and norms of windows, of given or of adapted size."""

from typing import ClassVar

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.functional.pooling import OptionalSizes, WithIndices
from maquette.nn.modules._construct import Sizes, described, repeated
from maquette.nn.modules.shaping.unpooling import FractionalMaxPool2d as FractionalMaxPool2d
from maquette.nn.modules.shaping.unpooling import FractionalMaxPool3d as FractionalMaxPool3d
from maquette.nn.modules.shaping.unpooling import MaxUnpool1d as MaxUnpool1d
from maquette.nn.modules.shaping.unpooling import MaxUnpool2d as MaxUnpool2d
from maquette.nn.modules.shaping.unpooling import MaxUnpool3d as MaxUnpool3d
from maquette.nn.modules.shaping.unpooling import _MaxUnpoolNd as _MaxUnpoolNd
from maquette.tensor import Tensor


class _MaxPoolNd(Module):
    _mq_run: ClassVar[str]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor | WithIndices:
        """(batch, channels, *space) to fewer places; with indices on request."""
        return getattr(F, self._mq_run)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """The window."""
        return described(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """The largest of each window of a sequence."""

    _mq_run = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest of each window of an image."""

    _mq_run = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest of each window of a volume."""

    _mq_run = "max_pool3d"


class _AvgPoolNd(Module):
    def extra_repr(self) -> str:
        """The window."""
        return described(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of a sequence."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(kernel_size if stride is None else stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, length) to fewer places."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolDivided(_AvgPoolNd):
    _mq_run: ClassVar[str]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, *space) to fewer places."""
        return getattr(F, self._mq_run)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolDivided):
    """The mean of each window of an image."""

    _mq_run = "avg_pool2d"


class AvgPool3d(_AvgPoolDivided):
    """The mean of each window of a volume."""

    _mq_run = "avg_pool3d"


class _LPPoolNd(Module):
    _mq_run: ClassVar[str]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, *space) to fewer places."""
        return getattr(F, self._mq_run)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """The norm and the window."""
        return described(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of a sequence."""

    _mq_run = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of an image."""

    _mq_run = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of a volume."""

    _mq_run = "lp_pool3d"


class _AdaptiveAvgPoolNd(Module):
    _mq_run: ClassVar[str]

    def __init__(self, output_size: OptionalSizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, *space) to (batch, channels, *output_size)."""
        return getattr(F, self._mq_run)(input, self.output_size)

    def extra_repr(self) -> str:
        """The size of the output."""
        return described(self, "output_size")


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of as many windows of a sequence as are asked for."""

    _mq_run = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of as many windows of an image as are asked for; None keeps a size."""

    _mq_run = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of as many windows of a volume as are asked for; None keeps a size."""

    _mq_run = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(Module):
    _mq_run: ClassVar[str]

    def __init__(self, output_size: OptionalSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor | WithIndices:
        """(batch, channels, *space) to (batch, channels, *output_size)."""
        return getattr(F, self._mq_run)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The size of the output."""
        return described(self, "output_size")


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows of a sequence as are asked for."""

    _mq_run = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows of an image as are asked for; None keeps a size."""

    _mq_run = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows of a volume as are asked for; None keeps a size."""

    _mq_run = "adaptive_max_pool3d"
