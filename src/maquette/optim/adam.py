"""Adam (Kingma and Ba 2014) and its variant AMSGrad (Reddi et al. 2018); AdamW is `adamw.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maquette.api import functions as mq
from maquette.aten.elementwise.optimizer_steps import ADAM_OPERATORS, adam_steps
from maquette.core.layout import preserve_format
from maquette.library.arrays import run_as_on_page
from maquette.nn.utils.foreach import grouped
from maquette.optim import _paths
from maquette.optim._paths import Group, Path
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor

Betas = tuple[float | Tensor, float | Tensor]


@dataclass
class _Lists:
    """The parameters of a group that have a gradient, and what belongs to each."""

    params: list[Tensor] = field(default_factory=list)
    grads: list[Tensor] = field(default_factory=list)
    exp_avgs: list[Tensor] = field(default_factory=list)
    exp_avg_sqs: list[Tensor] = field(default_factory=list)
    max_exp_avg_sqs: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)


class Adam(Optimizer):
    """Steps by the mean of gradients over the root of the mean of their squares.

    decoupled_weight_decay: shrink the parameters themselves (AdamW) in place of adding them to the
    gradient. State: step (0-dim, on the cpu), exp_avg, exp_avg_sq and, with amsgrad,
    max_exp_avg_sq.
    """

    _mq_as_tensors = ("lr", "betas")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(epsilon=eps, weight_decay=weight_decay)
        decays = _decays(betas)
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor) and foreach and not capturable:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
        defaults = {
            "lr": lr,
            "betas": decays,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        _paths.check_options(type(self).__name__, defaults)
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # of checkpoints older than the option
            group.setdefault("decoupled_weight_decay", False)

    def _mq_update(self, group: Group) -> None:
        _carry_out(self._mq_lists(group), group)

    def _mq_lists(self, group: Group) -> _Lists:
        lists = _Lists()
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            _paths.check_dense("Adam", parameter.grad)
            state = self.state[parameter]
            if not state:
                self._mq_start(parameter, state, group)
            lists.params.append(parameter)
            lists.grads.append(parameter.grad)
            lists.exp_avgs.append(state["exp_avg"])
            lists.exp_avg_sqs.append(state["exp_avg_sq"])
            if group["amsgrad"]:
                lists.max_exp_avg_sqs.append(state["max_exp_avg_sq"])
            lists.steps.append(state["step"])
        return lists

    def _mq_start(self, parameter: Tensor, state: dict[str, Tensor], group: Group) -> None:
        fused = bool(group["fused"])
        if fused:
            _paths.check_fusable(type(self).__name__, parameter)
        on_device = _paths.counts_on_device(parameter, self.defaults) or fused
        state["step"] = _paths.new_step(parameter, on_device=on_device)
        for name in ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] * group["amsgrad"])):
            state[name] = mq.zeros_like(parameter, memory_format=preserve_format)


def _decays(betas: Betas) -> tuple[float, float]:
    """Both as numbers; as in PyTorch an int does not stand for a float."""
    first, second = betas[0], betas[1]
    if {isinstance(first, Tensor), isinstance(second, Tensor)} != {True}:
        if not (isinstance(first, float) and isinstance(second, float)):
            raise ValueError(
                "betas must be either both floats or both Tensors; got "
                f"{type(first).__name__} and {type(second).__name__}"
            )
    for i, beta in enumerate((first, second)):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element; got {beta.numel()} elements")
    return _paths.check_betas(betas)


def _carry_out(lists: _Lists, group: Group) -> None:
    path = _paths.path_of(group, lists.params)
    if path is Path.LISTS and isinstance(group["lr"], Tensor) and not group["foreach"]:
        path = Path.SINGLE  # lists are not the default for a rate in a tensor
    match path:
        case Path.FUSED:
            _fused(lists, group)
        case Path.LISTS:
            _as_lists(lists, group)
        case Path.SINGLE if _unwatched(lists, group):
            _in_one_pass(lists, group)
        case Path.SINGLE:
            _one_by_one(lists, group)


def _one_by_one(lists: _Lists, group: Group) -> None:
    lr = _paths.value(group["lr"], group)
    beta1, beta2 = group["betas"]
    decay = group["weight_decay"]
    _paths.as_real(
        lists.params, lists.grads, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs
    )
    for i, param in enumerate(lists.params):
        grad = -lists.grads[i] if group["maximize"] else lists.grads[i]
        exp_avg, exp_avg_sq, step_count = lists.exp_avgs[i], lists.exp_avg_sqs[i], lists.steps[i]
        step_count += 1
        if decay != 0:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - lr * decay)
            else:
                grad = grad.add(param, alpha=decay)
        _paths.blend(exp_avg, grad, 1 - beta1)
        _paths.average_squares(exp_avg_sq, grad, beta2)
        step = _paths.value(step_count, group)
        bias_correction1 = 1 - beta1**step
        bias_correction2 = 1 - beta2**step
        root = bias_correction2**0.5
        if group["amsgrad"]:
            largest = lists.max_exp_avg_sqs[i]
            _paths.write_larger(largest, exp_avg_sq, group)
            denom = (largest.sqrt() / root).add_(group["eps"])
        else:
            denom = (exp_avg_sq.sqrt() / root).add_(group["eps"])
        _paths.move_by_quotient(param, exp_avg, denom, -(lr / bias_correction1))


def _unwatched(lists: _Lists, group: Group) -> bool:
    """Whether nobody sees the operators of the steps, and one operator knows what they do."""
    if any(group[name] for name in ("amsgrad", "maximize", "capturable", "differentiable")):
        return False
    if any(isinstance(beta, Tensor) for beta in group["betas"]):
        return False
    tensors = [*lists.params, *lists.grads, *lists.exp_avgs, *lists.exp_avg_sqs]
    kinds = {t.meta.dtype for t in tensors}
    return len(kinds) == 1 and run_as_on_page(tensors, ADAM_OPERATORS)


def _in_one_pass(lists: _Lists, group: Group) -> None:
    """`_one_by_one`, to the same bits: 8.5 to 2.8 ms of a GPT's 800,000 parameters."""
    lr = _paths.number(group["lr"])
    beta1, beta2 = group["betas"]
    decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
    for step in lists.steps:
        step += 1
    counts = [_paths.number(step) for step in lists.steps]
    adam_steps(
        lists.params,
        lists.grads,
        lists.exp_avgs,
        lists.exp_avg_sqs,
        [-(lr / (1 - beta1**count)) for count in counts],
        [(1 - beta2**count) ** 0.5 for count in counts],
        beta1=beta1,
        beta2=beta2,
        eps=group["eps"],
        shrink=1 - lr * decay if decoupled else 1.0,
        decay=0.0 if decoupled else decay,
    )


def _as_lists(lists: _Lists, group: Group) -> None:
    lr = _paths.number(group["lr"])
    beta1, beta2 = group["betas"]
    decay = group["weight_decay"]
    _paths.as_real(
        lists.params, lists.grads, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs
    )
    for params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps in grouped(
        lists.params,
        lists.grads,
        lists.exp_avgs,
        lists.exp_avg_sqs,
        lists.max_exp_avg_sqs,
        lists.steps,
    ):
        if group["maximize"]:
            grads = mq._foreach_neg(grads)
        _paths.count(steps)
        if decay != 0:
            if group["decoupled_weight_decay"]:
                mq._foreach_mul_(params, 1 - lr * decay)
            elif group["maximize"]:
                mq._foreach_add_(grads, params, alpha=decay)
            else:
                grads = mq._foreach_add(grads, params, alpha=decay)
        mq._foreach_lerp_(exp_avgs, grads, 1 - beta1)
        mq._foreach_mul_(exp_avg_sqs, beta2)
        mq._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - beta2)
        del grads  # they may be temporaries as large as the model

        counts = [_paths.number(step) for step in steps]
        step_sizes = [-(lr / (1 - beta1**step)) for step in counts]
        roots = [(1 - beta2**step) ** 0.5 for step in counts]
        if group["amsgrad"]:
            mq._foreach_maximum_(max_exp_avg_sqs, exp_avg_sqs)
            denoms = mq._foreach_sqrt(max_exp_avg_sqs)
        else:
            denoms = mq._foreach_sqrt(exp_avg_sqs)
        mq._foreach_div_(denoms, roots)
        mq._foreach_add_(denoms, group["eps"])
        mq._foreach_addcdiv_(params, exp_avgs, denoms, step_sizes)


def _fused(lists: _Lists, group: Group) -> None:
    beta1, beta2 = group["betas"]
    update = mq._fused_adamw_ if group["decoupled_weight_decay"] else mq._fused_adam_
    for params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps in grouped(
        lists.params,
        lists.grads,
        lists.exp_avgs,
        lists.exp_avg_sqs,
        lists.max_exp_avg_sqs,
        lists.steps,
    ):
        mq._foreach_add_(steps, 1)
        update(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            max_exp_avg_sqs,
            steps,
            lr=_paths.number(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=group["amsgrad"],
            maximize=group["maximize"],
            grad_scale=None,
            found_inf=None,
        )


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adam` by lists of parameters, gradients and state, all in place."""
    _paths.check_unscaled(fused, grad_scale, found_inf)
    group = {
        "betas": (beta1, beta2),
        "amsgrad": amsgrad,
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "foreach": foreach,
        "capturable": capturable,
        "differentiable": differentiable,
        "fused": fused,
        "decoupled_weight_decay": decoupled_weight_decay,
    }
    lists = [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps]
    _carry_out(_Lists(*map(list, lists)), group)
