"""NAdam: Adam with Nesterov's momentum (Dozat 2016)."""

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


class NAdam(Collecting):
    """Adam that steps by the momentum of the step to come.

    decoupled_weight_decay: shrink the parameters themselves. State: step, mu_product (the product
    of all momenta so far), exp_avg, exp_avg_sq.
    """

    _mq_as_tensors = ("lr", "betas")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(
            epsilon=eps, weight_decay=weight_decay, momentum_decay=momentum_decay
        )
        defaults = {
            "lr": lr,
            "betas": _paths.check_betas(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        step = state["step"]
        state["mu_product"] = mq.tensor(1.0, dtype=step.dtype, device=step.device)
        state["exp_avg"] = zeros(param)
        state["exp_avg_sq"] = zeros(param)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        beta1, beta2 = group["betas"]
        lr, step = _paths.value(group["lr"], group), _paths.value(state["step"], group)
        mean, squares, product = state["exp_avg"], state["exp_avg_sq"], state["mu_product"]
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - lr * group["weight_decay"])
            else:
                grad = decayed(grad, param, group)
        mu, next_mu = _momenta(step, group)
        product *= mu
        _paths.blend(mean, grad, 1 - beta1)
        _paths.average_squares(squares, grad, beta2)
        denom = squares.div(1 - beta2**step).sqrt_().add_(group["eps"])
        so_far = _paths.value(product, group)
        _paths.move_by_quotient(param, grad, denom, -lr * (1 - mu) / (1 - so_far))
        by_mean = -lr * next_mu / (1 - so_far * next_mu)
        _paths.move_by_quotient(param, mean, denom, by_mean)

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        beta1, beta2 = group["betas"]
        lr, steps = _paths.number(group["lr"]), numbers(states["step"])
        means, squares, products = states["exp_avg"], states["exp_avg_sq"], states["mu_product"]
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                mq._foreach_mul_(params, 1 - lr * group["weight_decay"])
            else:
                grads = decayed_lists(grads, params, group)
        mq._foreach_lerp_(means, grads, 1 - beta1)
        mq._foreach_mul_(squares, beta2)
        mq._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
        denoms = mq._foreach_sqrt(squares)
        mq._foreach_div_(denoms, [(1 - beta2**step) ** 0.5 for step in steps])
        mq._foreach_add_(denoms, group["eps"])
        momenta = [_momenta(step, group) for step in steps]
        for product, (mu, _) in zip(products, momenta):
            product *= mu
        so_far = [_paths.number(product) for product in products]
        by_grad = [-lr * (1 - mu) / (1 - p) for p, (mu, _) in zip(so_far, momenta)]
        by_mean = [-lr * next_mu / (1 - p * next_mu) for p, (_, next_mu) in zip(so_far, momenta)]
        mq._foreach_addcdiv_(params, grads, denoms, by_grad)
        mq._foreach_addcdiv_(params, means, denoms, by_mean)


def _momenta(step: Any, group: Group) -> tuple[Any, Any]:
    """The momentum of this step and of the next: beta1, warmed up."""
    beta1, decay = group["betas"][0], group["momentum_decay"]
    first, second = (beta1 * (1.0 - 0.5 * 0.96 ** (t * decay)) for t in (step, step + 1))
    return first, second


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of `NAdam` by lists of parameters, gradients and state, all in place."""
    group = {
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum_decay": momentum_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "foreach": foreach,
        "capturable": capturable,
        "differentiable": differentiable,
        "maximize": maximize,
    }
    states = {
        "exp_avg": exp_avgs,
        "exp_avg_sq": exp_avg_sqs,
        "mu_product": mu_products,
        "step": state_steps,
    }
    update_collected(NAdam, params, grads, states, group)
