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


class ZeroPad1d(ConstantPad1d):
    """Pads a sequence by zeros."""

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads an image by zeros."""

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads a volume by zeros."""

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads a sequence by its mirror image."""

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads an image by its mirror image."""

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads a volume by its mirror image."""

    _dims = 3


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads a sequence by its ends."""

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads an image by its border."""

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads a volume by its border."""

    _dims = 3


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
