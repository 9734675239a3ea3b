"""Images taken apart into columns of blocks, and put together again."""

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.modules._construct import Sizes, described
from maquette.tensor import Tensor


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
