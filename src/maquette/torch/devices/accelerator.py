"""`torch.accelerator`: there is none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from maquette.core.device import device
from maquette.torch.devices import _absent, streams
from maquette.torch.devices._absent import device_count, empty_cache, is_available
from maquette.torch.face.forwarding import forward


def current_accelerator(check_available: bool = False) -> device | None:
    """None."""
    return None


def current_device_idx() -> int:
    """0: `current_device_index` by another name."""
    return 0


def set_device_idx(device: object, /) -> None:
    """Nothing: there is none to choose."""


def device_index(device: int | None, /) -> AbstractContextManager[None]:
    """Nothing for the block: there is none to choose."""
    return nullcontext()


def synchronize(device: object = None, /) -> None:
    """Nothing: there is nothing to wait for."""


def set_device_index(device: object, /) -> None:
    """Nothing: there is none to choose."""


def current_stream(device: object = None, /) -> streams.Stream:
    """The one stream there is."""
    return streams.current_stream()


def memory_allocated(device_index: object = None, /) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device_index: object = None, /) -> None:
    """Nothing: there are no figures."""


def get_memory_info(device_index: object = None, /) -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def get_device_capability(device: object = None, /) -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def empty_host_cache() -> None:
    """Nothing: there is no cache."""


__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]
__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
