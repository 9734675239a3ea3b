"""`torch.onnx.symbolic_helper`: decorators of functions that an exporter would call; none does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from maquette.torch.face.absences import Absent
from maquette.torch.onnx import ADVICE

ABSENT = (
    "args_have_same_dtype", "cast_pytorch_to_onnx", "check_training_mode", "dequantize_helper",
    "is_complex_value", "pytorch_name_to_type", "quantize_helper", "requantize_bias_helper",
    "scalar_name_to_pytorch", "scalar_type_to_onnx", "scalar_type_to_pytorch_type",
)  # fmt: skip
F = TypeVar("F", bound=Callable[..., object])


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """A decorator that changes nothing: no exporter calls the function."""
    return lambda function: function


quantized_args = parse_args


def __getattr__(name: str) -> Any:
    if name not in ABSENT and (not name.startswith("_") or name.startswith("__")):
        raise AttributeError(f"module 'torch.onnx.symbolic_helper' has no attribute '{name}'")
    return Absent.named("torch.onnx.symbolic_helper", name, ADVICE)
