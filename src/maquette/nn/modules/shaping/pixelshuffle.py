"""Channels exchanged for pixels, and back."""

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.modules._construct import described
from maquette.tensor import Tensor


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
