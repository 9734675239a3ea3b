"""`torch.cpu`: the one device that is always there."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Nothing: every operator has finished when it returns."""


__getattr__ = forward(__name__)
