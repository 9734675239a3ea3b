"""`conv_tbc`: a convolution along time of tensors laid out as time, batch, channels."""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array
from maquette.aten.common.operators import aten
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.library.page import Cost, Variant, define
from maquette.tensor.tensor import Tensor

conv_tbc = define(
    "aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
    variants=[Variant.OUT],
)
conv_tbc.describe(
    "Convolution of a sequence [time, N, C] with `weight` [k, C, out]: [time, N, out]."
)
conv_tbc.autocast("lower")


@conv_tbc.shape
def conv_tbc_shape(self: TensorMeta, weight: TensorMeta, bias: TensorMeta, pad: int) -> TensorMeta:
    """self: (time, batch, in); weight: (width, in, out); bias: (out,)."""
    check(self.ndim == 3, lambda: f"Input must have 3 dims: time, batch, in_channel; got {self}")
    check(
        weight.ndim == 3,
        lambda: (
            f"Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.; got "
            f"{weight}"
        ),
    )
    check(bias.ndim == 1, lambda: f"Bias must be 1-D; got {bias}")
    time, batch, channels = self.shape
    width, inputs, outputs = weight.shape
    check(
        channels == inputs,
        lambda: (
            f"Input dim 2 (input channels) is not == dim 1 in the weight tensor: {channels} and "
            f"{inputs}"
        ),
    )
    check(
        bias.shape[0] == outputs,
        lambda: (
            f"Bias size must equal dim 2 in the weight tensor (output channels).; got "
            f"{bias.shape[0]} and {outputs}"
        ),
    )
    steps = time + 2 * pad - width + 1
    check(
        steps >= 0,
        lambda: (
            f"Trying to create tensor with negative dimension {steps}: {[steps, batch, outputs]}"
        ),
    )
    check(
        self.dtype is weight.dtype,
        lambda: (
            f"self and mat2 must have the same dtype, but got {self.dtype.scalar_name} and "
            f"{weight.dtype.scalar_name}"
        ),
    )
    return self.fresh((steps, batch, outputs))


@conv_tbc.kernel
def conv_tbc_kernel(xp: ModuleType, self: Array, weight: Array, bias: Array, pad: int) -> Array:
    x, taps = wide(self), wide(weight)
    x = x[-pad : len(x) + pad] if pad < 0 else xp.pad(x, ((pad, pad), (0, 0), (0, 0)))
    steps = len(x) - len(taps) + 1
    total = xp.broadcast_to(wide(bias).astype(x.dtype), (steps, x.shape[1], taps.shape[2])).copy()
    for k, tap in enumerate(taps):
        total += xp.matmul(x[k : k + steps], tap)
    result: Array = total
    return result


@conv_tbc.cost
def conv_tbc_cost(
    self: TensorMeta, weight: TensorMeta, bias: TensorMeta, pad: int, out: TensorMeta
) -> Cost:
    return Cost(flops=2 * out.numel * weight.shape[0] * weight.shape[1])


conv_tbc_backward = define(
    "aten::conv_tbc_backward(Tensor self, Tensor input, Tensor weight, Tensor bias, int pad) "
    "-> (Tensor, Tensor, Tensor)"
)


@conv_tbc_backward.composite
def conv_tbc_backward_composite(
    self: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of input, weight and bias; ``self`` is the result's."""
    result = conv_tbc_shape(input.meta, weight.meta, bias.meta, pad)
    check(
        self.meta.shape == result.shape,
        lambda: f"conv_tbc_backward: expected a gradient of shape {result.shape}, got {self.meta}",
    )
    steps, width = self.meta.shape[0], weight.meta.shape[0]
    padded = aten.constant_pad_nd(input, [0, 0, 0, 0, pad, pad])
    rows = self.flatten(0, 1)
    by_input = aten.zeros_like(padded)
    by_tap = []
    for k in range(width):
        sides = [0, 0, 0, 0, k, width - 1 - k]
        by_input = by_input + aten.constant_pad_nd(aten.matmul(self, weight[k].mH), sides)
        by_tap.append(padded.narrow(0, k, steps).flatten(0, 1).mH.mm(rows))
    by_input = aten.constant_pad_nd(by_input, [0, 0, 0, 0, -pad, -pad])
    return by_input, aten.stack(by_tap), self.sum((0, 1))


@conv_tbc.derivative("self", "weight", "bias")
def conv_tbc_grad(
    grad: Tensor, self: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = conv_tbc_backward(grad, self, weight, bias, pad)
    return found
