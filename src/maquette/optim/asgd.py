"""Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.optim import _paths
from maquette.optim._collected import Collecting, Lists, decayed, numbers, update_collected, zeros
from maquette.optim._paths import Group
from maquette.optim.optimizer import Params
from maquette.tensor import Tensor


class ASGD(Collecting):
    """Gradient descent of falling rate, with the mean of the parameters beside it.

    t0: the step at which averaging starts. State: step, eta (the rate), mu (the next value's share
    of the mean), ax (the mean).
    """

    _mq_as_tensors = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        kind = _paths.step_dtype()
        rate = _paths.number(group["lr"])
        state["eta"] = mq.tensor(rate, dtype=kind, device=param.device)
        state["mu"] = mq.tensor(1.0, dtype=kind, device=param.device)
        state["ax"] = zeros(param)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        grad = decayed(grad, param, group)
        eta, mu, mean = state["eta"], state["mu"], state["ax"]
        rate, share = _paths.value(eta, group), _paths.value(mu, group)
        param.mul_(1 - group["lambd"] * rate)
        _paths.move(param, grad, -rate)
        if isinstance(share, Tensor):
            mean.copy_(mq.where(share == 1, param, mean + (param - mean) * share))
        elif share != 1:
            mean.add_(param.sub(mean).mul_(share))
        else:
            mean.copy_(param)
        step = _paths.value(state["step"], group)
        eta.fill_(_rate(step, group))
        mu.fill_(_share(step, group))

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        lambd = group["lambd"]
        etas, mus, means = states["eta"], states["mu"], states["ax"]
        rates, shares = numbers(etas), numbers(mus)
        # The gradient, its decay and that of lambd in one temporary.
        if group["maximize"]:
            steps = grads
            mq._foreach_add_(steps, params, alpha=group["weight_decay"] + lambd)
        else:
            steps = mq._foreach_add(grads, params, alpha=group["weight_decay"] + lambd)
        mq._foreach_mul_(steps, [-rate for rate in rates])
        mq._foreach_add_(params, steps)
        del steps, grads
        differences = mq._foreach_sub(params, means)
        mq._foreach_mul_(differences, shares)
        mq._foreach_add_(means, differences)
        for eta, mu, step in zip(etas, mus, numbers(states["step"])):
            eta.fill_(_rate(step, group))
            mu.fill_(_share(step, group))


def _rate(step: Any, group: Group) -> Any:
    lr = _paths.value(group["lr"], group)
    return lr / (1 + group["lambd"] * lr * step) ** group["alpha"]


def _share(step: Any, group: Group) -> Any:
    counted = step - group["t0"]
    return 1 / (counted.clamp(min=1) if isinstance(counted, Tensor) else max(1.0, counted))


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` by lists of parameters, gradients and state, all in place."""
    group = {
        "lambd": lambd,
        "lr": lr,
        "t0": t0,
        "alpha": alpha,
        "weight_decay": weight_decay,
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
    }
    states = {"ax": axs, "mu": mus, "eta": etas, "step": state_steps}
    update_collected(ASGD, params, grads, states, group)
