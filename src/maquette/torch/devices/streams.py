"""Streams, events and captured graphs of devices: there is one order of execution here.

Work is done when a call returns, so streams and events order nothing, and waiting ends at once.
Times between events are the host's. Capturing a graph raises RuntimeError: nothing is launched.
"""

from __future__ import annotations

import time
from typing import ClassVar, NoReturn

from maquette.core.device import device as Device

_CUDA = 1  # PyTorch's number of the kind of device


class Event:
    """A moment, which has come when it is recorded."""

    def __init__(
        self,
        device: Device | str | int | None = None,
        enable_timing: bool = False,
        **options: object,
    ) -> None:
        self.device = Device("cpu") if device is None else Device(device)
        self.event_id = 0
        self._seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Let it be now."""
        self._seconds = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing."""

    def query(self) -> bool:
        """True: it has come."""
        return True

    def synchronize(self) -> None:
        """Nothing."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds of the host between two recorded events; RuntimeError if one is not."""
        if self._seconds is None or end_event._seconds is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return 1000 * (end_event._seconds - self._seconds)


class Stream:
    """A queue of work; all work of it is done."""

    event_type: ClassVar[type[Event]] = Event
    """What `record_event` makes."""

    def __init__(
        self,
        device: Device | str | int | None = None,
        priority: int = 0,
        *,
        stream_id: int = 0,
        device_index: int | None = None,
        device_type: int = _CUDA,
        **options: object,
    ) -> None:
        """stream_id, device_index, device_type: PyTorch's numbers of an existing stream."""
        self.device = Device("cuda") if device is None else Device(device)
        self.priority = priority
        self.stream_id = stream_id
        self.device_index = (self.device.index or 0) if device_index is None else device_index
        self.device_type = device_type

    def synchronize(self) -> None:
        """Nothing: all work is done."""

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Nothing: all work of the other is done."""

    def wait_event(self, event: Event) -> None:
        """Nothing: the event has happened."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event that happens now."""
        event = event or self.event_type()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class StreamContext:
    """A block whose work goes to a stream: it is done all the same."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def stream(stream: Stream | None) -> StreamContext:
    """A block whose work goes to a stream."""
    return StreamContext(stream)


_DEFAULT: list[Stream] = []


def current_stream(device: object = None) -> Stream:
    """The one stream there is."""
    if not _DEFAULT:
        _DEFAULT.append(Stream())
    return _DEFAULT[0]


def default_stream(device: object = None) -> Stream:
    """The one stream there is."""
    return current_stream()


def set_stream(stream: Stream) -> None:
    """Nothing."""


def _no_graph() -> NoReturn:
    raise RuntimeError("torch.cuda.CUDAGraph: there is no CUDA device here to capture work of")


class CUDAGraph:
    """Work that was captured, of which there is none: RuntimeError when used."""

    def __init__(self, keep_graph: bool = False) -> None:
        self.keep_graph = keep_graph

    def capture_begin(
        self,
        pool: object = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> NoReturn:
        """RuntimeError: there is no device."""
        _no_graph()

    def capture_end(self) -> NoReturn:
        """RuntimeError: there is no device."""
        _no_graph()

    def replay(self) -> NoReturn:
        """RuntimeError: there is no device."""
        _no_graph()

    def reset(self) -> None:
        """Nothing: nothing was captured."""


class graph:  # PyTorch's name
    """A block whose work is captured: RuntimeError, for there is no device that works."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: object = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        self.cuda_graph = cuda_graph

    def __enter__(self) -> None:
        self.cuda_graph.capture_begin()

    def __exit__(self, *error: object) -> None:
        """Nothing: nothing is captured."""


def make_graphed_callables(
    callables: object,
    sample_args: object,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: object = None,
) -> NoReturn:
    """RuntimeError: there is no device."""
    _no_graph()


def graph_pool_handle() -> NoReturn:
    """RuntimeError: there is no device."""
    _no_graph()


__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "graph",
    "graph_pool_handle",
    "make_graphed_callables",
    "set_stream",
    "stream",
]
