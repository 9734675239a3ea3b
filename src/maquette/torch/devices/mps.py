"""`torch.mps`: there is no such device here."""

from __future__ import annotations

from maquette.torch.devices import _absent, streams
from maquette.torch.face.forwarding import forward


class Event(streams.Event):
    """A moment of a device's work, which has come when it is recorded."""

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(enable_timing=enable_timing)

    def record(self) -> None:  # type: ignore[override]  # there is one stream
        """Let it be now."""
        super().record()

    def wait(self) -> None:  # type: ignore[override]  # there is one stream
        """Nothing."""


def synchronize() -> None:
    """Nothing: there is nothing to wait for."""


def current_allocated_memory() -> int:
    """0 bytes."""
    return 0


driver_allocated_memory = recommended_max_memory = current_allocated_memory

get_rng_state, set_rng_state = _absent.rng_state_functions("mps")

__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
