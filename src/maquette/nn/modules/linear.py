"""Dense layers, and the layer that does nothing."""

import math

from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn import init
from maquette.nn.base import Module
from maquette.nn.modules._construct import DeviceLike, add_parameter, described
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor


class Identity(Module):
    """Returns its input; takes any arguments, so that it can stand for any layer."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Module):
    """x @ weight.T + bias; weight (out_features, in_features), uniform within 1/sqrt(in)."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        add_parameter(self, "weight", (out_features, in_features), device, dtype)
        add_parameter(self, "bias", (out_features,), device, dtype, wanted=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: kaiming_uniform_ of slope sqrt(5), which is 1/sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) to (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and whether there is a bias."""
        sizes = described(self, "in_features", "out_features")
        return f"{sizes}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear by the name that PyTorch gives the output projection of `MultiheadAttention`."""


class Bilinear(Module):
    """x1' A x2 + b, a matrix A for each output; weight (out, in1, in2)."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        add_parameter(self, "weight", shape, device, dtype)
        add_parameter(self, "bias", (out_features,), device, dtype, wanted=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform within 1/sqrt(in1_features)."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {self.in1_features}")
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(*, in1_features) and (*, in2_features) to (*, out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and whether there is a bias."""
        sizes = described(self, "in1_features", "in2_features", "out_features")
        return f"{sizes}, bias={self.bias is not None}"
