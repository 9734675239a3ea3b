"""The common course of a step for optimizers whose update needs little besides formulas.

`Collecting` gathers a group's parameters that have gradients, starts their state, counts the step
and calls one of two methods: `_mq_one`, a parameter at a time, or `_mq_lists`, all of one device
and dtype at once (see `_paths.py`). SGD, Adam, RMSprop and Adagrad, which also have fused
operators, do without it.
"""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.nn.utils.foreach import grouped
from maquette.optim import _paths
from maquette.optim._paths import Group, Path
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor

Lists = dict[str, list[Tensor]]  # by the name in a parameter's state, "step" among them


class Collecting(Optimizer):
    """An optimizer that defines `_mq_start`, `_mq_one` and `_mq_lists`."""

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        _paths.check_options(type(self).__name__, defaults)
        super().__init__(params, defaults)

    def _mq_begin(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        """Put a new parameter's whole state in `state`."""
        state["step"] = _paths.new_step(
            param, on_device=_paths.counts_on_device(param, self.defaults)
        )
        self._mq_start(param, state, group)

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        """Put a new parameter's state, but for the step, in `state`, always in the same order."""
        raise NotImplementedError

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        """Update one parameter and its state; the step is counted, `maximize` done."""
        raise NotImplementedError

    def _mq_lists(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        """Update many at once; `grads` are temporaries if `group["maximize"]`."""
        raise NotImplementedError

    def _mq_update(self, group: Group) -> None:
        self._carry_out(*self._gathered(group), group)

    def _carry_out(
        self, params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
    ) -> None:
        if not params:
            return
        path = _paths.path_of(group, params)
        _paths.as_real(params, grads, *(members for n, members in states.items() if n != "step"))
        if path is Path.SINGLE:
            for i, (param, grad) in enumerate(zip(params, grads)):
                state = {name: members[i] for name, members in states.items()}
                state["step"] += 1
                self._mq_one(param, -grad if group["maximize"] else grad, state, group)
            return
        for some, their_grads, *members in grouped(params, grads, *states.values()):
            if group["maximize"]:
                their_grads = mq._foreach_neg(their_grads)
            theirs = dict(zip(states, members))
            _paths.count(theirs["step"])
            self._mq_lists(some, their_grads, theirs, group)

    def _gathered(self, group: Group) -> tuple[list[Tensor], list[Tensor], Lists]:
        params: list[Tensor] = []
        grads: list[Tensor] = []
        states: Lists = {}
        for param in group["params"]:
            if param.grad is None:
                continue
            _paths.check_dense(type(self).__name__, param.grad)
            state = self.state[param]
            if not state:
                self._mq_begin(param, state, group)
            params.append(param)
            grads.append(param.grad)
            for name, value in state.items():
                states.setdefault(name, []).append(value)
        return params, grads, states


def update_collected(
    cls: type[Collecting], params: list[Tensor], grads: list[Tensor], states: Lists, group: Group
) -> None:
    """The step of a class on given lists; the lists themselves are left as they are."""
    copies = {name: list(members) for name, members in states.items()}
    # An object without parameters of its own: a step reads nothing of it.
    cls.__new__(cls)._carry_out(list(params), list(grads), copies, group)


def decayed(grad: Tensor, param: Tensor, group: Group) -> Tensor:
    """The gradient with weight decay in it; itself if there is none."""
    decay = group["weight_decay"]
    return grad.add(param, alpha=decay) if decay != 0 else grad


def decayed_lists(grads: list[Tensor], params: list[Tensor], group: Group) -> list[Tensor]:
    """`decayed` of lists; in place where the gradients are temporaries already."""
    decay = group["weight_decay"]
    if decay == 0:
        return grads
    if group["maximize"]:
        mq._foreach_add_(grads, params, alpha=decay)
        return grads
    return mq._foreach_add(grads, params, alpha=decay)


def zeros(param: Tensor) -> Tensor:
    """Zeros as the parameter is laid out."""
    return mq.zeros_like(param)


def numbers(steps: list[Tensor]) -> list[float]:
    """The counters' values."""
    return [_paths.number(step) for step in steps]
