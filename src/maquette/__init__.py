"""Maquette: the operator layer of PyTorch as a standalone package that does not import torch.

This module only hands names on; CONTRIBUTING.md describes the packages. Operators are found by name
when first used (``maquette.cat``), and so are packages that few programs need (``maquette.fx``);
`maquette.torch` is the torch-named face.
"""

# ruff: noqa: E402  # the operators come first, with the garbage collector at rest

from __future__ import annotations

import gc as _gc
import importlib as _importlib
from typing import Any as _Any

# What importing makes lives as long as the process: to look for garbage in it is in vain, and to
# take it apart at the end costs 120 ms of 320 (`import maquette` in a process, CPython 3.11). So
# the collector rests meanwhile, and is told to leave it alone: before it wakes, for it would look
# at once at all that was made (24 ms of 200), and once more at the end of this module.
_collecting = _gc.isenabled()
_gc.disable()
try:
    _importlib.import_module("maquette.api")  # registers the operators
finally:
    _gc.freeze()
    if _collecting:
        _gc.enable()

from maquette import autograd
from maquette.api import functions as _functions
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
    can_cast,
    complex32,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
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
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.dispatch.tags import Tag
from maquette.fake import FakeTensor, FakeTensorMode
from maquette.tensor import set_printoptions
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

bool = _dtypes.bool_
double, float, half = float64, float32, float16
short, int, long = int16, int32, int64
cfloat, cdouble, chalf = complex64, complex128, complex32
# The function, not the package of this name, which `from maquette.tensor.tensor import ...` finds.
tensor = _functions.tensor

# Imported when first asked for: names here, and the module that each is or is in.
_PACKAGES = {
    "amp": "maquette.amp",
    "array_api": "maquette.array_api",
    "compile": "maquette.compile",
    "func": "maquette.torch.func",
    "fx": "maquette.fx",
    "higher_order": "maquette.higher_order",
    "library": "maquette.library",
    "nn": "maquette.nn",
    "optim": "maquette.optim",
    "plan": "maquette.plan",
    "symbolic": "maquette.symbolic",
}
_NAMES = {
    "from_dlpack": "maquette.tensor.interchange",
    "load": "maquette.tensor.saving",
    "save": "maquette.tensor.saving",
    "skip_data": "maquette.tensor.copying",
    "vmap": "maquette.torch.func",
    "SymBool": "maquette.symbolic",
    **dict.fromkeys(
        (
            "sparse_bsc_tensor",
            "sparse_bsr_tensor",
            "sparse_compressed_tensor",
            "sparse_coo_tensor",
            "sparse_csc_tensor",
            "sparse_csr_tensor",
        ),
        "maquette.api.sparse_functions",
    ),
    "_mkldnn": "maquette.core.layout",
    "SymFloat": "maquette.symbolic",
    "SymInt": "maquette.symbolic",
    **dict.fromkeys(
        (
            "check",
            "check_index",
            "check_is_size",
            "check_not_implemented",
            "check_tensor_all",
            "check_type",
            "check_value",
            "sym_float",
            "sym_int",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_not",
            "sym_sum",
        ),
        "maquette.symbolic",
    ),
}


def __getattr__(name: str) -> _Any:  # of any type, by name, and so it is to type checkers
    found = _find(name)
    globals()[name] = found
    return found


def _find(name: str) -> object:
    place = _PACKAGES.get(name) or _NAMES.get(name)
    if place is None:
        return getattr(_functions, name)
    try:
        module = _importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        raise AttributeError(f"maquette.{name} is not there yet: there is no {place}") from None
    return module if name in _PACKAGES else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_NAMES, *dir(_functions)})


__all__ = [
    "Argument", "DispatchKey", "DispatchKeySet", "FakeTensor", "FakeTensorMode", "FunctionSchema",
    "Size", "Tag", "Tensor", "TensorMeta", "UntypedStorage", "autograd", "bfloat16", "bool",
    "can_cast", "cdouble", "cfloat", "chalf", "channels_last", "channels_last_3d", "complex32",
    "complex64", "complex128", "contiguous_format", "device", "double", "dtype", "enable_grad",
    "finfo", "float", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16", "float32", "float64", "get_default_dtype", "half", "iinfo", "inference_mode",
    "int", "int8", "int16", "int32", "int64", "is_grad_enabled", "is_inference_mode_enabled",
    "jagged", "layout", "long", "memory_format", "no_grad", "ops", "parse_schema",
    "preserve_format", "promote_types", "set_default_dtype", "set_grad_enabled",
    "set_printoptions", "short", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc",
    "sparse_csr", "strided", "tensor", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

_gc.freeze()
