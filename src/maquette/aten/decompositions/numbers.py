"""Elementwise arithmetic and special functions."""

from __future__ import annotations

import math
from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import as_kernels, by_vmap, decomposes, floated
from maquette.core.dtype import finfo


@decomposes("addcdiv")
def addcdiv(self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    return self + value * (tensor1 / tensor2)


@decomposes("addcmul")
def addcmul(self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    return self + as_kernels(value, self, tensor1, tensor2) * tensor1 * tensor2


@decomposes("clamp_max")
def clamp_max(self: Any, max: Any) -> Any:
    return aten.clamp(self, None, max)


@decomposes("clamp_min")
def clamp_min(self: Any, min: Any) -> Any:
    return aten.clamp(self, min, None)


@decomposes("clamp_max.Tensor")
def clamp_max_tensor(self: Any, max: Any) -> Any:
    return aten.minimum(self, max)


@decomposes("clamp_min.Tensor")
def clamp_min_tensor(self: Any, min: Any) -> Any:
    return aten.maximum(self, min)


@decomposes("deg2rad")
def deg2rad(self: Any) -> Any:
    return self * (math.pi / 180)


@decomposes("rad2deg")
def rad2deg(self: Any) -> Any:
    return self * (180 / math.pi)


@decomposes("floor_divide")
def floor_divide(self: Any, other: Any) -> Any:
    return aten.div(self, other, rounding_mode="floor")


@decomposes("frac")
def frac(self: Any) -> Any:
    return self - aten.trunc(self)


@decomposes("heaviside")
def heaviside(self: Any, values: Any) -> Any:
    return aten.where(self == 0, values, aten.where(self > 0, 1, 0).to(self.dtype))


@decomposes("isneginf")
def isneginf(self: Any) -> Any:
    return self == -math.inf if self.is_floating_point() else self != self


@decomposes("isposinf")
def isposinf(self: Any) -> Any:
    return self == math.inf if self.is_floating_point() else self != self


@decomposes("isin.Tensor_Scalar")
def isin_scalar(elements: Any, test_element: Any, assume_unique: bool, invert: bool) -> Any:
    return elements != test_element if invert else elements == test_element


@decomposes("isin.Scalar_Tensor")
def scalar_isin(element: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Any:
    found = (test_elements == element).any()
    return ~found if invert else found


@decomposes("lerp.Tensor", "lerp.Scalar")
def lerp(self: Any, end: Any, weight: Any) -> Any:
    """From the nearer end, so that weights 0 and 1 give the ends exactly."""
    size = aten.abs(weight) if hasattr(weight, "dtype") else abs(weight)
    first, last = self + weight * (end - self), end - (end - self) * (1 - weight)
    if hasattr(weight, "dtype"):
        return aten.where(size < 0.5, first, last)
    return first if size < 0.5 else last


@decomposes("logaddexp")
def logaddexp(self: Any, other: Any) -> Any:
    """Equal infinities give one of them, for their difference is not a number."""
    a, b = self, other
    if self.is_complex():
        larger = aten.where(aten.real(a) >= aten.real(b), a, b)
        smaller = aten.where(aten.real(a) >= aten.real(b), b, a)
        same = (larger == smaller) & aten.isinf(aten.real(larger))
        return aten.where(same, larger, larger + aten.log(1 + aten.exp(smaller - larger)))
    larger = aten.maximum(a, b)
    same = aten.isinf(a) & (a == b)
    return aten.where(same, a, larger + aten.log1p(aten.exp(-aten.abs(a - b))))


@decomposes("logaddexp2")
def logaddexp2(self: Any, other: Any) -> Any:
    larger = aten.maximum(self, other)
    same = aten.isinf(self) & (self == other)
    inner = aten.log1p(aten.exp2(-aten.abs(self - other))) * (1 / math.log(2))
    return aten.where(same, self, larger + inner)


@decomposes("logit")
def logit(self: Any, eps: float | None) -> Any:
    x = floated(self)
    x = x if eps is None else aten.clamp(x, eps, 1 - eps)
    return aten.log(x / (1 - x))


@decomposes("logit_backward")
def logit_backward(grad: Any, self: Any, eps: float | None) -> Any:
    slope = grad / (self * (1 - self))
    if eps is None:
        return aten.where((self >= 0) & (self <= 1), slope, math.nan)
    return aten.where((self < eps) | (self > 1 - eps), 0, slope)  # NaN stays, as in the kernel


@decomposes("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    return aten.where(mask, value, self)


@decomposes("mvlgamma")
def mvlgamma(self: Any, p: int) -> Any:
    parts = aten.arange(p, device=self.device) * -0.5
    constant = p * (p - 1) / 4 * math.log(math.pi)
    return aten.lgamma(self.unsqueeze(-1) + parts).sum(-1) + constant


@decomposes("nan_to_num", wide=False)
def nan_to_num(self: Any, nan: float | None, posinf: float | None, neginf: float | None) -> Any:
    if not self.is_floating_point():
        return aten.clone(self)
    info = finfo(self.dtype)
    result = aten.where(self != self, 0.0 if nan is None else nan, self)
    result = aten.where(result == -math.inf, info.min if neginf is None else neginf, result)
    return aten.where(result == math.inf, info.max if posinf is None else posinf, result)


@decomposes("rsub.Tensor", "rsub.Scalar")
def rsub(self: Any, other: Any, alpha: Any) -> Any:
    return aten.sub.Tensor(other, self, alpha=alpha)  # a number less a tensor is `rsub` again


@decomposes("sgn")
def sgn(self: Any) -> Any:
    if not self.is_complex():
        return aten.sign(self)
    return aten.where(self == 0, 0, self / aten.abs(self))


@decomposes("sinc")
def sinc(self: Any) -> Any:
    x = self * math.pi
    return aten.where(self == 0, 1, aten.sin(x) / x)


@decomposes("special_entr")
def entr(self: Any) -> Any:
    self = floated(self)
    inside = aten.where(self > 0, -self * aten.log(self), aten.where(self == 0, 0, -math.inf))
    return aten.where(self != self, self, inside)


@decomposes("special_log_ndtr")
def log_ndtr(self: Any) -> Any:
    scaled = self * math.sqrt(0.5)
    left = aten.log(aten.special_erfcx(-scaled) / 2) - scaled * scaled
    return aten.where(self < 1, left, aten.log1p(-aten.erfc(scaled) / 2))


@decomposes("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
def xlogy(self: Any, other: Any) -> Any:
    return _times_log(self, other, _log(other))


@decomposes("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
def xlog1py(self: Any, other: Any) -> Any:
    return _times_log(self, other, aten.log1p(_tensor(other, self)))


def _tensor(number: Any, like: Any) -> Any:
    if hasattr(number, "dtype"):
        return number
    return aten.full([], number, dtype=like.dtype if like.is_floating_point() else None)


def _log(x: Any) -> Any:
    if hasattr(x, "dtype"):
        return aten.log(x)
    return math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan)


def _times_log(self: Any, other: Any, log: Any) -> Any:
    zero = self == 0
    if not hasattr(self, "dtype"):
        product = aten.zeros_like(log) if zero else self * log
        return aten.where(other != other, math.nan, product)
    product = aten.where(zero, 0, self * log)
    if hasattr(other, "dtype"):
        return aten.where(other != other, math.nan, product)
    return product if other == other else aten.full_like(product, math.nan)


@decomposes("native_dropout_backward")
def native_dropout_backward(grad: Any, mask: Any, scale: float) -> Any:
    return grad * (mask.to(grad.dtype) * scale)


@decomposes("bernoulli")
def bernoulli(self: Any, generator: Any) -> Any:
    return aten.lt(aten.rand_like(self), self)


by_vmap("isin.Tensor_Tensor")
