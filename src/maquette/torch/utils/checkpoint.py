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

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
