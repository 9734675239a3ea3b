"""Activations and softmaxes as layers; attention, handed on from here, is in `attention.py`.

Each layer keeps the arguments of the function of `nn.functional` that it calls.
"""

import warnings
from typing import ClassVar

from maquette.api import functions as mq
from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn import init as initial
from maquette.nn.base import Module
from maquette.nn.modules._construct import DeviceLike, add_parameter, described
from maquette.nn.modules.attention import MultiheadAttention
from maquette.nn.modules.linear import (
    NonDynamicallyQuantizableLinear as NonDynamicallyQuantizableLinear,
)
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor


class _Plain(Module):
    """An activation without arguments."""

    _mq_run: ClassVar[str]

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return getattr(F, self._mq_run)(input)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return mq.sigmoid(input)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return mq.tanh(input)


class LogSigmoid(_Plain):
    """log(sigmoid(x))."""

    _mq_run = "logsigmoid"


class Softsign(_Plain):
    """x / (1 + |x|)."""

    _mq_run = "softsign"


class Tanhshrink(_Plain):
    """x - tanh(x)."""

    _mq_run = "tanhshrink"


class _Inplace(Module):
    """An activation whose one argument says whether to overwrite the input."""

    _mq_run: ClassVar[str]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return getattr(F, self._mq_run)(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """max(0, x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.relu(input, self.inplace)


class SELU(_Inplace):
    """The self-normalizing elu."""

    _mq_run = "selu"


class SiLU(_Inplace):
    """x * sigmoid(x)."""

    _mq_run = "silu"


class Mish(_Inplace):
    """x * tanh(softplus(x))."""

    _mq_run = "mish"


class Hardswish(_Inplace):
    """x * relu6(x + 3) / 6."""

    _mq_run = "hardswish"

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class Hardsigmoid(_Inplace):
    """relu6(x + 3) / 6."""

    _mq_run = "hardsigmoid"

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class _Shaped(Module):
    """An activation with arguments for its shape; its printed form names them."""

    _shown: ClassVar[tuple[str, ...]]
    inplace: bool

    def extra_repr(self) -> str:
        """The arguments, and `inplace` only if it is set."""
        text = described(self, *self._shown)
        return f"{text}, inplace=True" if self._mq_attributes.get("inplace", False) else text


class Threshold(_Shaped):
    """x above `threshold`, else `value`."""

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class RReLU(_Shaped):
    """leaky_relu with slopes drawn from [lower, upper] in training."""

    _shown = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_Shaped):
    """Clamps to [min_val, max_val]; `min_value` and `max_value` are their deprecated names."""

    _shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = self._renamed("min_val", min_val, min_value)
        self.max_val = self._renamed("max_val", max_val, max_value)
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
            )

    def _renamed(self, name: str, value: float, deprecated: float | None) -> float:
        if deprecated is None:
            return value
        warnings.warn(
            f"keyword argument `{name}ue` is deprecated and renamed to `{name}`",
            FutureWarning,
            stacklevel=3,
        )
        return deprecated

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """min(max(0, x), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class ELU(_Shaped):
    """x above zero, alpha * (exp(x) - 1) below."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Shaped):
    """The continuously differentiable elu."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Shaped):
    """x above zero, negative_slope * x below."""

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class GELU(_Shaped):
    """x * Phi(x), or its tanh form."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The form."""
        return f"approximate={self.approximate!r}"


class GLU(_Shaped):
    """Half of the input, gated by the sigmoid of the other half."""

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Half as large along `dim`."""
        return F.glu(input, self.dim)


class Softplus(_Shaped):
    """log(1 + exp(beta * x)) / beta."""

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.softplus(input, self.beta, self.threshold)


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The half width of the zero."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """Zero within [-lambd, lambd], x outside."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards zero by lambd."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.softshrink(input, self.lambd)


class PReLU(_Shaped):
    """leaky_relu with learnable slopes, one or one for each channel."""

    weight: Parameter
    _shown = ("num_parameters",)

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        add_parameter(self, "weight", (num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every slope as it was given."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The activation of each element."""
        return F.prelu(input, self.weight)


class _AlongDim(Module):
    """A function along one dimension; None guesses it, with a warning."""

    _mq_run: ClassVar[str]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The result, of the same shape."""
        return getattr(F, self._mq_run)(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along a dimension."""

    _mq_run = "softmax"


class Softmin(_AlongDim):
    """softmax(-x) along a dimension."""

    _mq_run = "softmin"


class LogSoftmax(_AlongDim):
    """log(softmax(x)) along a dimension."""

    _mq_run = "log_softmax"


class Softmax2d(Module):
    """softmax over the channels of an image, the batch optional."""

    def forward(self, input: Tensor) -> Tensor:
        """ValueError unless 3-d or 4-d."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


__all__ = [
    "Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "ReLU", "SELU", "SiLU", "Mish",
    "Hardswish", "Hardsigmoid", "Threshold", "RReLU", "Hardtanh", "ReLU6", "ELU", "CELU",
    "LeakyReLU", "GELU", "GLU", "Softplus", "Hardshrink", "Softshrink", "PReLU", "Softmax",
    "Softmin", "LogSoftmax", "Softmax2d", "MultiheadAttention",
]  # fmt: skip
