"""`torch.backends.cusparselt`: not there."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None: there is no such library."""


def get_max_alg_id() -> None:
    """None, likewise."""
