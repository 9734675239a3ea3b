"""What a module of a kind of device says where there is none of that kind."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def synchronize(device: object = None) -> None:
    """Nothing: there is nothing to wait for."""


def empty_cache() -> None:
    """Nothing: there is no cache."""


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator."""


def manual_seed_all(seed: int) -> None:
    """Nothing, likewise."""
