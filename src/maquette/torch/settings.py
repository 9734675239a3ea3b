"""Functions that belong to torch itself and compute nothing: questions, checks and settings.

Settings that tell PyTorch how fast or how exactly to compute are kept and given back, so that
programs that set them run; maquette's kernels do not read them.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

import maquette
from maquette.api.checks import _assert as _assert  # by torch's name
from maquette.autograd import set_detect_anomaly
from maquette.autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from maquette.autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
from maquette.core.broadcast import broadcast_shapes as _broadcast_shapes
from maquette.core.determinism import Determinism
from maquette.core.device import device as Device
from maquette.core.layout import contiguous_format
from maquette.core.size import Size
from maquette.core.warned import Always
from maquette.dispatch.torch_function import overridable
from maquette.fx.names import public_module
from maquette.nn.base import Module
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch._dynamo.eval_frame import OptimizedModule
from maquette.torch.face import class_names

# What NumPy and SciPy bring: linear algebra and transforms, whatever libraries they are built on.
has_lapack = has_spectral = True
has_mkl = has_openmp = False
legacy_contiguous_format = contiguous_format

F = TypeVar("F", bound=Callable[..., object])
Message = Callable[[], object] | None


class AcceleratorError(RuntimeError):
    """What a device's failure raises in PyTorch; here, for programs that catch it."""


class OutOfMemoryError(RuntimeError):
    """What a device without memory left raises in PyTorch; here, for programs that catch it."""


for _error in (AcceleratorError, OutOfMemoryError):  # torch.cuda hands them on, too
    class_names.name_found(_error, "")


# --- questions -----------------------------------------------------------------------


_offered = partial(overridable, as_written=True)


def is_tensor(obj: object, /) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: object, /) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


@_offered
def is_floating_point(input: Tensor) -> bool:
    """Whether the tensor's dtype is a float's."""
    return input.is_floating_point()


@_offered
def is_complex(input: Tensor) -> bool:
    """Whether the tensor's dtype is complex."""
    return input.is_complex()


@_offered
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


@_offered
def numel(input: Tensor) -> int:
    """How many elements the tensor has."""
    return input.numel()


@_offered
def is_signed(input: Tensor) -> bool:
    """Whether the tensor's dtype has negative numbers."""
    return input.dtype.is_signed


@_offered
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a view of conjugates."""
    return input.is_conj()


@_offered
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a view of negatives."""
    return input.is_neg()


@_offered
def get_device(input: Tensor) -> int:
    """The number of the tensor's device; -1 on the cpu."""
    return input.get_device()


def typename(obj: object, /) -> str:
    """The name of an object's type, or of a function or class, with its module by torch's names.

    A tensor's is that of its dtype, ``torch.FloatTensor``; a module's is its own.
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    if isinstance(obj, ModuleType):
        return obj.__name__
    named = obj if isinstance(obj, FunctionType | type) else type(obj)
    module = named.__module__
    if module == "builtins":
        return named.__qualname__
    if getattr(sys.modules.get("maquette.torch"), named.__name__, None) is named:
        return f"torch.{named.__qualname__}"
    return f"{public_module(module)}.{named.__qualname__}"


def broadcast_shapes(*shapes: tuple[int, ...] | int) -> Size:
    """The shape that tensors of these shapes broadcast to; sizes may be symbols."""
    listed = [tuple(s) if isinstance(s, Iterable) else (s,) for s in shapes]
    return Size(_broadcast_shapes(*listed))


def get_device_module(device: str | Device | None = None) -> ModuleType:
    """The module of a type of device, ``torch.cpu``; RuntimeError for one that is not known."""
    kind = "cpu" if device is None else Device(device).type
    if kind not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(f"there is no module torch.{kind}")
    return importlib.import_module(f"maquette.torch.{kind}")


@_offered
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """For places in a flattened tensor of this shape, the index in each dimension, as int64.

    Raises TypeError for what is no integer, and ValueError for negative sizes.
    """
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == maquette.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    for each in sizes:
        if not isinstance(each, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(each)}")
    if any(each < 0 for each in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    steps = [math.prod(sizes[at + 1 :]) for at in range(len(sizes))]
    step, size = (_whole_numbers(n, indices.device) for n in (steps, sizes))
    places = indices.unsqueeze(-1).div(step, rounding_mode="floor").remainder(size)
    return tuple(places.unbind(-1))


def _whole_numbers(numbers: list[int], place: Device) -> Tensor:
    return maquette.tensor(numbers, dtype=maquette.int64, device=place)


# --- compiling -----------------------------------------------------------------------


ENGINES = ("jax", "dask", "numpy")
"""The backends of `torch.compile` that compile: `maquette.compile`'s."""


def compile(
    model: F | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: object = None,
    mode: str | None = None,
    options: dict[str, object] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: object = None,
) -> F | Callable[[F], F]:
    """``model`` compiled by one of maquette's engines, or itself where the backend is PyTorch's.

    backend: "jax", "dask" or "numpy" go to `maquette.compile`, with ``options`` for the engine.
    PyTorch's own names leave the program as it stands: compiled programs give what they give
    uncompiled. A module is then ``_orig_mod`` of an `OptimizedModule`, as in PyTorch, which stands
    before the names in its state dict. The other arguments say how fast, and are not used. Raises
    NotImplementedError for a backend that is a function: it would never see a graph.
    """
    if callable(backend):
        raise NotImplementedError(
            "torch.compile(backend=<a function>) is not supported by maquette: nothing is captured "
            "for it to compile. Leave the backend out to run the program as it stands, or name one "
            f"of {', '.join(ENGINES)}."
        )
    if model is None:
        again: Any = partial(compile, backend=backend, mode=mode, options=options, disable=disable)
        return again
    if mode is not None and options is not None:
        raise RuntimeError("torch.compile takes mode or options, and not both")
    if backend in ENGINES and not disable:
        return maquette.compile(model, backend=backend, **(options or {}))
    if isinstance(model, Module) and not isinstance(model, OptimizedModule):
        return cast(F, OptimizedModule(model))
    return model


# --- checks --------------------------------------------------------------------------


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch the search for NaN in gradients on or off."""
    set_detect_anomaly(enabled, check_nan)


# --- settings ------------------------------------------------------------------------


class _Settings:
    """What programs have set in this process."""

    threads = os.cpu_count() or 1
    interop_threads = 1
    matmul_precision = "highest"


def get_num_threads() -> int:
    """What `set_num_threads` set; at first the number of cores."""
    return _Settings.threads


def set_num_threads(num: int) -> None:
    """Let the libraries below (BLAS, OpenMP) use this many threads; kernels use one.

    They are told by the package ``threadpoolctl`` (``pip install threadpoolctl``); without it the
    number is kept, and their own settings decide (OMP_NUM_THREADS and the like).

    Raises TypeError unless it is an int, RuntimeError unless it is positive.
    """
    _check_threads("set_num_threads", num)
    _Settings.threads = num
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        return
    # Factorizations of two processes on two cores otherwise wait for each other: `qr` of a matrix
    # of 1,500 columns 4.9 s of both cores, 0.34 s of one.
    ThreadpoolController().limit(limits=num)


def _check_threads(name: str, num: int) -> None:
    if not isinstance(num, int):
        raise TypeError(f"{name} expects an int, but got {type(num).__name__}")
    if not 0 < num < 2**31:
        raise RuntimeError(f"{name} expects a positive integer, got {num}")


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` set."""
    return _Settings.interop_threads


def set_num_interop_threads(num: int) -> None:
    """Kept and not used; TypeError and RuntimeError as of `set_num_threads`."""
    _check_threads("set_num_interop_threads", num)
    _Settings.interop_threads = num


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Kept, for maquette's kernels are deterministic; new memory is filled.

    Whether it is: `torch.utils.deterministic.fill_uninitialized_memory`. Raises TypeError unless
    ``mode`` is a bool.
    """
    for name, given in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(given, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument {name} must be bool, not "
                f"{type(given).__name__}"
            )
    Determinism.enabled = mode
    Determinism.warn_only = warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` set."""
    return Determinism.enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` set for ``warn_only``."""
    return Determinism.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """``"default"``, ``"warn"`` or ``"error"``, or 0, 1, 2: as `use_deterministic_algorithms`.

    Raises TypeError for another type, RuntimeError for another value.
    """
    modes = ("default", "warn", "error")
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (*modes, 0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, 0, 1, 2, "
            f"but got {debug_mode}"
        )
    at = modes.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(at > 0, warn_only=at == 1)


def get_deterministic_debug_mode() -> int:
    """0 default, 1 warn, 2 error."""
    if not Determinism.enabled:
        return 0
    return 1 if Determinism.warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Kept: ``"highest"``, ``"high"`` or ``"medium"``; another is warned of and not kept."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            f"setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _Settings.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` set."""
    return _Settings.matmul_precision


def set_warn_always(b: bool, /) -> None:
    """Kept; Python's own filters decide how often a warning is shown."""
    Always.on = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` set."""
    return Always.on


def set_flush_denormal(mode: bool) -> bool:
    """False: it is not supported, and nothing changes."""
    return False


def set_default_tensor_type(t: type | str, /) -> None:
    """`set_default_dtype` by the name of a tensor type, ``torch.DoubleTensor``."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    if not isinstance(t, str | type):
        raise TypeError(f"invalid type object: expected a tensor type or its name, got {t!r}")
    name = t if isinstance(t, str) else t.__name__
    kinds = {"HalfTensor": "float16", "FloatTensor": "float32", "DoubleTensor": "float64"}
    kind = kinds.get(name.rpartition(".")[2])
    if kind is None:
        raise TypeError(f"expected one of {', '.join(kinds)}, got {name}")
    maquette.set_default_dtype(getattr(maquette, kind))
