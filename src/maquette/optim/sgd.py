"""Stochastic gradient descent, with momentum (Sutskever et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass, field

from maquette.api import functions as mq
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
    buffers: list[Tensor | None] = field(default_factory=list)


class SGD(Optimizer):
    """param -= lr * velocity, where velocity = momentum * velocity + (1 - dampening) * gradient."""

    _mq_as_tensors = ("lr", "momentum")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        _paths.check_options("SGD", defaults)
        super().__init__(params, defaults)

    def _mq_update(self, group: Group) -> None:
        lists = _Lists()
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if group["fused"]:
                _paths.check_fusable("SGD", parameter)
            lists.params.append(parameter)
            lists.grads.append(parameter.grad)
            if _paths.is_set(group["momentum"]):
                lists.buffers.append(self.state[parameter].get("momentum_buffer"))
        _carry_out(lists, group)
        for parameter, buffer in zip(lists.params, lists.buffers):
            self.state[parameter]["momentum_buffer"] = buffer


def _carry_out(lists: _Lists, group: Group) -> None:
    match _paths.path_of(group, lists.params, lists.grads):
        case Path.FUSED:
            _fused(lists, group)
        case Path.LISTS:
            _as_lists(lists, group)
        case Path.SINGLE:
            _one_by_one(lists, group)


def _one_by_one(lists: _Lists, group: Group) -> None:
    lr, momentum = _paths.value(group["lr"], group), _paths.value(group["momentum"], group)
    for i, param in enumerate(lists.params):
        grad = -lists.grads[i] if group["maximize"] else lists.grads[i]
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        if _paths.is_set(momentum):
            buffer = lists.buffers[i]
            if buffer is None:
                # PyTorch detaches it in a differentiable step too, and loses its gradient.
                buffer = (grad if group["differentiable"] else grad.detach()).clone()
                lists.buffers[i] = buffer
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = _ahead(grad, buffer, momentum) if group["nesterov"] else buffer
        _paths.move(param, grad, -lr)


def _ahead(grad: Tensor, buffer: Tensor, momentum: float | Tensor) -> Tensor:
    """The gradient and the next step's share of the buffer."""
    if isinstance(momentum, Tensor):
        return grad + buffer * momentum
    return grad.add(buffer, alpha=momentum)


def _as_lists(lists: _Lists, group: Group) -> None:
    lr = _paths.number(group["lr"])
    momentum, decay = group["momentum"], group["weight_decay"]
    places = {id(param): i for i, param in enumerate(lists.params)}
    for params, grads, buffers in grouped(lists.params, lists.grads, lists.buffers):
        if group["maximize"]:
            grads = mq._foreach_neg(grads)
        if decay != 0:
            if group["maximize"]:
                mq._foreach_add_(grads, params, alpha=decay)
            else:
                grads = mq._foreach_add(grads, params, alpha=decay)
        if momentum != 0:
            if all(buffer is not None for buffer in buffers):
                mq._foreach_mul_(buffers, momentum)
                mq._foreach_add_(buffers, grads, alpha=1 - group["dampening"])
            else:
                for i, buffer in enumerate(buffers):
                    buffers[i] = _first_or_moved(buffer, grads[i], group)
                    lists.buffers[places[id(params[i])]] = buffers[i]
            if group["nesterov"]:
                # PyTorch adds into the gradients themselves here, unless they are temporaries.
                mq._foreach_add_(grads, buffers, alpha=momentum)
            else:
                grads = buffers
        mq._foreach_add_(params, grads, alpha=-lr)


def _first_or_moved(buffer: Tensor | None, grad: Tensor, group: Group) -> Tensor:
    if buffer is None:
        return grad.detach().clone()
    return buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])


def _fused(lists: _Lists, group: Group) -> None:
    momentum = group["momentum"]
    first = momentum != 0 and all(buffer is None for buffer in lists.buffers)
    if first:
        lists.buffers[:] = [mq.empty_like(grad) for grad in lists.grads]
    for params, grads, buffers in grouped(lists.params, lists.grads, lists.buffers):
        mq._fused_sgd_(
            params,
            grads,
            buffers,
            weight_decay=group["weight_decay"],
            momentum=momentum,
            lr=_paths.number(group["lr"]),
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            is_first_step=first,
            grad_scale=None,
            found_inf=None,
        )


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` by lists of parameters, gradients and state, all in place."""
    _paths.check_unscaled(fused, grad_scale, found_inf)
    group = {
        "differentiable": False,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "lr": lr,
        "dampening": dampening,
        "nesterov": nesterov,
        "maximize": maximize,
        "foreach": foreach,
        "fused": fused,
    }
    # A buffer that is None is made, and put in the given list.
    _carry_out(_Lists(params, d_p_list, momentum_buffer_list), group)
