"""`torch.distributed`: there is one process, so it is not available."""

from __future__ import annotations

from maquette.torch.forwarding import forward


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


__getattr__ = forward(__name__)
