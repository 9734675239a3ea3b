"""`torch.cpu`: the one device that is always there."""

from __future__ import annotations

import os
import platform
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from maquette.torch.face.forwarding import forward


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def _is_vnni_supported() -> bool:
    """False: no kernel asks for these instructions."""
    return False


_is_amx_tile_supported = _is_vnni_supported


def set_device(device: object) -> None:
    """Nothing: there is one."""


def synchronize(device: object = None) -> None:
    """Nothing: every operator has finished when it returns."""


def get_capabilities() -> dict[str, Any]:
    """What is known of the processor: its architecture and how many there are."""
    return {"architecture": platform.machine(), "num_cores": os.cpu_count()}


class Stream:
    """Nothing to wait for: there is one, and every operator has finished when it returns."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Stream) -> None:
        """Nothing."""

    def record_event(self) -> Event:
        """An event that has come."""
        return Event()

    def wait_event(self, event: Event) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing."""


class Event:
    """Has come when it is recorded."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing."""


_CURRENT = Stream()


def current_stream(device: object = None) -> Stream:
    """The one stream."""
    return _CURRENT


class StreamContext(AbstractContextManager[None]):
    """A block in which a stream is the current one: nothing changes."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __exit__(self, *exc: object) -> None:
        """Nothing."""


def stream(stream: Stream | None) -> AbstractContextManager[None]:
    """A block in which a stream is the current one: nothing changes."""
    return nullcontext() if stream is None else StreamContext(stream)


__getattr__ = forward(__name__)
