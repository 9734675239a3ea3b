"""Batching rules of losses: the loss of each element, reduced over each example."""

from __future__ import annotations

import math
from typing import Any

from maquette.aten.common.batching_forms import rank_of, to_front
from maquette.aten.common.operators import aten
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo
from maquette.transforms.rules import BatchingForm, Rule

NONE, MEAN, SUM = 0, 1, 2


@BatchingForm
def reduced(op: OpOverload) -> Rule:
    """A loss with a parameter ``reduction``: computed for each element, then reduced."""
    names = [a.name for a in op._schema.arguments]
    at = names.index("reduction")

    def rule(info: VmapInfo, in_dims: Any, *args: Any) -> Any:
        losses = op(*_element_by_element(info, in_dims, args, at))
        return _reduced(losses, args[at]), 0

    return rule


def _element_by_element(info: VmapInfo, in_dims: Any, args: Any, reduction_at: int) -> list[Any]:
    """The call that reduces nothing, of tensors that are all batched."""
    given = _expanded(info, in_dims, args)
    given[reduction_at] = NONE
    return given


def _expanded(info: VmapInfo, in_dims: Any, args: Any) -> list[Any]:
    """All tensors with the batch in front: losses want them of one shape."""
    rank = max(rank_of(t, d) for t, d in zip(args, in_dims) if isinstance(t, Tensor))
    return [to_front(t, d, info.batch_size, rank) for t, d in zip(args, in_dims)]


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    """The losses of examples, the batch in front."""
    if reduction == NONE:
        return losses
    losses = losses.flatten(1) if losses.meta.ndim > 1 else losses.unsqueeze(1)
    return losses.mean(1) if reduction == MEAN else losses.sum(1)


@BatchingForm
def reduced_backward(op: OpOverload) -> Rule:
    """The backward of such a loss: that of each element; the mean's is divided by `self`'s."""
    names = [a.name for a in op._schema.arguments]
    at, of_self = names.index("reduction"), names.index("self")

    def rule(info: VmapInfo, in_dims: Any, *args: Any) -> Any:
        grads = op(*_element_by_element(info, in_dims, args, at))
        if args[at] == MEAN:
            sizes = list(args[of_self].meta.shape)
            if in_dims[of_self] is not None:
                del sizes[in_dims[of_self]]
            grads = grads / (math.prod(sizes) or 1)
        return grads, 0

    return rule


# --- negative log likelihood ------------------------------------------------------------------


def _picked(
    self: Tensor, target: Tensor, weight: Tensor | None, ignore: int
) -> tuple[Any, Any, Any]:
    """Which targets count, the index of each, and its weight; classes are dimension 1, or 0."""
    dim = 0 if self.meta.ndim == 1 else 1
    counts = target != ignore
    index = aten.where(counts, target, 0)
    if weight is None:
        share = counts.to(self.dtype)
    else:
        share = weight[index] * counts.to(self.dtype)
    return dim, index, share


def nll_loss_batching(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    dim, index, share = _picked(self, target, weight, ignore_index)
    losses = -self.gather(dim, index.unsqueeze(dim)).squeeze(dim)
    losses = aten.where(share == 0, 0, losses) * share
    total = share.sum()
    if reduction == NONE:  # of one row the operator tells the weight all the same
        return losses, total if self.dim() == 1 else aten.zeros_like(total)
    if reduction == SUM:
        return losses.sum(), total
    return losses.sum() / total, total


def nll_loss_backward_batching(
    grad: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    dim, index, share = _picked(self, target, weight, ignore_index)
    if reduction == MEAN:
        grad = grad / total_weight
    made = aten.zeros_like(self)
    return made.scatter(dim, index.unsqueeze(dim), (-grad * share).unsqueeze(dim).to(self.dtype))


# --- margins ----------------------------------------------------------------------------------


def _by_row(losses: Tensor, reduction: int) -> Tensor:
    if reduction == NONE:
        return losses
    return losses.mean() if reduction == MEAN else losses.sum()


def multi_margin_loss_batching(
    self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None, reduction: int
) -> Tensor:
    self = self if self.meta.ndim else self.reshape(1)
    classes = self.shape[-1]
    target = target.reshape(self.shape[:-1])
    index = target.unsqueeze(-1)
    excess = (margin - self.gather(-1, index) + self).clamp_min(0)
    excess = excess * excess if p == 2 else excess
    if weight is not None:
        excess = excess * weight[index]
    own = aten.arange(classes, device=self.device) == index
    return _by_row(excess.masked_fill(own, 0).sum(-1) / classes, reduction)


def multilabel_margin_loss_batching(
    self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    classes = self.shape[-1] if self.meta.ndim else 1
    x, labels = self.reshape(-1, classes), target.reshape(-1, classes)
    named = (labels < 0).cumsum(-1) == 0
    index = labels.clamp_min(0)
    every = aten.arange(classes, device=self.device)
    hits = (index.unsqueeze(-1) == every) & named.unsqueeze(-1)
    is_target = hits.any(-2)
    excess = (1 - x.gather(-1, index).unsqueeze(-1) + x.unsqueeze(-2)).clamp_min(0)
    counts = named.unsqueeze(-1) & is_target.logical_not().unsqueeze(-2)
    losses = excess.masked_fill(counts.logical_not(), 0).sum([-1, -2]) / classes
    losses = losses if self.meta.ndim > 1 else losses.reshape(())
    return _by_row(losses, reduction), is_target.to(self.dtype).reshape(target.shape)
