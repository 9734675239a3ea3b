"""Layers that move elements and resize images: no parameters, no arithmetic of their own."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.modules._construct import Sizes, described
from maquette.tensor import Tensor


class Flatten(Module):
    """Dimensions start_dim to end_dim as one; the batch is kept by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """A view where strides allow."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The range."""
        return described(self, "start_dim", "end_dim")


class Unflatten(Module):
    """One dimension as several; TypeError unless their sizes are a tuple or list of ints."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """A view."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return described(self, "dim", "unflattened_size")


class PixelShuffle(Module):
    """Channels to pixels: (*, c * r * r, h, w) to (*, c, h * r, w * r)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.pixel_shuffle`."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return described(self, "upscale_factor")


class PixelUnshuffle(Module):
    """Pixels to channels: (*, c, h * r, w * r) to (*, c * r * r, h, w)."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.pixel_unshuffle`."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return described(self, "downscale_factor")


class ChannelShuffle(Module):
    """Channels of several groups, dealt out one of each in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.channel_shuffle`."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return described(self, "groups")


class Unfold(Module):
    """The sliding blocks of an image as columns."""

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.unfold`."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The window."""
        return described(self, "kernel_size", "dilation", "padding", "stride")


class Fold(Module):
    """The image that adds up from overlapping columns."""

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.fold`."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """The image and the window."""
        return described(self, "output_size", "kernel_size", "dilation", "padding", "stride")


class Upsample(Module):
    """Resizes (batch, channels, *space) to `size` or by `scale_factor`."""

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: float | Sequence[float] | None
        if isinstance(scale_factor, Sequence):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.interpolate`."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """The size or factor, and the mode."""
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by the nearest pixel."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images by bilinear interpolation with aligned corners."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
