"""Losses and their backward forms."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import at_dim, counting, decomposes, reduced, spread


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
    return spread(grad * aten.clamp(self - target, -delta, delta), self - target, reduction)


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
    slope = aten.sign(x) if beta == 0 else aten.where(aten.abs(x) < beta, x / beta, aten.sign(x))
    return spread(grad * slope, self, reduction)


@decomposes("soft_margin_loss", wide=False)
def soft_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    return reduced(aten.log1p(aten.exp(-self * target)), reduction)


@decomposes("soft_margin_loss_backward")
def soft_margin_loss_backward(grad: Any, self: Any, target: Any, reduction: int) -> Any:
    return spread(target * grad * (aten.sigmoid(target * self) - 1), self, reduction)


# --- of classes -----------------------------------------------------------------------------------


def _class_dim(self: Any) -> int:
    return 0 if self.ndim < 2 else 1


@decomposes("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    dim = _class_dim(self)
    keep = target != ignore_index
    if weight is not None:
        self = self * at_dim(weight, dim, self.ndim)
    safe = aten.where(keep, target, 0)
    loss = -aten.gather(self, dim, safe.unsqueeze(dim)).squeeze(dim)
    loss = aten.where(keep, loss, 0)
    if reduction == 0 and self.ndim > 1:
        return loss, aten.new_zeros(self, [])
    if weight is None:
        total = keep.sum().to(self.dtype)
    else:
        total = aten.where(keep, weight[safe], 0).sum()
    return (loss.sum() / total if reduction == 1 else loss.sum()), total


@decomposes("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad: Any,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total_weight: Any,
) -> Any:
    dim = _class_dim(self)
    grad = grad / total_weight if reduction == 1 else grad
    target = target.unsqueeze(dim)
    keep = target != ignore_index
    here = at_dim(counting(self.shape[dim], self), dim, self.ndim) == target
    if grad.ndim and grad.ndim < self.ndim:
        grad = grad.unsqueeze(dim)
    result = aten.where(here & keep, -grad, 0)
    return result if weight is None else result * at_dim(weight, dim, self.ndim)


@decomposes("multi_margin_loss")
def multi_margin_loss(
    self: Any, target: Any, p: int, margin: float, weight: Any, reduction: int
) -> Any:
    rows = self.view(1, -1) if self.ndim < 2 else self
    classes = rows.shape[1]
    at = target.view(-1, 1) if target.ndim < 2 else target
    z = aten.clamp(margin - aten.gather(rows, 1, at) + rows, 0)
    z = z if p == 1 else z * z
    z = z if weight is None else z * weight[at]
    z = aten.where(counting(classes, self) != at, z, 0)
    if reduction != 0:
        return reduced(z.mean(1), reduction)
    return z.mean(1) if target.ndim else z.mean(1).view([])


@decomposes("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(self: Any, target: Any, reduction: int) -> Any:
    shape = target.shape
    rows, labels = (t.view(1, -1) if t.ndim < 2 else t for t in (self, target))
    classes = rows.shape[1]
    index = counting(classes, self)
    ends = aten.where(labels == -1, index, classes)
    before_end = index < aten.amin(ends, [-1], True)
    safe = aten.where(before_end, labels, 0)
    is_target = (before_end.unsqueeze(2) & (safe.unsqueeze(2) == index)).any(1)
    own = aten.gather(rows, 1, safe)
    z = aten.clamp(1 - (own.unsqueeze(1) - rows.unsqueeze(2)), 0) / classes
    z = aten.where(is_target.unsqueeze(2), 0, z)
    z = aten.where(before_end.unsqueeze(1), z, 0)
    loss = z.sum([1, 2])
    loss = reduced(loss, reduction) if reduction else (loss if self.ndim == 2 else loss.view([]))
    return loss, is_target.to(self.dtype).view(shape)
