"""Dropout layers: they act in training only."""

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.functional.dropout import check_probability
from maquette.nn.modules._construct import described
from maquette.tensor import Tensor


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(p)
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The probability, and whether the input is overwritten."""
        return described(self, "p", "inplace")


class Dropout(_DropoutNd):
    """Zeroes elements with probability p."""

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.dropout`."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of (batch, channels, length), the batch optional."""

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.dropout1d`."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of (batch, channels, height, width)."""

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.dropout2d`."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of (batch, channels, depth, height, width), the batch optional."""

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.dropout3d`."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of selu activations."""

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.alpha_dropout`."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.feature_alpha_dropout`."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
