"""`torch.cuda.streams`: streams and events of a device that is not there."""

from __future__ import annotations

from maquette.core.device import device as Device
from maquette.torch.devices import streams


class Event(streams.Event):
    """A moment of a device's work, which has come when it is recorded.

    The options say what a device is to do for it: times are always there, and nobody waits.
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__(enable_timing=enable_timing)


class Stream(streams.Stream):
    """A queue of work of a device; all work of it is done."""

    event_type = Event

    def __init__(
        self, device: Device | str | int | None = None, priority: int = 0, **kwargs: int
    ) -> None:
        """kwargs: PyTorch's numbers of an existing stream, as `torch.Stream` has them."""
        super().__init__(device, priority, **kwargs)


_DEFAULT: list[Stream] = []


def current_stream(device: object = None) -> Stream:
    """The one stream there is."""
    if not _DEFAULT:
        _DEFAULT.append(Stream())
    return _DEFAULT[0]


def default_stream(device: object = None) -> Stream:
    """The one stream there is."""
    return current_stream()


__all__ = ["Event", "Stream", "current_stream", "default_stream"]
