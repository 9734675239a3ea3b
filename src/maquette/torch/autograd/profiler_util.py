"""`torch.autograd.profiler_util`: events and lists of them."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.profiling.event_list import EventList
from maquette.torch.profiling.events import (
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    StringTable,
    _format_memory,
    _format_time,
    _format_time_share,
)

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "StringTable",
    "_format_memory",
    "_format_time",
    "_format_time_share",
]
__getattr__ = forward(__name__)
