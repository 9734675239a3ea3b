"""`CyclicLR`: rates that rise and fall in straight lines, cycle after cycle (Smith 2015)."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

from maquette.optim.lr_scheduler.base import LRScheduler, Rates, check_optimizer
from maquette.optim.optimizer import Optimizer

PerGroup = float | Sequence[float]
Scale = Callable[[float], float]


class CyclicLR(LRScheduler):
    """From base_lr up to max_lr in step_size_up steps, and down again in step_size_down.

    mode: "triangular", "triangular2" (half as high in each cycle) or "exp_range" (gamma**step as
    high); scale_fn in its place: a function of the cycle or, scale_mode "iterations", of the step.
    cycle_momentum: momentum, or the first of betas, goes the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: PerGroup,
        max_lr: PerGroup,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Scale | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: PerGroup = 0.8,
        max_momentum: PerGroup = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                "mode is invalid and scale_fn is None: expected 'triangular', 'triangular2' or "
                f"'exp_range', got {mode!r}"
            )
        self.mode = mode
        self.gamma = gamma
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
            self._scale_fn_ref = self._function_of_mode()
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._check_momentum(optimizer)
            self.base_momentums = _per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = _per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs):
                group["lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _check_momentum(self, optimizer: Optimizer) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled; "
                "pass cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults

    # Functions under PyTorch's names: a scheduler that is pickled whole names the one it has.
    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def _function_of_mode(self) -> Scale:
        if self.mode == "exp_range":
            return functools.partial(CyclicLR._exp_range_scale_fn, self.gamma)
        halved = self.mode == "triangular2"
        return CyclicLR._triangular2_scale_fn if halved else CyclicLR._triangular_scale_fn

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, of the cycle's number (from 1) or of the step."""
        function = self._scale_fn_custom
        return self._scale_fn_ref(x) if function is None else function(x)

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`; sets the momenta."""
        self._warn_outside_step()
        progress = 1 + self.last_epoch / self.total_size
        cycle = math.floor(progress)
        within = progress - cycle
        if within <= self.step_ratio:
            height = within / self.step_ratio
        else:
            height = (within - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            self._write_momenta(height)
        return [base + (top - base) * height for base, top in zip(self.base_lrs, self.max_lrs)]

    def _write_momenta(self, height: float) -> None:
        groups = self.optimizer.param_groups
        for group, least, most in zip(groups, self.base_momentums, self.max_momentums):
            momentum = most - (most - least) * height
            if self.use_beta1:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a plain function; of a callable, what it holds."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        function = state["_scale_fn_custom"]
        if function is not None:
            plain = isinstance(function, types.FunctionType)
            state["_scale_fn_custom"] = None if plain else vars(function).copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state; the function stays, a callable object gets back what it held."""
        rest = {name: value for name, value in state_dict.items() if name != "_scale_fn_custom"}
        super().load_state_dict(rest)
        held = state_dict.get("_scale_fn_custom")
        if held is not None and self._scale_fn_custom is not None:
            vars(self._scale_fn_custom).update(held)


def _per_group(name: str, optimizer: Optimizer, value: PerGroup) -> list[float]:
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups  # type: ignore[list-item]  # no sequence, so a number
    if len(value) != groups:
        raise ValueError(f"expected {groups} values for {name}, got {len(value)}")
    return list(value)
