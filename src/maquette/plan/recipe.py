"""How a step is run: what is planned beside the model and its inputs. Values, no behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from maquette import optim
from maquette.core.dtype import dtype
from maquette.optim import Optimizer
from maquette.tensor.tensor import Tensor

OptimizerFactory = Callable[[Iterable[Tensor]], Optimizer]
Loss = Callable[[object], Tensor]

# What `plan` calls the optimizers of `optim`, and options that those need to start.
OPTIMIZER_CLASSES: dict[str, type[Optimizer]] = {
    "adadelta": optim.Adadelta,
    "adafactor": optim.Adafactor,
    "adagrad": optim.Adagrad,
    "adam": optim.Adam,
    "adamax": optim.Adamax,
    "adamw": optim.AdamW,
    "asgd": optim.ASGD,
    "muon": optim.Muon,
    "nadam": optim.NAdam,
    "radam": optim.RAdam,
    "rmsprop": optim.RMSprop,
    "rprop": optim.Rprop,
    "sgd": optim.SGD,
    "sgd-momentum": optim.SGD,
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 1e-3},
    "sgd-momentum": {"lr": 1e-3, "momentum": 0.9},
}


@dataclass(frozen=True)
class Recipe:
    """How a step is run.

    train: forward and backward, else forward without grad. optimizer: makes the optimizer from the
    parameters; without one there is no step. loss: the scalar of an output; by default the output
    if it is one, its ``.loss``, or the mean of its first floating tensor. autocast: the dtype of a
    region of mixed precision around each forward. accumulate: forwards and backwards a step. steps:
    how many steps, so that the first and a steady one can be told apart. checkpoint: modules whose
    path matches this pattern, such as ``blocks.*``, keep nothing for backward but are run again.
    generate: tokens to generate after the prompt, in the place of one forward.
    """

    train: bool = False
    optimizer: OptimizerFactory | None = None
    loss: Loss | None = None
    autocast: dtype | None = None
    accumulate: int = 1
    steps: int = 1
    checkpoint: str = ""
    generate: int = 0

    def __post_init__(self) -> None:
        for name in ("accumulate", "steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is a number of times from 1 on, got {value!r}")


def optimizer_factory(
    optimizer: str | OptimizerFactory | None, options: Mapping[str, Any] | None = None
) -> OptimizerFactory | None:
    """The function of parameters that an optimizer's name stands for, with its options.

    Raises ValueError for a name that is not in `OPTIMIZER_CLASSES`.
    """
    if not isinstance(optimizer, str):
        return optimizer
    made = OPTIMIZER_CLASSES.get(optimizer)
    if made is None:
        raise ValueError(
            f"unknown optimizer '{optimizer}': expected one of {', '.join(OPTIMIZER_CLASSES)}, or "
            f"a function of the parameters"
        )
    given = {**_DEFAULTS.get(optimizer, {}), **(options or {})}
    return lambda params: made(params, **given)
