"""`torch.utils.checkpoint`: blocks that are computed again in backward, under PyTorch's names."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from maquette.dispatch.registry import ops
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
    _CachedTorchDispatchMode,
    _CachingTorchDispatchMode,
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


def check_backward_validity(inputs: Iterable[object]) -> None:
    """Warn where no tensor requires grad, so that none goes back through a checkpoint."""
    if not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class DefaultDeviceType:
    """The type of device whose generator a checkpoint keeps, where its inputs are on the cpu."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """It."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """The devices that arguments are on, and their generators' states: none, but for the cpu's."""
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """RuntimeError for a device: there is none with a generator of its own."""
    if devices:
        raise RuntimeError(f"there are no generators of devices {list(devices)} here")


# What selective checkpoints never ask of: operators that give a view or nothing.
SAC_IGNORED_OPS = frozenset({ops.aten.detach.default})

__all__ = [
    "DefaultDeviceType",
    "check_backward_validity",
    "get_device_states",
    "set_device_states",
    "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
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
