"""The torch-named face: ``import maquette.torch as torch``.

What is here: names. A name is looked up when first asked for: in the face's own table, among the
submodules (`paths.py` says which package serves which of torch's paths), then in `maquette` itself.
What is not: anything that computes; that lives in the other packages. `install` makes
``import torch`` find this module (`installing.py`); ``python -m maquette.torch SCRIPT.py`` runs a
script so.
"""

from __future__ import annotations

import importlib
import math
import sys
from types import ModuleType
from typing import Any

import maquette as _maquette
from maquette.api.function_homes import function_home
from maquette.aten.catalogue import explain
from maquette.core.errors import MissingName
from maquette.torch.face import class_names as _class_names
from maquette.torch.face import opaque_dtypes
from maquette.torch.face import paths as _paths
from maquette.torch.face.installing import install as install
from maquette.torch.face.installing import uninstall as uninstall
from maquette.torch.face.torch_version import __version__ as __version__

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None

_FACE = "maquette.torch"  # not __name__, which is "torch" while `install` holds

# The face's own functions and classes, by the module of the face that has them.
_HERE = {
    **dict.fromkeys(
        (
            "compile",
            "typename",
            "is_tensor",
            "is_storage",
            "is_floating_point",
            "is_complex",
            "get_num_threads",
            "set_num_threads",
            "get_num_interop_threads",
            "set_num_interop_threads",
            "use_deterministic_algorithms",
            "are_deterministic_algorithms_enabled",
            "is_deterministic_algorithms_warn_only_enabled",
            "set_deterministic_debug_mode",
            "get_deterministic_debug_mode",
            "set_float32_matmul_precision",
            "get_float32_matmul_precision",
            "set_flush_denormal",
            "set_warn_always",
            "is_warn_always_enabled",
            "is_inference",
            "numel",
            "is_signed",
            "is_conj",
            "is_neg",
            "get_device",
            "unravel_index",
            "set_default_tensor_type",
            "broadcast_shapes",
            "OutOfMemoryError",
            "AcceleratorError",
            "has_lapack",
            "has_mkl",
            "has_openmp",
            "has_spectral",
            "legacy_contiguous_format",
            "get_device_module",
            "is_anomaly_enabled",
            "is_anomaly_check_nan_enabled",
            "set_anomaly_enabled",
            "_assert",
        ),
        "settings",
    ),
    **dict.fromkeys(
        (
            "HalfTensor",
            "BFloat16Tensor",
            "FloatTensor",
            "DoubleTensor",
            "ByteTensor",
            "CharTensor",
            "ShortTensor",
            "IntTensor",
            "LongTensor",
            "BoolTensor",
        ),
        "tensor_types",
    ),
    **dict.fromkeys(
        (
            "AnyType",
            "BoolType",
            "ComplexType",
            "DeviceObjType",
            "DictType",
            "FloatType",
            "IntType",
            "ListType",
            "NoneType",
            "NumberType",
            "OptionalType",
            "StreamObjType",
            "StringType",
            "SymBoolType",
            "SymIntType",
            "TensorType",
            "TupleType",
            "Type",
            "UnionType",
        ),
        "helpers.schema_types",
    ),
    "InferredType": "jit.inferred_types",
    **dict.fromkeys(
        (
            "TypedStorage",
            "_storage_classes",
            "HalfStorage",
            "BFloat16Storage",
            "FloatStorage",
            "DoubleStorage",
            "ByteStorage",
            "CharStorage",
            "ShortStorage",
            "IntStorage",
            "LongStorage",
            "BoolStorage",
            "ComplexFloatStorage",
            "ComplexDoubleStorage",
        ),
        "storage",
    ),
    **dict.fromkeys(
        (
            "_nested_tensor_from_mask",
            "_nested_from_padded",
            "_nested_from_padded_and_nested_example",
        ),
        "families.nested",
    ),
    **dict.fromkeys(
        (
            "sym_int",
            "sym_float",
            "sym_not",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_sqrt",
            "_check",
            "_check_index",
            "_check_type",
            "_check_value",
            "_check_not_implemented",
            "_check_is_size",
            "_check_tensor_all",
            "_check_tensor_all_with",
            "_check_with",
            "sym_fresh_size",
            "_sym_sqrt",
            "_sym_log2",
            "_sym_sin",
            "_sym_cos",
            "_sym_tan",
            "_sym_asin",
            "_sym_acos",
            "_sym_atan",
            "_sym_sinh",
            "_sym_cosh",
            "_sym_tanh",
            "sym_sum",
            "_constrain_as_size",
            "sym_constrain_range",
            "sym_constrain_range_for_size",
        ),
        "tracing.symbolic_numbers",
    ),
    **dict.fromkeys(
        (
            "dequantize",
            "is_distributed",
            "is_vulkan_available",
            "compiled_with_cxx11_abi",
            "dsmm",
            "hsmm",
            "saddmm",
            "spmm",
        ),
        "face.old_names",
    ),
    "_disable_dynamo": "_compile",
    "_has_compatible_shallow_copy_type": "nn.base.conversion",
    "StorageBase": "internals",
    **dict.fromkeys(("PyTorchFileReader", "PyTorchFileWriter"), "saving.archives"),
    **dict.fromkeys(("svd_lowrank", "pca_lowrank", "lobpcg"), "families.low_rank"),
    **dict.fromkeys(("autocast", "is_autocast_enabled", "get_autocast_dtype", "GradScaler"), "amp"),
    **dict.fromkeys(
        (
            "autocast_decrement_nesting",
            "autocast_increment_nesting",
            "clear_autocast_cache",
            "get_autocast_cpu_dtype",
            "get_autocast_gpu_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_cpu_dtype",
            "set_autocast_cpu_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
            "set_autocast_gpu_dtype",
        ),
        "amp.autocast_mode",
    ),
    **dict.fromkeys(("qscheme", *opaque_dtypes.SCHEMES), "face.opaque_dtypes"),
    **dict.fromkeys(("DisableTorchFunction", "DisableTorchFunctionSubclass"), "overrides"),
    "Storage": "storage",
    **dict.fromkeys(("Event", "Stream"), "devices.streams"),
    **dict.fromkeys(("ScriptModule", "ScriptFunction"), "jit"),
    **dict.fromkeys(
        (
            "_disable_functionalization",
            "_enable_functionalization",
            "_freeze_functional_tensor",
            "_from_functional_tensor",
            "_functionalize_are_all_mutations_hidden_from_autograd",
            "_functionalize_commit_update",
            "_functionalize_enable_reapply_views",
            "_functionalize_get_storage_size",
            "_functionalize_has_data_mutation",
            "_functionalize_has_metadata_mutation",
            "_functionalize_is_multi_output_view",
            "_functionalize_mark_mutation_hidden_from_autograd",
            "_functionalize_replace",
            "_functionalize_set_storage_changed",
            "_functionalize_sync",
            "_functionalize_was_storage_changed",
            "_is_functional_tensor",
            "_mirror_autograd_meta_to",
            "_sync",
            "_to_functional_tensor",
        ),
        "tracing.functionalization",
    ),
    "cond": "tracing.control_flow",
    "Future": "helpers.futures",
    "to_dlpack": "utils.dlpack",
    "load": "serialization",
    "save": "serialization",
    "vmap": "func",
}


# Programs look a module through for its dtypes (``vars(torch)``): they stand in it from the start.
# Other names come when they are asked for.
dtype, device, Tensor, Size = _maquette.dtype, _maquette.device, _maquette.Tensor, _maquette.Size
globals().update(
    (name, kind)
    for name, kind in vars(_maquette).items()
    if isinstance(kind, _maquette.dtype) and not name.startswith("_")
)
globals().update(opaque_dtypes.BY_NAME)


def __getattr__(name: str) -> Any:  # of any type, by name, and so it is to type checkers
    found = _find(name)
    _class_names.name_found(found, "")
    if name != "Storage":  # which follows the default dtype
        globals()[name] = found
    return found


def _find(name: str) -> object:
    if name == "__all__":
        return _starred()
    if name in _HERE:
        return getattr(importlib.import_module(f"{_FACE}.{_HERE[name]}"), name)
    if name in ("__future__", "__config__"):
        return submodule(name)
    if name.startswith("__"):
        raise AttributeError(f"module 'torch' (maquette.torch) has no attribute '{name}'")
    module = submodule(name)
    if module is not None:
        return module
    found: object = None
    if name not in _NOT_TORCH:
        if function_home(name) == "torch":
            found = getattr(_maquette, name, None)
        if found is None:
            found = importlib.import_module(f"{_FACE}.face.old_names").FUNCTIONS.get(name)
        if found is None:
            found = importlib.import_module(f"{_FACE}.face.absent_names").stand_in("", name)
    if found is not None:
        return found
    raise MissingName(lambda: _what_is_missing(name))


def _what_is_missing(name: str) -> str:
    if (home := function_home(name)) != "torch":  # as in PyTorch, where programs ask `hasattr`
        place = f"{home}.{name}" if home else f"torch.Tensor.{name} or torch.ops.aten.{name}"
        return f"module 'torch' (maquette.torch) has no attribute '{name}': see {place}"
    return (
        f"module 'torch' (maquette.torch) has no attribute '{name}': maquette does not have "
        f"torch.{name}, or not yet.{explain('aten', name)}"
    )


def submodule(path: str) -> ModuleType | None:
    """The module that serves ``torch.<path>``, imported, or None."""
    target = _paths.resolve(path)
    if target is None:
        return None
    module = importlib.import_module(target)
    _class_names.name_loaded(target)
    return module


def __dir__() -> list[str]:
    ours = {name for name in dir(_maquette) if name[0] != "_" and function_home(name) == "torch"}
    ours -= _NOT_TORCH
    public = {name for name in globals() if name not in _NOT_TORCH and name[:1] != "_"}
    dunder = {name for name in globals() if name.startswith("__")}
    modules = set(_paths.top_level()) - _NOT_TORCH
    absent = importlib.import_module(f"{_FACE}.face.absent_names").names_of("")
    return sorted({*dunder, *public, *ours, *_HERE, *modules, *absent})


def _starred() -> list[str]:
    """What ``from torch import *`` takes: functions, classes and constants, no submodules."""
    return [
        name
        for name in __dir__()
        if not name.startswith("_") and submodule(name) is None and name not in _FACE_ONLY
        # Some names wait for a package that is not there yet.
        if name in globals() or hasattr(sys.modules[_FACE], name)
    ]


_FACE_ONLY = ("install", "uninstall", "submodule")
# What stands in these two modules and is no name of torch's.
_NOT_TORCH = frozenset(
    """
    Any FakeTensor FakeTensorMode MissingName ModuleType TensorMeta annotations api array_api aten
    check check_index check_is_size check_not_implemented check_tensor_all check_type check_value
    core devices dispatch explain face fake families forwarding function_home higher_order importlib
    installing later low_rank math old_names opaque_dtypes overridable paths plan
    running saving settings skip_data symbolic symbolic_numbers sys tensor_types tracing transforms
    zip_files
    """.split()
)
