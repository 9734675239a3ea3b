"""How a step is run: what is planned beside the model and its inputs. Values, no behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from maquette import optim
from maquette.core.dtype import dtype
from maquette.nn.attention import SDPBackend
from maquette.optim import Optimizer
from maquette.plan.narrow_adam import NarrowAdam
from maquette.tensor.tensor import Tensor

OptimizerFactory = Callable[[Iterable[Tensor]], Optimizer]
Loss = Callable[[object], Tensor]

# What `plan` calls the optimizers of `optim`, and options that those need to start.
OPTIMIZER_CLASSES: dict[str, type[Optimizer]] = {
    "adadelta": optim.Adadelta,
    "adafactor": optim.Adafactor,
    "adagrad": optim.Adagrad,
    "adam": optim.Adam,
    "adam-8bit": NarrowAdam,
    "adam-bf16": NarrowAdam,
    "adamax": optim.Adamax,
    "adamw": optim.AdamW,
    "adamw-8bit": NarrowAdam,
    "adamw-bf16": NarrowAdam,
    "asgd": optim.ASGD,
    "muon": optim.Muon,
    "nadam": optim.NAdam,
    "radam": optim.RAdam,
    "rmsprop": optim.RMSprop,
    "rprop": optim.Rprop,
    "sgd": optim.SGD,
    "sgd-momentum": optim.SGD,
}
_DECOUPLED = {"decoupled": True, "weight_decay": 1e-2}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "adam-8bit": {"keep": "8bit"},
    "adam-bf16": {"keep": "bf16"},
    "adamw-8bit": {"keep": "8bit", **_DECOUPLED},
    "adamw-bf16": {"keep": "bf16", **_DECOUPLED},
    "sgd": {"lr": 1e-3},
    "sgd-momentum": {"lr": 1e-3, "momentum": 0.9},
}

BACKENDS: dict[str, SDPBackend] = {
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "math": SDPBackend.MATH,
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
    generate: tokens to generate after the prompt, in the place of one forward. chunk_loss: into how
    many chunks of rows the last linear and its ``cross_entropy`` are cut; 1 leaves them as they
    are. attention: the one kernel that ``scaled_dot_product_attention`` may take, of `BACKENDS`.
    """

    train: bool = False
    optimizer: OptimizerFactory | None = None
    loss: Loss | None = None
    autocast: dtype | None = None
    accumulate: int = 1
    steps: int = 1
    checkpoint: str = ""
    generate: int = 0
    chunk_loss: int = 1
    attention: str = ""

    def __post_init__(self) -> None:
        for name in ("accumulate", "steps", "chunk_loss"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is a number of times from 1 on, got {value!r}")
        if self.attention and self.attention not in BACKENDS:
            raise ValueError(f"attention is one of {', '.join(BACKENDS)}, got {self.attention!r}")


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
