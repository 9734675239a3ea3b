"""`torch.autograd.profiler`: the profiler of one block, events and their sums."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.profiling.event_list import EventList
from maquette.torch.profiling.events import FunctionEvent, FunctionEventAvg, Interval, Kernel
from maquette.torch.profiling.whole import profile, record_function

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "profile",
    "record_function",
]
__getattr__ = forward(__name__, "maquette.torch.profiler")
