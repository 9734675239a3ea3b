"""`torch.mps`: there is no such device here, and what would act on it says so."""

from __future__ import annotations

from typing import NoReturn

from maquette.torch.devices import _absent, streams
from maquette.torch.face.forwarding import forward


class Event(streams.Event):
    """A moment of a device's work: none can be made, RuntimeError, as there is no device."""

    def __init__(self, enable_timing: bool = False) -> None:
        _absent._no_device()

    def record(self) -> None:  # type: ignore[override]  # there is one stream
        """Let it be now."""
        super().record()

    def wait(self) -> None:  # type: ignore[override]  # there is one stream
        """Nothing."""


def synchronize() -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def empty_cache() -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


def current_allocated_memory() -> NoReturn:
    """RuntimeError: there is no device."""
    _absent._no_device()


driver_allocated_memory = recommended_max_memory = current_allocated_memory

get_rng_state, set_rng_state = _absent.rng_state_functions("mps")

__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
