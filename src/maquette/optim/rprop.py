"""Resilient backpropagation: steps by the sign of gradients alone (Riedmiller and Braun 1993)."""

from __future__ import annotations

from maquette.api import functions as mq
from maquette.optim import _paths
from maquette.optim._collected import Collecting, Lists, update_collected, zeros
from maquette.optim._paths import Group
from maquette.optim.optimizer import Params
from maquette.tensor import Tensor


class Rprop(Collecting):
    """Each element has a step size, which grows while its gradient keeps its sign.

    etas: the factors for shrinking and for growing; step_sizes: the smallest and the largest.
    State: step, prev (the last gradient), step_size.
    """

    _mq_as_tensors = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        lr = _paths.number(group["lr"])
        state["prev"] = zeros(param)
        fill = complex(lr, lr) if param.is_complex() else lr
        state["step_size"] = mq.full_like(param, fill)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        previous, size = state["prev"], state["step_size"]
        agreement = grad.mul(previous)
        turned = _scale(size, agreement, group)
        grad = grad.masked_fill(turned, 0)
        param.addcmul_(grad.sign(), size, value=-1)
        previous.copy_(grad)

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        # `prev` holds the products first, then the gradients: one temporary less.
        previous, sizes = states["prev"], states["step_size"]
        mq._foreach_mul_(previous, grads)
        turned = [_scale(size, product, group) for size, product in zip(sizes, previous)]
        for member, grad, mask in zip(previous, grads, turned):
            member.copy_(grad).masked_fill_(mask, 0)
        signs = [member.sign() for member in previous]
        mq._foreach_addcmul_(params, signs, sizes, value=-1)


def _scale(size: Tensor, agreement: Tensor, group: Group) -> Tensor:
    """Shrink or grow the step sizes, in place; where the sign has turned."""
    shrink, grow = group["etas"]
    turned = agreement.lt(0)
    factor = mq.ones_like(size).masked_fill_(agreement.gt(0), grow).masked_fill_(turned, shrink)
    size.mul_(factor).clamp_(*group["step_sizes"])
    return turned


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` by lists of parameters, gradients and state, all in place."""
    group = {
        "etas": (etaminus, etaplus),
        "step_sizes": (step_size_min, step_size_max),
        "foreach": foreach,
        "capturable": capturable,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    states = {"prev": prevs, "step_size": step_sizes, "step": state_steps}
    update_collected(Rprop, params, grads, states, group)
