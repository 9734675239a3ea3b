"""Averages of a model's parameters over training: stochastic weight averaging, moving averages.

`AveragedModel` keeps the average, `SWALR` the rate it is taken at, `update_bn` renews the
statistics of batch normalization that averaging makes stale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core import dtype as dtypes
from maquette.core.device import device as device_
from maquette.nn.base import Module
from maquette.nn.modules.batchnorm import _BatchNorm
from maquette.nn.utils.foreach import grouped
from maquette.optim.lr_scheduler.base import LRScheduler, Rates
from maquette.optim.optimizer import Optimizer
from maquette.optim.own_steps import (
    group_tensors as _group_tensors_by_device_and_dtype,  # noqa: F401  # which libraries import
)
from maquette.tensor import Tensor

Averaged = int | Tensor
# From the average, a new value and how many are in the average to the next average.
Average = Callable[[Tensor, Tensor, Averaged], Tensor]
# The same of lists, in place.
AverageLists = Callable[[list[Tensor], list[Tensor], Averaged], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay * average + (1 - decay) * value."""
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Averaged) -> Tensor:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageLists:
    """`get_ema_avg_fn` of lists, in place."""
    _check_decay(decay)

    def ema_update(
        ema_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Averaged
    ) -> None:
        with no_grad():
            if _can_lerp(ema_param_list):
                mq._foreach_lerp_(ema_param_list, current_param_list, 1 - decay)
                return
            for average, value in zip(ema_param_list, current_param_list):
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_avg_fn() -> Average:
    """average + (value - average) / (n + 1): the mean of all values."""

    def swa_update(averaged: Tensor, current: Tensor, num_averaged: Averaged) -> Tensor:
        with no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> AverageLists:
    """`get_swa_avg_fn` of lists, in place."""

    def swa_update(
        averaged_list: list[Tensor], current_list: list[Tensor], num_averaged: Averaged
    ) -> None:
        with no_grad():
            for average, value in zip(averaged_list, current_list):
                average.add_((value - average) / (num_averaged + 1))

    return swa_update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay}: expected one from 0 to 1")


def _can_lerp(tensors: list[Tensor]) -> bool:
    return tensors[0].is_floating_point() or tensors[0].is_complex()


class AveragedModel(Module):
    """A copy of `model`, as `.module`, whose parameters are the average of the model's.

    avg_fn: the next average of one parameter; multi_avg_fn: of lists, in place; by default the mean
    of all values. use_buffers: average the buffers too; otherwise they are copied. Its own buffer
    `n_averaged` counts the updates.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: device_ | str | int | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageLists | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", mq.tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's forward."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the average."""
        averages, values = self._averaged(self.module), self._averaged(model)
        pairs = [
            (average.detach(), value.detach().to(average.device))
            for average, value in zip(averages, values)
        ]
        if int(self.n_averaged) == 0:
            for average, value in pairs:
                average.copy_(value)
        else:
            self._average(pairs)
        if not self.use_buffers:
            for own, new in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(new.detach().to(own.device))
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        return chain(model.parameters(), model.buffers() if self.use_buffers else ())

    def _average(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        if self.avg_fn is not None:
            for average, value in pairs:
                count = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average, value, count))
            return
        update = self.multi_avg_fn or get_swa_multi_avg_fn()
        averages = [average for average, _ in pairs]
        for some, values in grouped(averages, [value for _, value in pairs]):
            if self.multi_avg_fn is None and not _can_lerp(some):
                continue  # the mean of counters means nothing
            update(some, values, self.n_averaged.to(some[0].device))


def update_bn(
    loader: Iterable[Any], model: Module, device: device_ | str | int | None = None
) -> None:
    """Compute the running statistics of all batch normalizations anew, from a pass over `loader`.

    Batches are inputs, or lists and tuples that begin with them. The mode of the model stays.
    """
    momenta: dict[_BatchNorm, float | None] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # the mean over all batches
    with no_grad():
        for batch in loader:
            input = batch[0] if isinstance(batch, list | tuple) else batch
            model(input if device is None else input.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the present rates to swa_lr in anneal_epochs, and constant after.

    anneal_strategy: "cos" or "linear"; swa_lr: one, or one for each group.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, list | tuple) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                f"swa_lr must have {len(groups)} values, one for each group; got {len(rates)}"
            )
        for group, rate in zip(groups, rates):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self._set_anneal_func()
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    # Functions under PyTorch's names: a scheduler that is pickled whole names the one it has.
    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def _set_anneal_func(self) -> None:
        linear = self._anneal_strategy == "linear"
        self.anneal_func = SWALR._linear_anneal if linear else SWALR._cosine_anneal

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the function, which the strategy tells."""
        state = super().state_dict()
        del state["anneal_func"]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state, its strategy too."""
        super().load_state_dict(state_dict)
        self._set_anneal_func()

    def get_lr(self) -> Rates:
        """The rates of `last_epoch`, from the present ones."""
        self._warn_outside_step()
        step = self._step_count - 1
        length = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / length)))
        now = self.anneal_func(max(0, min(1, step / length)))
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            # The rate at the start, as the present one and its share of the way tell.
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
