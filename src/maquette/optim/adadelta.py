"""Adadelta (Zeiler 2012)."""

from __future__ import annotations

from maquette.api import functions as mq
from maquette.optim import _paths
from maquette.optim._collected import (
    Collecting,
    Lists,
    decayed,
    decayed_lists,
    update_collected,
    zeros,
)
from maquette.optim._paths import Group
from maquette.optim.optimizer import Params
from maquette.tensor import Tensor


class Adadelta(Collecting):
    """Steps by the gradient times the ratio of two roots: of past steps' and of gradients' squares.

    State: step, square_avg, acc_delta.
    """

    _mq_as_tensors = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _paths.check_not_negative(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        state["square_avg"] = zeros(param)
        state["acc_delta"] = zeros(param)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        rho, eps = group["rho"], group["eps"]
        squares, deltas = state["square_avg"], state["acc_delta"]
        grad = decayed(grad, param, group)
        squares.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        std = squares.add(eps).sqrt_()
        delta = deltas.add(eps).sqrt_().div_(std).mul_(grad)
        deltas.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        _paths.move(param, delta, -_paths.value(group["lr"], group))

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        rho, eps = group["rho"], group["eps"]
        squares, deltas = states["square_avg"], states["acc_delta"]
        grads = decayed_lists(grads, params, group)
        mq._foreach_mul_(squares, rho)
        mq._foreach_addcmul_(squares, grads, grads, value=1 - rho)
        std = mq._foreach_add(squares, eps)
        mq._foreach_sqrt_(std)
        steps = mq._foreach_add(deltas, eps)
        mq._foreach_sqrt_(steps)
        mq._foreach_div_(steps, std)
        mq._foreach_mul_(steps, grads)
        mq._foreach_mul_(deltas, rho)
        mq._foreach_addcmul_(deltas, steps, steps, value=1 - rho)
        mq._foreach_add_(params, steps, alpha=-_paths.number(group["lr"]))


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` by lists of parameters, gradients and state, all in place."""
    group = {
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "capturable": capturable,
        "foreach": foreach,
        "differentiable": differentiable,
    }
    states = {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps}
    update_collected(Adadelta, params, grads, states, group)
