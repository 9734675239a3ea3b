"""RMSprop (Hinton's lecture, 2012), centered as in Graves 2013, with momentum."""

from __future__ import annotations

from dataclasses import dataclass, field

from maquette.api import functions as mq
from maquette.core.layout import preserve_format
from maquette.nn.utils.foreach import grouped
from maquette.optim import _paths
from maquette.optim._paths import Group, Path
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor


@dataclass
class _Lists:
    """The parameters of a group that have a gradient, and what belongs to each."""

    params: list[Tensor] = field(default_factory=list)
    grads: list[Tensor] = field(default_factory=list)
    square_avgs: list[Tensor] = field(default_factory=list)
    grad_avgs: list[Tensor] = field(default_factory=list)
    buffers: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)


class RMSprop(Optimizer):
    """param -= lr * gradient / (root of the mean of its squares + eps).

    State: step, square_avg, momentum_buffer (with momentum), grad_avg (centered).
    """

    _mq_as_tensors = ("lr", "momentum")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(
            epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        _paths.check_options("RMSprop", defaults)
        super().__init__(params, defaults)

    def _mq_update(self, group: Group) -> None:
        _carry_out(self._mq_lists(group), group)

    def _mq_lists(self, group: Group) -> _Lists:
        lists = _Lists()
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            _paths.check_dense("RMSprop", parameter.grad)
            state = self.state[parameter]
            if not state:
                self._mq_start(parameter, state, group)
            lists.params.append(parameter)
            lists.grads.append(parameter.grad)
            lists.square_avgs.append(state["square_avg"])
            lists.steps.append(state["step"])
            if _paths.is_set(group["momentum"]):
                lists.buffers.append(state["momentum_buffer"])
            if group["centered"]:
                lists.grad_avgs.append(state["grad_avg"])
        return lists

    def _mq_start(self, parameter: Tensor, state: dict[str, Tensor], group: Group) -> None:
        on_device = _paths.counts_on_device(parameter, self.defaults)
        state["step"] = _paths.new_step(parameter, on_device=on_device)
        state["square_avg"] = mq.zeros_like(parameter, memory_format=preserve_format)
        if _paths.is_set(group["momentum"]):
            state["momentum_buffer"] = mq.zeros_like(parameter, memory_format=preserve_format)
        if group["centered"]:
            state["grad_avg"] = mq.zeros_like(parameter, memory_format=preserve_format)


def _carry_out(lists: _Lists, group: Group) -> None:
    if _paths.path_of(group, lists.params) is Path.LISTS:
        _as_lists(lists, group)
    else:
        _one_by_one(lists, group)


def _one_by_one(lists: _Lists, group: Group) -> None:
    lr, alpha, momentum = _paths.value(group["lr"], group), group["alpha"], group["momentum"]
    _paths.as_real(lists.params, lists.grads, lists.square_avgs, lists.grad_avgs, lists.buffers)
    for i, param in enumerate(lists.params):
        step = lists.steps[i]
        grad = -lists.grads[i] if group["maximize"] else lists.grads[i]
        square_avg = lists.square_avgs[i]
        step += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            grad_avg = lists.grad_avgs[i]
            grad_avg.lerp_(grad, 1 - alpha)
            avg = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt_()
        else:
            avg = square_avg.sqrt()
        avg = avg.add_(group["eps"])
        if _paths.is_set(momentum):
            buffer = lists.buffers[i]
            buffer.mul_(momentum).addcdiv_(grad, avg)
            _paths.move(param, buffer, -lr)
        else:
            _paths.move_by_quotient(param, grad, avg, -lr)


def _as_lists(lists: _Lists, group: Group) -> None:
    lr, alpha, momentum = _paths.number(group["lr"]), group["alpha"], group["momentum"]
    decay = group["weight_decay"]
    _paths.as_real(lists.params, lists.grads, lists.square_avgs, lists.grad_avgs, lists.buffers)
    for params, grads, square_avgs, grad_avgs, buffers, steps in grouped(
        lists.params,
        lists.grads,
        lists.square_avgs,
        lists.grad_avgs,
        lists.buffers,
        lists.steps,
    ):
        if group["maximize"]:
            grads = mq._foreach_neg(grads)
        _paths.count(steps)
        if decay != 0:
            if group["maximize"]:
                mq._foreach_add_(grads, params, alpha=decay)
            else:
                grads = mq._foreach_add(grads, params, alpha=decay)
        mq._foreach_mul_(square_avgs, alpha)
        mq._foreach_addcmul_(square_avgs, grads, grads, value=1 - alpha)
        if group["centered"]:
            mq._foreach_lerp_(grad_avgs, grads, 1 - alpha)
            avg = mq._foreach_addcmul(square_avgs, grad_avgs, grad_avgs, value=-1)
            mq._foreach_sqrt_(avg)
        else:
            avg = mq._foreach_sqrt(square_avgs)
        mq._foreach_add_(avg, group["eps"])
        if momentum > 0:
            mq._foreach_mul_(buffers, momentum)
            mq._foreach_addcdiv_(buffers, grads, avg)
            mq._foreach_add_(params, buffers, alpha=-lr)
        else:
            mq._foreach_addcdiv_(params, grads, avg, value=-lr)


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` by lists of parameters, gradients and state, all in place."""
    group = {
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
    }
    lists = [params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps]
    _carry_out(_Lists(*map(list, lists)), group)
