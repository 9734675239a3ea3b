"""Schedules given by a user's function of the epoch."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from maquette.optim.lr_scheduler.base import LRScheduler, Rates
from maquette.optim.optimizer import Optimizer

Function = Callable[[int], float]


class _ByFunction(LRScheduler):
    """lr_lambda: one function for all groups, or one for each; else ValueError."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Function | Sequence[Function],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            self.lr_lambdas: list[Any] = [lr_lambda] * groups
        elif len(lr_lambda) == groups:
            self.lr_lambdas = list(lr_lambda)
        else:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions; of callable objects, what they hold."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else vars(function).copy()
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state; the functions stay, callable objects get back what they held."""
        rest = {name: value for name, value in state_dict.items() if name != "lr_lambdas"}
        super().load_state_dict(rest)
        for function, held in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if held is not None:
                vars(function).update(held)


class LambdaLR(_ByFunction):
    """The initial rate times a function of the epoch."""

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`."""
        self._warn_outside_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs)
        ]


class MultiplicativeLR(_ByFunction):
    """The rate of the last epoch times a function of the present one."""

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`, from those of the epoch before."""
        self._warn_outside_step()
        if self._is_initial:
            return self._present()
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups)
        ]
