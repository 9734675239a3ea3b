"""Padding layers: by a constant, by reflection, by the border, or round in a circle."""

from typing import ClassVar

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.modules._construct import Sizes, described, repeated
from maquette.nn.modules.batchnorm import check_dim
from maquette.tensor import Tensor


class _Pad(Module):
    """`padding`: one number for all sides, or (before, after) from the last dimension backwards."""

    _dims: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self._dims)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, *space), the space larger."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """(*, *space), the space larger."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The widths and the value."""
        return described(self, "padding", "value")


class ConstantPad1d(_ConstantPadNd):
    """Pads a sequence by a constant."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads an image by a constant."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads a volume by a constant."""

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Pads a sequence by zeros."""

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads an image by zeros."""

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads a volume by zeros."""

    _dims = 3


class ReflectionPad1d(_Pad):
    """Pads a sequence by its mirror image."""

    _dims, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads an image by its mirror image."""

    _dims, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pads a volume by its mirror image."""

    _dims, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pads a sequence by its ends."""

    _dims, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads an image by its border."""

    _dims, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pads a volume by its border."""

    _dims, _mode = 3, "replicate"


class _CircularPadNd(_Pad):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, *space), the batch optional; ValueError for other ranks."""
        dims = (self._dims + 1, self._dims + 2)
        check_dim(input, f"{dims[0]}D or {dims[1]}D", dims)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Pads a sequence by its other end."""

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads an image by its other sides."""

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads a volume by its other sides."""

    _dims = 3
