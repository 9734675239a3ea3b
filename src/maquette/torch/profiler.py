"""`torch.profiler`: labels are taken; there is no profiler, `maquette plan` counts instead."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from enum import Enum

from maquette.torch.face.forwarding import forward
from maquette.torch.face.later import functions_for_later

_LATER: dict[str, Callable[..., object]] = {
    **functions_for_later(
        "torch.profiler",
        dict.fromkeys(
            ("profile", "schedule", "tensorboard_trace_handler"),
            "count operators, FLOPs and bytes with `maquette plan` or maquette.plan.plan, and "
            "time with Python's cProfile",
        ),
    )
}
profile = _LATER["profile"]
schedule = _LATER["schedule"]
tensorboard_trace_handler = _LATER["tensorboard_trace_handler"]


class ProfilerActivity(Enum):
    """What a profiler watches, of PyTorch's."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profiler does at a step, of PyTorch's."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def kineto_available() -> bool:
    """False: PyTorch's library of profilers is not here."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """None."""
    return set()


class record_function(ContextDecorator):
    """A label for a profiler; nothing here, as in PyTorch where none is on."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
__getattr__ = forward(__name__)
