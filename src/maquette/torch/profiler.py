"""`torch.profiler`: labels are taken; there is no profiler, `maquette plan` counts instead."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator

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


class record_function(ContextDecorator):
    """A label for a profiler; nothing here, as in PyTorch where none is on."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


__all__ = ["profile", "record_function", "schedule", "tensorboard_trace_handler"]
__getattr__ = forward(__name__)
