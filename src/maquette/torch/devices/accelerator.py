"""`torch.accelerator`: there is none, and what would act on one says so."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NoReturn

from maquette.core.device import device
from maquette.torch.devices import _absent
from maquette.torch.devices._absent import device_count, is_available
from maquette.torch.face.forwarding import forward


def current_accelerator(check_available: bool = False) -> device | None:
    """None."""
    return None


def current_device_index() -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def current_device_idx() -> NoReturn:
    """RuntimeError: `current_device_index` by another name."""
    _absent._no_device()


def set_device_index(device: object, /) -> NoReturn:
    """RuntimeError: there is none to choose."""
    _absent._no_device()


def set_device_idx(device: object, /) -> NoReturn:
    """RuntimeError: `set_device_index` by another name."""
    _absent._no_device()


class device_index(AbstractContextManager[None]):
    """A block with a device as the current one: RuntimeError on entering, but for None."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _absent._no_device()

    def __exit__(self, *exc_info: object) -> None:
        """Nothing: there is none to go back to."""


def synchronize(device: object = None, /) -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def current_stream(device: object = None, /) -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def memory_allocated(device_index: object = None, /) -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
reset_peak_memory_stats = get_memory_info = memory_allocated


def get_device_capability(device: object = None, /) -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def empty_cache() -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def empty_host_cache() -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]
__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
