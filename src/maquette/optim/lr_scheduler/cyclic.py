"""Schedules that go up and down again: warm restarts, and one cycle."""

from __future__ import annotations

import math
from typing import Any, TypedDict

from maquette.optim.lr_scheduler.base import (
    LRScheduler,
    Rates,
    _enable_get_lr_call,
    check_optimizer,
)
from maquette.optim.optimizer import Optimizer


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the initial rate to eta_min, the first over T_0 epochs.

    Each is T_mult times as long as the one before (Loshchilov and Hutter 2016).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`."""
        self._warn_outside_step()
        wave = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * wave / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Write the rates of the next epoch, or of any, fractions included."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._seek(epoch)
        self.last_epoch = math.floor(epoch)
        with _enable_get_lr_call(self):
            rates = self.get_lr()
        self._write(rates)

    def _seek(self, epoch: float) -> None:
        """Find the cycle that an epoch lies in."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            start = self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
            self.T_cur = epoch - start
            self.T_i = self.T_0 * self.T_mult**cycle


class _Phase(TypedDict):
    """A stretch of a cycle: its last step, and the group entries it leads from and to.

    A plain dict, because it stands in the state dict, which any reader loads.
    """

    end_step: float
    start_lr: str
    end_lr: str
    start_momentum: str
    end_momentum: str


class OneCycleLR(LRScheduler):
    """Up to max_lr and down far below the start, momentum the other way (Smith and Topin 2017).

    The length is total_steps, or epochs * steps_per_epoch. The start is max_lr / div_factor, the
    end that over final_div_factor. three_phase: back to the start first, then down.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.optimizer = optimizer
        self.total_steps = _cycle_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase=three_phase)
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        highest = _per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._set_momenta(base_momentum, max_momentum, first=last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _set_momenta(
        self, base: float | list[float], highest: float | list[float], *, first: bool
    ) -> None:
        optimizer = self.optimizer
        self.use_beta1 = "betas" in optimizer.defaults
        if not self.use_beta1 and "momentum" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        highs = _per_group("max_momentum", optimizer, highest)
        lows = _per_group("base_momentum", optimizer, base)
        if not first:
            return
        for group, high, low in zip(optimizer.param_groups, highs, lows):
            self._write_momentum(group, high)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def _write_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`; writes the momenta. ValueError beyond the cycle."""
        self._warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        phase, done = self._phase()
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                start, end = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._write_momentum(group, self._anneal(start, end, done))
        return rates

    def _phase(self) -> tuple[_Phase, float]:
        """The phase that `last_epoch` lies in, and the fraction of it that is done."""
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if self.last_epoch <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        return phase, (self.last_epoch - start) / (phase["end_step"] - start)

    def _anneal(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _cycle_steps(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    given = {"total_steps": total, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if total is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name in ("total_steps",) if total is not None else ("epochs", "steps_per_epoch"):
        value = given[name]
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return total if total is not None else (epochs or 0) * (steps_per_epoch or 0)


def _phases(total_steps: int, pct_start: float, *, three_phase: bool) -> list[_Phase]:
    highest = float(pct_start * total_steps) - 1
    up = _phase(highest, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    last = total_steps - 1
    if not three_phase:
        return [up, _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    back = float(2 * pct_start * total_steps) - 2
    return [
        up,
        _phase(back, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]


def _phase(
    end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str
) -> _Phase:
    return {
        "end_step": end,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def _per_group(name: str, optimizer: Optimizer, value: float | list[float]) -> list[float]:
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups: {name} has "
            f"{len(value)} values, param_groups has {groups}."
        )
    return list(value)
