"""`torch.accelerator`: there is none."""

from __future__ import annotations

from maquette.core.device import device
from maquette.torch.devices._absent import device_count, empty_cache, is_available, synchronize
from maquette.torch.face.forwarding import forward


def current_accelerator(check_available: bool = False) -> device | None:
    """None."""
    return None


__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]
__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
