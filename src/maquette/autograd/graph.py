"""`torch.autograd.graph`: nodes, edges, hooks on them and on what they save."""

from contextlib import AbstractContextManager, nullcontext

from maquette.autograd.gradient_edges import (
    GradientEdge,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
)
from maquette.autograd.node import Node
from maquette.autograd.saved.hooks import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from maquette.autograd.saved.mutation import allow_mutation_on_saved_tensors


def region_activation_memory_budget(budget: float) -> AbstractContextManager[None]:
    """Nothing for the block: what is saved is what formulas need, and no compiler chooses."""
    return nullcontext()


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Nothing: there are no streams."""


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Nothing: there are no streams."""


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]
