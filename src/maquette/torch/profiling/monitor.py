"""`torch.monitor`: events that a program tells of, statistics among them, and who hears of them."""

from __future__ import annotations

import datetime
import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"


class Aggregation(enum.Enum):
    """What a `Stat` tells of the numbers of a window."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN

_OF_NUMBERS: dict[Aggregation, Callable[[list[float]], float]] = {
    VALUE: lambda numbers: numbers[-1],
    MEAN: lambda numbers: sum(numbers) / len(numbers),
    COUNT: len,
    SUM: sum,
    MAX: max,
    MIN: min,
}


class Event:
    """Something that happened: its name, when, and data: texts and numbers by name.

    Raises TypeError for data of other types.
    """

    def __init__(
        self,
        name: str,
        timestamp: datetime.datetime,
        data: Mapping[str, int | float | bool | str],
    ) -> None:
        for key, value in data.items():
            if not isinstance(value, str | int | float):
                raise TypeError(f"Event: data are texts and numbers, but {key} is of {type(value)}")
        self.name = name
        self.timestamp = timestamp
        self.data = dict(data)


class EventHandlerHandle:
    """A handler that was registered: what `unregister_event_handler` takes."""

    def __init__(self, handler: Callable[[Event], object]) -> None:
        self._handler = handler


_handlers: dict[EventHandlerHandle, None] = {}  # in the order in which they are called


def register_event_handler(callback: Callable[[Event], object]) -> EventHandlerHandle:
    """Call a function with each event that is logged from now on."""
    handle = EventHandlerHandle(callback)
    _handlers[handle] = None
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Call a function no more; again is harmless."""
    _handlers.pop(handler, None)


def log_event(event: Event) -> None:
    """Tell all handlers of an event."""
    for handle in list(_handlers):
        handle._handler(event)


class Stat:
    """Statistics of the numbers in each window of time, logged when it ends, as an `Event`.

    window_size: how long a window is. max_samples: how many numbers count in a window; it is logged
    when it has them, and later ones are left out. What is left when the object goes is logged, too.
    `Aggregation.VALUE` is the last number; PyTorch 2.13 leaves it out.
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: datetime.timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self._numbers: list[float] = []
        self._told: dict[Aggregation, float] = dict.fromkeys(aggregations, 0.0)
        self.name = name
        self._window = window_size.total_seconds()
        self._most = max_samples
        self._full = False
        self._end = time.monotonic() + self._window

    @property
    def count(self) -> int:
        """How many numbers wait to be logged."""
        return len(self._numbers)

    def add(self, v: float) -> None:
        """Count a number in this window."""
        self._end_window()
        if self._full:
            return
        self._numbers.append(float(v))
        if len(self._numbers) >= self._most:
            self._full = True
            self._log()

    def get(self) -> dict[Aggregation, float]:
        """The statistics that were logged last; zeros before."""
        self._end_window()
        return dict(self._told)

    def _end_window(self) -> None:
        now = time.monotonic()
        if now >= self._end:
            self._log()
            self._full = False
            self._end = now + self._window

    def _log(self) -> None:
        if not self._numbers:
            return
        numbers, self._numbers = self._numbers, []
        self._told = {kind: float(_OF_NUMBERS[kind](numbers)) for kind in self._told}
        data = {f"{self.name}.{kind.name.lower()}": value for kind, value in self._told.items()}
        log_event(Event(STAT_EVENT, datetime.datetime.now(), data))

    def __del__(self) -> None:
        if getattr(self, "_numbers", None):
            self._log()


class TensorboardEventHandler:
    """A handler that writes statistics as scalars of a `SummaryWriter`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())


class _WaitCounterTracker:
    """A block whose waiting PyTorch's servers count; nobody does here."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


class _WaitCounter:
    """A counter of waiting, by its name."""

    def __init__(self, key: str) -> None:
        self.key = key

    def guard(self) -> _WaitCounterTracker:
        """A block that waits."""
        return _WaitCounterTracker()
