"""Losses and their backward forms."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import (
    by_vmap,
    decomposes,
    reduced,
    spread,
)


def _clamped_log(x: Any) -> Any:
    return aten.clamp(aten.log(x), -100)


@decomposes("binary_cross_entropy")
def binary_cross_entropy(self: Any, target: Any, weight: Any, reduction: int) -> Any:
    loss = (target - 1) * aten.clamp(aten.log1p(-self), -100) - target * _clamped_log(self)
    return reduced(loss if weight is None else loss * weight, reduction)


@decomposes("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad: Any, self: Any, target: Any, weight: Any, reduction: int
) -> Any:
    result = grad * (self - target) / aten.clamp(self * (1 - self), 1e-12)
    return spread(result if weight is None else result * weight, self, reduction)


@decomposes("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int
) -> Any:
    log = aten.log_sigmoid(self)
    if pos_weight is None:
        loss = (1 - target) * self - log
    else:
        loss = (1 - target) * self - (1 + (pos_weight - 1) * target) * log
    return reduced(loss if weight is None else loss * weight, reduction)


@decomposes("huber_loss")
def huber_loss(self: Any, target: Any, reduction: int, delta: float) -> Any:
    z = aten.abs(self - target)
    return reduced(aten.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta)), reduction)


@decomposes("huber_loss_backward")
def huber_loss_backward(grad: Any, self: Any, target: Any, reduction: int, delta: float) -> Any:
    # A mean divides by the elements of `self`, also where the target is larger.
    return spread(grad * aten.clamp(self - target, -delta, delta), self, reduction)


@decomposes("mse_loss")
def mse_loss(self: Any, target: Any, reduction: int) -> Any:
    return reduced((self - target) * (self - target), reduction)


@decomposes("mse_loss_backward")
def mse_loss_backward(grad: Any, self: Any, target: Any, reduction: int) -> Any:
    return spread(grad * 2 * (self - target), self, reduction)


@decomposes("smooth_l1_loss")
def smooth_l1_loss(self: Any, target: Any, reduction: int, beta: float) -> Any:
    z = aten.abs(self - target)
    if beta == 0:
        return reduced(z, reduction)
    return reduced(aten.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta), reduction)


@decomposes("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad: Any, self: Any, target: Any, reduction: int, beta: float) -> Any:
    x = self - target
    far = None if beta == 0 else aten.abs(x) >= beta  # NaN is not far, as in the kernel
    slope = aten.sign(x) if far is None else aten.where(far, aten.sign(x), x / beta)
    return spread(grad * slope, self, reduction)


@decomposes("soft_margin_loss", wide=False)
def soft_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    return reduced(aten.log1p(aten.exp(-self * target)), reduction)


@decomposes("soft_margin_loss_backward")
def soft_margin_loss_backward(grad: Any, self: Any, target: Any, reduction: int) -> Any:
    return spread(target * grad * (aten.sigmoid(target * self) - 1), self, reduction)


# --- of classes -----------------------------------------------------------------------------------


by_vmap("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward")
by_vmap("multi_margin_loss", "multilabel_margin_loss_forward")
