"""`torch.backends.mps`: not there."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """RuntimeError: there is no such device to ask."""
    raise RuntimeError(
        "torch.backends.mps.is_macos_or_newer: there is no MPS device; ask is_available() first"
    )


def is_built() -> bool:
    """False."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """RuntimeError, likewise."""
    return is_macos_or_newer(13, minor)


def get_core_count() -> int:
    """0: there is no such device."""
    return 0


def get_name() -> str:
    """No name: there is no such device."""
    return ""
