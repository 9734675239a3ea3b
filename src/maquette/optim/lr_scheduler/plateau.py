"""The schedule that waits: the rate falls when a metric no longer improves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsFloat

from maquette.optim.lr_scheduler.base import (
    LRScheduler,
    check_optimizer,
    warn_epoch_given,
    write_rate,
)
from maquette.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` once the metric has not improved for more than `patience` epochs.

    mode: 'min' or 'max', what is better. threshold: what counts as better, relative ('rel') or
    absolute ('abs'). cooldown: epochs after a fall that do not count.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0; got {factor}.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! Use 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! Use 'rel' or 'abs'.")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.eps = eps
        self._set_lowest(min_lr)
        self.last_epoch = 0
        self._last_lr = self._present()
        self._reset()

    def _set_lowest(self, min_lr: float | Sequence[float]) -> None:
        groups = len(self.optimizer.param_groups)
        self.default_min_lr: float | None = None
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.min_lrs = list(min_lr)
        elif isinstance(min_lr, int | float):
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        else:
            raise TypeError(f"min_lr should be a number or a list, got {type(min_lr).__name__}")

    def _reset(self) -> None:
        """Forget the metrics seen."""
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(  # type: ignore[override]  # this one takes a metric
        self, metrics: SupportsFloat, epoch: int | None = None
    ) -> None:
        """Take the metric of an epoch, and lower the rates if it is time."""
        current = float(metrics)
        if epoch is not None:
            warn_epoch_given()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._present()

    def _reduce_lr(self, epoch: int) -> None:  # programs that simulate rates replace it
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}): set "
                    "`min_lrs` for the groups added."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                write_rate(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count at present."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a > bound if self.mode == "max" else a < bound

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state."""
        vars(self).update(state_dict)
