"""Adamax: Adam with a maximum in the place of the root of squares (Kingma and Ba 2014)."""

from __future__ import annotations

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


class Adamax(Collecting):
    """Steps by the mean of gradients over a decaying maximum of their sizes.

    State: step, exp_avg, exp_inf.
    """

    _mq_as_tensors = ("lr", "betas")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": _paths.check_betas(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        state["exp_avg"] = zeros(param)
        state["exp_inf"] = zeros(param)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        grad = decayed(grad, param, group)
        _paths.blend(mean, grad, 1 - beta1)
        _paths.write_larger(largest.mul_(beta2), grad.abs().add_(group["eps"]), group)
        correction = 1 - beta1 ** _paths.value(state["step"], group)
        rate = _paths.value(group["lr"], group)
        _paths.move_by_quotient(param, mean, largest, -rate / correction)

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        beta1, beta2 = group["betas"]
        lr = _paths.number(group["lr"])
        means, largest = states["exp_avg"], states["exp_inf"]
        grads = decayed_lists(grads, params, group)
        mq._foreach_lerp_(means, grads, 1 - beta1)
        mq._foreach_mul_(largest, beta2)
        if group["maximize"] or group["weight_decay"] != 0:
            mq._foreach_abs_(grads)  # temporaries already
        else:
            grads = mq._foreach_abs(grads)
        mq._foreach_add_(grads, group["eps"])
        mq._foreach_maximum_(largest, grads)
        rates = [-lr / (1 - beta1**step) for step in numbers(states["step"])]
        mq._foreach_addcdiv_(params, means, largest, rates)


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """One step of `Adamax` by lists of parameters, gradients and state, all in place."""
    group = {
        "betas": (beta1, beta2),
        "eps": eps,
        "lr": lr,
        "weight_decay": weight_decay,
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
    }
    states = {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps}
    update_collected(Adamax, params, grads, states, group)
