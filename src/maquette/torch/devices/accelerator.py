"""`torch.accelerator`: there is none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from maquette.core.device import device
from maquette.torch.devices._absent import device_count, empty_cache, is_available, synchronize
from maquette.torch.face.forwarding import forward


def current_accelerator(check_available: bool = False) -> device | None:
    """None."""
    return None


def current_device_idx() -> int:
    """0: `current_device_index` by another name."""
    return 0


def set_device_idx(device: object) -> None:
    """Nothing: there is none to choose."""


def device_index(device: int | None) -> AbstractContextManager[None]:
    """Nothing for the block: there is none to choose."""
    return nullcontext()


def empty_host_cache() -> None:
    """Nothing: there is no cache."""


__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]
__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
