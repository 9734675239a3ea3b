"""The base of schedulers: when a rate is computed, and where it is written.

A scheduler computes rates in `get_lr`, from the present rates where it can: so several may act on
one optimizer. `_get_closed_form_lr`, where there is one, gives them for any epoch. A group's
`initial_lr` is its rate before any scheduler.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maquette.optim.optimizer import Optimizer
from maquette.tensor import Tensor

Rates = list[Any]  # numbers or tensors; arithmetic with floats gives the same kind again


_DETAILS = (
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


@contextmanager
def _enable_get_lr_call(o: LRScheduler) -> Iterator[LRScheduler]:
    """In the block, `get_lr` is called by a step, and so does not warn."""
    o._get_lr_called_within_step = True
    try:
        yield o
    finally:
        o._get_lr_called_within_step = False


class LRScheduler:
    """Sets the learning rates of an optimizer, epoch by epoch; `step()` after each.

    last_epoch: -1 to start anew; otherwise groups must hold "initial_lr", else KeyError.
    """

    _is_initial = False
    _get_lr_called_within_step = False
    _last_lr: Rates

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state first, or start "
                    "with last_epoch=-1."
                )
        self.base_lrs: Rates = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        vars(optimizer).setdefault("_opt_called", False)
        vars(optimizer).setdefault("_step_at_first", vars(optimizer).get("step"))
        self._initial_step()

    def _initial_step(self) -> None:
        """Write the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def step(self, epoch: int | None = None) -> None:
        """Write the rates of the next epoch; giving one is deprecated."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warn_epoch_given()
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        known = vars(self.optimizer)
        if known.get("step") is not known.get("_step_at_first"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                f"initialization. Call it before `lr_scheduler.step()`. {_DETAILS}",
                stacklevel=3,
            )
        elif not known.get("_opt_called"):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first "
                f"value of the schedule is skipped. Call `optimizer.step()` first. {_DETAILS}",
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        closed_form = getattr(self, "_get_closed_form_lr", None)
        with _enable_get_lr_call(self):
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            if epoch is not None and closed_form is not None:
                rates = closed_form()
            else:
                rates = self.get_lr()
        self._write(rates)

    def _write(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            write_rate(group, rate)
        self._last_lr = self._present()

    def _present(self) -> Rates:
        """The rates that the optimizer has now."""
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`; to be overridden, and called by `step` only."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def get_last_lr(self) -> Rates:
        """The rates written last."""
        return self._last_lr

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state."""
        vars(self).update(state_dict)


def check_optimizer(optimizer: object) -> None:
    """TypeError unless it is one."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(value: Any) -> Any:
    """A rate that does not change when the group's does."""
    return value.clone() if isinstance(value, Tensor) else value


def write_rate(group: dict[str, Any], rate: Any) -> None:
    """Set a group's rate; a tensor keeps its identity, for kernels that read it."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated. Please "
    "use `scheduler.step()` to step the scheduler."
)


def warn_epoch_given() -> None:
    """The warning of schedulers that are given an epoch."""
    warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=3)
