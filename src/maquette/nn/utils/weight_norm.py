"""The older weight normalization: a hook computes the weight before each forward.

New programs take `parametrizations.weight_norm`.
"""

from __future__ import annotations

import warnings
from typing import TypeVar

from maquette.nn.base import Module
from maquette.nn.lazy_parameter import is_lazy
from maquette.nn.parameter import Parameter
from maquette.nn.utils.norms import norm_except_dim, weight_normed
from maquette.tensor.tensor import Tensor

T = TypeVar("T", bound=Module)


class WeightNorm:
    """The hook: ``<name>`` from ``<name>_g`` and ``<name>_v``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight of the present length and direction."""
        length = getattr(module, f"{self.name}_g")
        direction = getattr(module, f"{self.name}_v")
        return weight_normed(direction, length, self.dim)

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self.name, self.compute_weight(module))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Norm a weight of the module: RuntimeError if it is already; the hook that does it."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. "
                "Run forward once before you apply it"
            )
        del module._parameters[name]
        lengths = norm_except_dim(weight, made.dim).detach()
        module.register_parameter(f"{name}_g", Parameter(lengths))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        made(module, None)
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter of its present value; the hook stays registered."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        module.register_parameter(self.name, Parameter(weight.detach()))


def weight_norm(module: T, name: str = "weight", dim: int | None = 0) -> T:
    """Train ``<name>_g``, the length along `dim`, and ``<name>_v``, the direction, of a weight.

    The former way of `parametrizations.weight_norm`: FutureWarning.
    """
    warnings.warn(
        "torch.nn.utils.weight_norm is deprecated: call parametrizations.weight_norm",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: T, name: str = "weight") -> T:
    """Make the weight a parameter again, of its present value; ValueError if it is normed not."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            module._mq_hook_table().remove(key)
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
