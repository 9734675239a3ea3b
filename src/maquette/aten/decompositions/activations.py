"""Activations and their backward forms, softmax among them."""

from __future__ import annotations

import math
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import (
    FURTHER,
    RULES,
    as_kernels,
    by_vmap,
    decomposes,
    overload,
)
from maquette.core.dtype import dtype as DType

_SQRT_HALF = math.sqrt(0.5)


@decomposes("celu")
def celu(self: Any, alpha: float) -> Any:
    return aten.where(self > 0, self, alpha * aten.expm1(self / alpha))


@decomposes("elu", core=False)
def elu(self: Any, alpha: float, scale: float, input_scale: float) -> Any:
    negative = aten.expm1(self * input_scale) * (alpha * scale)
    return aten.where(self > 0, self * scale, negative)


@decomposes("elu_backward")
def elu_backward(
    grad: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any
) -> Any:
    if is_result:
        negative = grad * input_scale * (x + alpha * scale)
    else:
        negative = grad * (input_scale * alpha * scale) * aten.exp(x * input_scale)
    return aten.where(x <= 0, negative, grad * scale)


@decomposes("gelu", core=False)
def gelu(self: Any, approximate: str) -> Any:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (self + 0.044715 * self * self * self)
        return 0.5 * self * (1 + aten.tanh(inner))
    return self * 0.5 * (1 + aten.erf(self * _SQRT_HALF))


@decomposes("gelu_backward")
def gelu_backward(grad: Any, self: Any, approximate: str) -> Any:
    if approximate == "tanh":
        beta, kappa = math.sqrt(2 / math.pi), 0.044715
        tanh = aten.tanh(beta * (self + kappa * self * self * self))
        inner = beta * (1 + 3 * kappa * self * self)
        return grad * (0.5 * (1 + tanh) + 0.5 * self * (1 - tanh * tanh) * inner)
    cdf = 0.5 * (1 + aten.erf(self * _SQRT_HALF))
    pdf = aten.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad * (cdf + self * pdf)


@decomposes("glu")
def glu(self: Any, dim: int) -> Any:
    half = self.shape[dim] // 2
    return self.narrow(dim, 0, half) * aten.sigmoid(self.narrow(dim, half, half))


@decomposes("hardshrink")
def hardshrink(self: Any, lambd: float) -> Any:
    return aten.where(aten.abs(self) <= lambd, 0, self)


@decomposes("softshrink")
def softshrink(self: Any, lambd: float) -> Any:
    return aten.where(
        aten.abs(self) > lambd,
        self - aten.sign(self) * lambd,
        self * 0,  # so that NaN stays
    )


@decomposes("hardsigmoid")
def hardsigmoid(self: Any) -> Any:
    return aten.clamp(self + 3, 0, 6) / 6


@decomposes("hardsigmoid_backward")
def hardsigmoid_backward(grad: Any, self: Any) -> Any:
    return aten.where((self > -3) & (self < 3), grad / 6, 0)


@decomposes("hardswish")
def hardswish(self: Any) -> Any:
    return self * aten.clamp(self + 3, 0, 6) / 6


@decomposes("hardswish_backward")
def hardswish_backward(grad: Any, self: Any) -> Any:
    # The borders belong to the outer pieces and NaN to the inner one, as in the kernel.
    inner = aten.where(self >= 3, grad, grad * (self / 3 + 0.5))
    return aten.where(self <= -3, 0, inner)


@decomposes("hardtanh", core=False)
def hardtanh(self: Any, min_val: float, max_val: float) -> Any:
    return aten.clamp(self, min_val, max_val)


@decomposes("hardtanh_backward")
def hardtanh_backward(grad: Any, self: Any, min_val: float, max_val: float) -> Any:
    # NaN is not inside, as in the kernel.
    return aten.where((self > min_val) & (self < max_val), grad, 0)


@decomposes("leaky_relu", core=False)
def leaky_relu(self: Any, negative_slope: float) -> Any:
    return aten.where(self > 0, self, self * negative_slope)


@decomposes("leaky_relu_backward")
def leaky_relu_backward(grad: Any, self: Any, slope: float, self_is_result: bool) -> Any:
    return aten.where(self > 0, grad, grad * slope)


@decomposes("log_sigmoid_forward")
def log_sigmoid_forward(self: Any) -> Any:
    return aten.minimum(self, aten.zeros_like(self)) - aten.log1p(aten.exp(-aten.abs(self))), (
        aten.exp(-aten.abs(self))
    )


@decomposes("log_sigmoid_backward")
def log_sigmoid_backward(grad: Any, self: Any, buffer: Any) -> Any:
    z = aten.exp(-aten.abs(self))
    slope = z / (1 + z)
    return grad * aten.where(self < 0, 1 - slope, slope)


@decomposes("mish")
def mish(self: Any) -> Any:
    return self * aten.tanh(aten.softplus(self))


@decomposes("mish_backward")
def mish_backward(grad: Any, self: Any) -> Any:
    tanh, sigmoid = aten.tanh(aten.softplus(self)), aten.sigmoid(self)
    return grad * (tanh + self * sigmoid * (1 - tanh * tanh))


@decomposes("_prelu_kernel")
def prelu_kernel(self: Any, weight: Any) -> Any:
    return aten.where(self > 0, self, weight * self)


@decomposes("_prelu_kernel_backward")
def prelu_kernel_backward(grad: Any, self: Any, weight: Any) -> Any:
    return aten.where(self > 0, grad, weight * grad), aten.where(self > 0, 0, self * grad)


@decomposes("sigmoid_backward")
def sigmoid_backward(grad: Any, output: Any) -> Any:
    return grad * aten.conj_physical(output * (1 - output))


@decomposes("silu")
def silu(self: Any) -> Any:
    return self / (1 + aten.exp(-self)) if self.is_complex() else self * aten.sigmoid(self)


@decomposes("silu_backward")
def silu_backward(grad: Any, self: Any) -> Any:
    sigmoid = 1 / (1 + aten.exp(-self))
    return grad * aten.conj_physical(sigmoid * (1 + self * (1 - sigmoid)))


@decomposes("softplus")
def softplus(self: Any, beta: float, threshold: float) -> Any:
    scaled = self * beta
    return aten.where(scaled > threshold, self, aten.log1p(aten.exp(scaled)) / beta)


@decomposes("softplus_backward")
def softplus_backward(grad: Any, self: Any, beta: float, threshold: float) -> Any:
    z = aten.exp(self * beta)
    return aten.where(self * beta > threshold, grad, grad * z / (z + 1))


@decomposes("tanh_backward")
def tanh_backward(grad: Any, output: Any) -> Any:
    return grad * aten.conj_physical(1 - output * output)


@decomposes("threshold")
def threshold(self: Any, threshold: float, value: float) -> Any:
    return aten.where(self <= as_kernels(threshold, self), as_kernels(value, self), self)


@decomposes("threshold_backward")
def threshold_backward(grad: Any, self: Any, threshold: float) -> Any:
    return aten.where(self <= as_kernels(threshold, self, grad), 0, grad)


for _name in ("elu_", "gelu_", "hardtanh_", "leaky_relu_"):  # of these the functional form is core
    RULES[overload(_name)] = FURTHER.pop(overload(_name))

# --- softmax ------------------------------------------------------------------------------------


@decomposes("_softmax", core=False)
def softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    if not self.numel():
        return self
    weights = aten.exp(self - aten.amax(self, [dim], True))
    return weights / weights.sum([dim], True)


@decomposes("_log_softmax", core=False)
def log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    if not self.numel():
        return self
    shifted = self - aten.amax(self, [dim], True)
    return shifted - aten.log(aten.exp(shifted).sum([dim], True))


@decomposes("_softmax_backward_data")
def softmax_backward(grad: Any, output: Any, dim: int, input_dtype: DType) -> Any:
    weighted = grad * output
    return weighted - output * weighted.sum([dim], True)


@decomposes("_log_softmax_backward_data")
def log_softmax_backward(grad: Any, output: Any, dim: int, input_dtype: DType) -> Any:
    return grad - aten.exp(output) * grad.sum([dim], True)


@decomposes("_safe_softmax")
def safe_softmax(self: Any, dim: int, dtype: DType | None) -> Any:
    masked = (self == -math.inf).all(dim, True)
    return aten.where(masked, 0, aten.softmax(self, dim, dtype))


@decomposes("_scaled_dot_product_flash_attention_for_cpu")
def attention(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Any,
    scale: float | None,
) -> Any:
    scores = query @ key.transpose(-2, -1) * (scale or 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        seen = aten.ones_like(scores[0, 0], dtype=None).tril() != 0
        scores = aten.where(seen, scores, -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    return aten.softmax(scores, -1) @ value, aten.logsumexp(scores, [-1])


by_vmap("glu_backward")
