"""What a module of a kind of device says where there is none of that kind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NoReturn


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


def device(device: object) -> object:
    """Nothing for the block: a device that is not there cannot become the current one."""
    return nullcontext()


def set_device(device: object) -> None:
    """Nothing: there is none to choose."""


def current_device() -> int:
    """0."""
    return 0


def current_device_index() -> int:
    """0."""
    return 0


def set_device_index(device: object) -> None:
    """Nothing: there is none to choose."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def is_current_stream_capturing() -> bool:
    """False."""
    return False


def memory_allocated(device: object = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device: object = None) -> None:
    """Nothing: there are no figures."""


def get_rng_state_all() -> list[object]:
    """None."""
    return []


def set_rng_state_all(new_states: object) -> None:
    """Nothing."""


def _no_device() -> NoReturn:
    raise RuntimeError("there is no such device here; ask is_available() first")


def initial_seed() -> NoReturn:
    """RuntimeError: there is no device."""
    _no_device()


def rng_state_functions(kind: str) -> tuple[Callable[..., NoReturn], Callable[..., NoReturn]]:
    """``get_rng_state`` and ``set_rng_state`` of this kind of device: RuntimeError."""

    def get_rng_state(device: object = kind) -> NoReturn:
        """RuntimeError: there is no device."""
        _no_device()

    def set_rng_state(new_state: object, device: object = kind) -> NoReturn:
        """RuntimeError: there is no device."""
        _no_device()

    return get_rng_state, set_rng_state


def mem_get_info(device: object = None) -> NoReturn:
    """RuntimeError: there is no device."""
    _no_device()


get_device_name = get_device_properties = get_device_capability = mem_get_info


__all__ = [
    "current_device",
    "current_device_index",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state_all",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "set_device_index",
    "set_rng_state_all",
    "synchronize",
]
