"""`torch._functorch.utils`."""

from __future__ import annotations

from maquette.tensor.tensor import Tensor
from maquette.transforms.gradients import Argnums as argnums_t
from maquette.transforms.inspection import enable_single_level_autograd_function, unwrap_if_dead


def unwrap_dead_wrappers(args: tuple[object, ...]) -> tuple[object, ...]:
    """Arguments with what tensors of levels that are over stand for."""
    return tuple([unwrap_if_dead(a) if isinstance(a, Tensor) else a for a in args])


__all__ = ["argnums_t", "enable_single_level_autograd_function", "unwrap_dead_wrappers"]
