"""Maquette: the operator layer of PyTorch as a standalone package that does not import torch.

This module only hands names on; see CONTRIBUTING.md for the rooms. Operators are found by name when
first used (``maquette.cat``); `maquette.torch` is the torch-named face.
"""

from __future__ import annotations

from maquette import aten as _aten  # noqa: F401  # registers the operators
from maquette import autograd
from maquette.aten import functions as _functions
from maquette.autograd.api import backward as _backward  # noqa: F401
from maquette.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from maquette.core import dtype as _dtypes
from maquette.core.device import device
from maquette.core.dtype import (
    bfloat16,
    complex32,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from maquette.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.dispatch.registry import ops
from maquette.fake import FakeTensor, FakeTensorMode
from maquette.tensor.tensor import Tensor

bool = _dtypes.bool_
double, float, half = float64, float32, float16
short, int, long = int16, int32, int64
cfloat, cdouble, chalf = complex64, complex128, complex32
# The function, not the room of this name; `from maquette.tensor.tensor import ...` finds the room.
tensor = _functions.tensor


def __getattr__(name: str) -> object:
    found = getattr(_functions, name)
    globals()[name] = found
    return found
