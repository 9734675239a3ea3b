"""`torch.onnx`: no programs are exported; registering how one would be is taken, and not used.

Every other public name says so when called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import Enum
from typing import Any

from maquette.torch.face import paths
from maquette.torch.face.absences import Absent

ADVICE = "do this with PyTorch itself"
ABSENT = (
    "ExportOptions", "ExportableModule", "InputObserver", "JitScalarType", "ONNXProgram",
    "ONNXRuntimeOptions", "OnnxExporterError", "OnnxRegistry", "dynamo_export", "export",
    "export_to_pretty_string", "select_model_mode_for_export",
)  # fmt: skip


class TrainingMode(Enum):
    """In which mode a model is exported, of PyTorch's."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """How operators are exported, of PyTorch's."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(Enum):
    """Numbers of element types, of PyTorch's."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., object], opset_version: int
) -> None:
    """Nothing: no exporter will ask."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing, likewise."""


def __getattr__(name: str) -> Any:
    if name in ABSENT:
        return Absent.named("torch.onnx", name, ADVICE)
    served_by = None if name.startswith("_") else paths.resolve(f"onnx.{name}")
    if served_by is None:
        raise AttributeError(f"module 'torch.onnx' has no attribute '{name}'")
    return importlib.import_module(served_by)
