"""Normalization of each sample by itself: over layers, groups, neighbouring channels.

Normalization by the batch, with running statistics, is in `batchnorm.py` and `instancenorm.py`.
"""

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
from maquette.nn.modules.cross_map import CrossMapLRN2d as CrossMapLRN2d
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor


class LayerNorm(Module):
    """Zero mean and unit variance over the trailing dimensions, then an affine map of each."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = repeated(normalized_shape, 1)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        add_parameter(self, "weight", shape, device, dtype, wanted=elementwise_affine)
        add_parameter(self, "bias", shape, device, dtype, wanted=elementwise_affine and bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The identity map: weight one, bias zero."""
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(*, normalized_shape), normalized."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The shape and the options."""
        options = described(self, "eps", "elementwise_affine")
        return f"{self.normalized_shape}, {options}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Unit root mean square over the trailing dimensions, then a factor for each.

    eps: None takes the machine epsilon of the type computed in.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = repeated(normalized_shape, 1)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        add_parameter(self, "weight", shape, device, dtype, wanted=elementwise_affine)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The identity map: weight one."""
        reset_affine(self.weight, None)

    def forward(self, x: Tensor) -> Tensor:
        """(*, normalized_shape), normalized."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The shape and the options."""
        return f"{self.normalized_shape}, {described(self, 'eps', 'elementwise_affine')}"


class GroupNorm(Module):
    """Zero mean and unit variance over groups of channels, then an affine map of each channel."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        add_parameter(self, "weight", (num_channels,), device, dtype, wanted=affine)
        add_parameter(self, "bias", (num_channels,), device, dtype, wanted=affine and bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The identity map: weight one, bias zero."""
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(batch, num_channels, *), normalized."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes and the options."""
        options = described(self, "eps", "affine")
        bias = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, {options}, bias={bias}"


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of `size` neighbouring channels."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """(batch, channels, *space), normalized."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The size and the constants."""
        return f"{self.size}, {described(self, 'alpha', 'beta', 'k')}"


def reset_affine(weight: Parameter | None, bias: Parameter | None) -> None:
    """The identity map, as far as there are parameters for it."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
