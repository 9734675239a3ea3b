"""`torch.func`: function transforms, and modules as functions of their state."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.nn.base import Module
from maquette.nn.utils.stateless_calls import functional_call
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward
from maquette.torch.func.rearranging import rearrange
from maquette.transforms import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of like modules, each stacked along a new first dimension.

    Raises RuntimeError unless all are of one class and one mode, and parameters of a name all
    require grad or none does.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class; got "
            f"{sorted({type(model).__name__ for model in models})}"
        )
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    stacked = {}
    for name, first in parameters[0].items():
        each = [members[name] for members in parameters]
        if len({parameter.requires_grad for parameter in each}) > 1:
            raise RuntimeError(
                "stack_module_state: Expected the parameters of all models to have the same "
                f".requires_grad; those named {name!r} have {[p.requires_grad for p in each]}"
            )
        together = mq.stack(each)
        stacked[name] = together.detach().requires_grad_(first.requires_grad)
    return stacked, {name: mq.stack([b[name] for b in buffers]) for name in buffers[0]}


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Have every batch normalization do without running statistics; returns the module."""
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "running_mean"):
            module.running_mean = module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root


__getattr__ = forward(__name__, "maquette.transforms", "maquette.transforms.inspection")
__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
