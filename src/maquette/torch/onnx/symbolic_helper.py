"""`torch.onnx.symbolic_helper`: decorators of functions that an exporter would call; none does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from maquette.torch.face.absences import Absent
from maquette.torch.onnx import ADVICE

F = TypeVar("F", bound=Callable[..., object])


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """A decorator that changes nothing: no exporter calls the function."""
    return lambda function: function


quantized_args = parse_args


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_helper' has no attribute '{name}'")
    return Absent.named("torch.onnx.symbolic_helper", name, ADVICE)
