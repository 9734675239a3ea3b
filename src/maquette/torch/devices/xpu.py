"""`torch.xpu`: there is no such device here."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

default_generators: tuple[object, ...] = ()


def get_arch_list() -> list[str]:
    """None: nothing was compiled for such a device."""
    return []


def get_gencode_flags() -> str:
    """None: nothing was compiled for such a device."""
    return ""


def is_tf32_supported() -> bool:
    """False."""
    return False


__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
