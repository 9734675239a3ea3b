"""`torch.profiler`: what runs on the cpu, from when to when; its parts are in `profiling`."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.profiling import itt
from maquette.torch.profiling.steps import (
    ProfilerAction,
    ProfilerActivity,
    _default_schedule_fn,  # noqa: F401  # Lightning takes it from here
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from maquette.torch.profiling.whole import record_function


def kineto_available() -> bool:
    """False: PyTorch's library of profilers is not here."""
    return False


__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
__getattr__ = forward(__name__)
