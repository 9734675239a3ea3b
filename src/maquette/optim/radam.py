"""RAdam: Adam whose first steps, of too uncertain a variance, do without it (Liu et al. 2019)."""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.optim import _paths
from maquette.optim._collected import (
    Collecting,
    Lists,
    decayed,
    decayed_lists,
    numbers,
    update_collected,
    zeros,
)
from maquette.optim._paths import Group
from maquette.optim.optimizer import Params
from maquette.tensor import Tensor


class RAdam(Collecting):
    """Adam, rectified by how well the variance of gradients is known.

    decoupled_weight_decay: shrink the parameters themselves. State: step, exp_avg, exp_avg_sq.
    """

    _mq_as_tensors = ("lr", "betas")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": _paths.check_betas(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        state["exp_avg"] = zeros(param)
        state["exp_avg_sq"] = zeros(param)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]
        lr, step = _paths.value(group["lr"], group), _paths.value(state["step"], group)
        mean, squares = state["exp_avg"], state["exp_avg_sq"]
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - lr * group["weight_decay"])
            else:
                grad = decayed(grad, param, group)
        _paths.blend(mean, grad, 1 - beta1)
        _paths.average_squares(squares, grad, beta2)
        update = (mean / (1 - beta1**step)) * lr
        if isinstance(step, Tensor):
            _move_unread(param, update, squares, step, group)
            return
        rectified = _rectification(step, beta2)
        if rectified:
            root = squares.sqrt().add_(group["eps"])
            update = update * ((1 - beta2**step) ** 0.5 / root) * rectified
        param.add_(update, alpha=-1.0)

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        beta1, beta2 = group["betas"]
        lr, steps = _paths.number(group["lr"]), numbers(states["step"])
        means, squares = states["exp_avg"], states["exp_avg_sq"]
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                mq._foreach_mul_(params, 1 - lr * group["weight_decay"])
            else:
                grads = decayed_lists(grads, params, group)
        mq._foreach_lerp_(means, grads, 1 - beta1)
        mq._foreach_mul_(squares, beta2)
        mq._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
        del grads  # they may be temporaries as large as the model

        factors = [_rectification(step, beta2) for step in steps]
        rates = [-lr / (1 - beta1**step) for step in steps]
        # A parameter steps by its mean over its root, or by the mean alone: one of two is zero.
        by_root = [
            rate * factor * (1 - beta2**step) ** 0.5
            for rate, factor, step in zip(rates, factors, steps)
        ]
        alone = [0.0 if factor else rate for rate, factor in zip(rates, factors)]
        updates = mq._foreach_sqrt(squares)
        mq._foreach_add_(updates, group["eps"])
        mq._foreach_div_(updates, by_root)
        mq._foreach_reciprocal_(updates)
        mq._foreach_add_(updates, alone)
        mq._foreach_mul_(updates, means)
        mq._foreach_add_(params, updates)


def _move_unread(
    param: Tensor, update: Tensor, squares: Tensor, step: Tensor, group: Group
) -> None:
    """The end of a step whose counter is not read: both of its ways, one of them chosen."""
    beta2 = group["betas"][1]
    largest, length = _lengths(step, beta2)
    known = (length - 4) * (length - 2) * largest / ((largest - 4) * (largest - 2) * length)
    factor = (known.clamp(min=0) * (1 - beta2**step)).sqrt()
    adaptive = update * factor / squares.sqrt().add_(group["eps"])
    param.sub_(mq.where(length > 5, adaptive, update))


def _lengths(step: Any, beta2: float) -> tuple[float, Any]:
    """How many gradients the mean of squares counts for, at most and now."""
    largest = 2 / (1 - beta2) - 1
    return largest, largest - 2 * step * beta2**step / (1 - beta2**step)


def _rectification(step: float, beta2: float) -> float:
    """The factor of the adaptive step; 0 while the variance is not known well enough."""
    largest, length = _lengths(step, beta2)
    if length <= 5.0:
        return 0.0
    known = (length - 4) * (length - 2) * largest
    return (known / ((largest - 4) * (largest - 2) * length)) ** 0.5


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` by lists of parameters, gradients and state, all in place."""
    group = {
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "foreach": foreach,
        "differentiable": differentiable,
        "capturable": capturable,
        "maximize": maximize,
    }
    states = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps}
    update_collected(RAdam, params, grads, states, group)
