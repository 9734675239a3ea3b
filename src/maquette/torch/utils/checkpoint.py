"""`torch.utils.checkpoint`: blocks that are computed again in backward, under PyTorch's names."""

from __future__ import annotations

from maquette.higher_order.checkpoint import (
    CheckpointError,
    CheckpointFunction,
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from maquette.higher_order.selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from maquette.tensor.tensor import Tensor


def detach_variable(inputs: tuple[object, ...]) -> tuple[object, ...]:
    """A block's inputs as leaves that require grad where they did; RuntimeError for no tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
