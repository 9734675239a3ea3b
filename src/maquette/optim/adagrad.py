"""Adagrad (Duchi et al. 2011)."""

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
    sums: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)


class Adagrad(Optimizer):
    """param -= lr / (1 + (step - 1) * lr_decay) * gradient / (root of the sum of squares + eps).

    State, from the start: step and sum.
    """

    _mq_as_tensors = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        _paths.check_options("Adagrad", defaults)
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self._mq_start(parameter, group)

    def _mq_start(self, parameter: Tensor, group: Group) -> None:
        start = self.defaults["initial_accumulator_value"]
        fill = complex(start, start) if parameter.is_complex() else start
        fused = bool(group["fused"])
        if fused:
            _paths.check_fusable("Adagrad", parameter)
        state = self.state[parameter]
        state["step"] = _paths.new_step(parameter, on_device=fused)
        state["sum"] = mq.full_like(parameter, fill, memory_format=preserve_format)

    def share_memory(self) -> None:
        """Put the sums into memory that forked processes share."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _mq_update(self, group: Group) -> None:
        lists = _Lists()
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if not self.state[parameter]:
                self._mq_start(parameter, group)
            lists.params.append(parameter)
            lists.grads.append(parameter.grad)
            lists.sums.append(self.state[parameter]["sum"])
            lists.steps.append(self.state[parameter]["step"])
        _carry_out(lists, group)


def _carry_out(lists: _Lists, group: Group) -> None:
    match _paths.path_of(group, lists.params, lists.grads):
        case Path.FUSED:
            _fused(lists, group)
        case Path.LISTS:
            _as_lists(lists, group)
        case Path.SINGLE:
            _one_by_one(lists, group)


def _one_by_one(lists: _Lists, group: Group) -> None:
    lr = _paths.value(group["lr"], group)
    _paths.as_real(lists.params, lists.grads, lists.sums)
    for param, grad, total, step_count in zip(lists.params, lists.grads, lists.sums, lists.steps):
        step_count += 1
        step = _paths.value(step_count, group)
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"] != 0:
            if grad.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            grad = grad.add(param, alpha=group["weight_decay"])
        rate = lr / (1 + (step - 1) * group["lr_decay"])
        if grad.is_sparse:
            _on_rows(param, grad.coalesce(), total, group["eps"], _paths.number(rate))
            continue
        total.addcmul_(grad, grad, value=1)
        std = total.sqrt().add_(group["eps"])
        _paths.move_by_quotient(param, grad, std, -rate)


def _on_rows(param: Tensor, grad: Tensor, total: Tensor, eps: float, rate: float) -> None:
    """The step of what a sparse gradient specifies; the rest stays."""

    def made(values: Tensor) -> Tensor:
        found: Tensor = mq._sparse_coo_tensor_unsafe(
            grad._indices(), values, grad.size(), is_coalesced=True
        )
        return found

    total.add_(made(grad._values().pow(2)))
    std = total.sparse_mask(grad)._values().sqrt_().add_(eps)
    param.add_(made(grad._values() / std), alpha=-rate)


def _as_lists(lists: _Lists, group: Group) -> None:
    lr, decay = _paths.number(group["lr"]), group["weight_decay"]
    _paths.as_real(lists.params, lists.grads, lists.sums)
    for params, grads, sums, steps in grouped(lists.params, lists.grads, lists.sums, lists.steps):
        if group["maximize"]:
            grads = mq._foreach_neg(grads)
        _paths.count(steps)
        if decay != 0:
            if group["maximize"]:
                mq._foreach_add_(grads, params, alpha=decay)
            else:
                grads = mq._foreach_add(grads, params, alpha=decay)
        counts = [_paths.number(step) for step in steps]
        rates = [-lr / (1 + (step - 1) * group["lr_decay"]) for step in counts]
        mq._foreach_addcmul_(sums, grads, grads, value=1)
        std = mq._foreach_sqrt(sums)
        mq._foreach_add_(std, group["eps"])
        if decay != 0 or group["maximize"]:
            mq._foreach_mul_(grads, rates)  # temporaries already
            numerator = grads
        else:
            numerator = mq._foreach_mul(grads, rates)
        mq._foreach_addcdiv_(params, numerator, std)


def _fused(lists: _Lists, group: Group) -> None:
    for params, grads, sums, steps in grouped(lists.params, lists.grads, lists.sums, lists.steps):
        mq._foreach_add_(steps, 1)
        mq._fused_adagrad_(
            params,
            grads,
            sums,
            steps,
            lr=_paths.number(group["lr"]),
            lr_decay=group["lr_decay"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            grad_scale=None,
            found_inf=None,
        )


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` by lists of parameters, gradients and state, all in place."""
    _paths.check_unscaled(fused, grad_scale, found_inf)
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "lr_decay": lr_decay,
        "eps": eps,
        "maximize": maximize,
        "fused": fused,
        "foreach": foreach,
        "differentiable": differentiable,
    }
    _carry_out(_Lists(list(params), list(grads), list(state_sums), state_steps), group)
