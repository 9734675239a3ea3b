"""Several schedulers on one optimizer: one after the other, or all together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from maquette.optim.lr_scheduler.base import LRScheduler, write_rate
from maquette.optim.lr_scheduler.plateau import ReduceLROnPlateau
from maquette.optim.optimizer import Optimizer


class _Composed(LRScheduler):
    """What both share: the check of the parts, and state dicts that hold theirs."""

    _schedulers: Sequence[LRScheduler]

    def _check_parts(self, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler, whose step takes a "
                    f"metric, but got one at index {i}."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} of another one."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the parts, their state dicts."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state, parts included."""
        rest = {name: value for name, value in state_dict.items() if name != "_schedulers"}
        super().load_state_dict(rest)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """One scheduler after the other, each from its milestone on.

    Raises ValueError unless there is one milestone less than there are schedulers.
    """

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the step that making a scheduler, by default this one, has taken."""
        at = self if sched is None else sched
        for inner in getattr(at, "_schedulers", ()):
            self.recursive_undo(inner)
        if not hasattr(at, "_schedulers") and hasattr(at, "last_epoch"):
            at.last_epoch -= 1

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self._check_parts(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got {len(schedulers)} schedulers and "
                f"{len(milestones)} milestones"
            )
        self._schedulers: list[LRScheduler] = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Making the parts has set the rates and counted an epoch in each: start anew.
        for group in optimizer.param_groups:
            write_rate(group, group["initial_lr"])
        _undo_first_step(self)
        first = self._schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]  # each part counts its own epochs
        """Step the scheduler whose turn it is; at its milestone, from its start."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo_first_step(scheduler: LRScheduler) -> None:
    if isinstance(scheduler, _Composed):
        for part in scheduler._schedulers:
            _undo_first_step(part)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Composed):
    """Several schedulers that all step each time, each from the rates the last one left."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        self._check_parts(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._present()

    def step(self) -> None:  # type: ignore[override]  # each part counts its own epochs
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._present()
