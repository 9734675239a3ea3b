"""`torch.overrides`: modes and questions about ``__torch_function__``."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from maquette.api.overriding import (
    handle_torch_function as handle_torch_function,
)
from maquette.api.overriding import (
    has_torch_function as has_torch_function,
)
from maquette.api.overriding import (
    has_torch_function_unary as has_torch_function_unary,
)
from maquette.api.overriding import (
    has_torch_function_variadic as has_torch_function_variadic,
)
from maquette.dispatch.abstract import overrides_torch_function
from maquette.dispatch.handlers import enable_reentrant_dispatch
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import OpOverloadPacket
from maquette.dispatch.torch_function import (
    TorchFunctionMode,
    redispatch,
)
from maquette.tensor.tensor import Tensor
from maquette.torch.face.absences import Absent
from maquette.torch.face.absent_names import names_of
from maquette.torch.face.forwarding import forward, without_underscores
from maquette.torch.face.old_names import FUNCTIONS as ABSENT_FUNCTIONS


def is_tensor_like(inp: object) -> bool:
    """Whether an object is a tensor, or has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., object]) -> bool:
    """Whether a function is a method of `Tensor`, or the getter of a property."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[object]],
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """A decorator: the function is offered to what ``dispatcher`` picks of its arguments first."""

    def wrap(func: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(func)
        def wrapped(*args: object, **kwargs: object) -> object:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return wrap


def _get_overloaded_args(
    relevant_args: Iterable[object], get_type_fn: Callable[[object], type] = type
) -> list[object]:
    """The arguments whose classes answer, one of each class, subclasses before their bases."""
    found: list[object] = []
    for arg in relevant_args:
        kind = get_type_fn(arg)
        if not overrides_torch_function(kind) or any(get_type_fn(known) is kind for known in found):
            continue
        bases = (i for i, k in enumerate(found) if issubclass(kind, get_type_fn(k)))
        found.insert(next(bases, len(found)), arg)
    return found


# --- which functions can be overridden ------------------------------------------------

# Names of torch's that make tensors or change settings: no argument could answer for them.
_IGNORED = """
    typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device
    set_rng_state get_rng_state manual_seed initial_seed seed save load set_printoptions
    get_default_dtype set_default_dtype is_deterministic_algorithms_warn_only_enabled
    use_deterministic_algorithms are_deterministic_algorithms_enabled set_warn_always
    set_deterministic_debug_mode get_deterministic_debug_mode set_float32_matmul_precision
    get_float32_matmul_precision is_warn_always_enabled arange as_tensor bartlett_window
    blackman_window can_cast compile empty empty_permuted empty_strided empty_quantized export eye
    from_dlpack from_file full hamming_window hann_window kaiser_window linspace logspace ones
    promote_types rand randn randint randperm range result_type scalar_tensor
    sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
    sparse_compressed_tensor tensor asarray frombuffer from_numpy zeros tril_indices triu_indices
    vander vmap cond get_num_threads set_num_threads get_num_interop_threads set_flush_denormal
    set_num_interop_threads is_grad_enabled is_inference_mode_enabled set_grad_enabled
    is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled broadcast_shapes
    is_autocast_enabled autocast_increment_nesting autocast_decrement_nesting
    clear_autocast_cache get_autocast_dtype set_autocast_dtype set_autocast_enabled
    is_autocast_cache_enabled set_autocast_cache_enabled get_device_module unify_type_list
    compiled_with_cxx11_abi is_vulkan_available
    sym_fresh_size sym_constrain_range sym_constrain_range_for_size get_file_path
""".split()


def _torch() -> Any:
    return importlib.import_module("maquette.torch")


@functools.cache
def get_ignored_functions() -> set[Callable[..., object]]:
    """Functions of torch that are never offered to ``__torch_function__``."""
    torch = _torch()
    found = {getattr(torch, name, None) for name in _IGNORED}
    own = ("as_subclass", "new_tensor", "_make_subclass", "__new__", "__init__", "__subclasshook__")
    found |= {getattr(Tensor, name, None) for name in own}
    return {function for function in found if callable(function)}


def get_default_nowrap_functions() -> set[Callable[..., object]]:
    """What the default ``__torch_function__`` does not make a subclass: getters of gradients."""
    names = [name for name in ("_base", "grad", "_grad") if hasattr(Tensor, name)]
    getters: list[Any] = [getattr(Tensor, name) for name in names]
    return {getter.__get__ for getter in getters}


# Of `distributed`: with one process a handler is all that can answer.
_OF_DISTRIBUTED = frozenset(
    "all_gather all_gather_coalesced all_gather_single all_reduce all_reduce_coalesced all_to_all "
    "all_to_all_single broadcast gather irecv isend recv reduce reduce_scatter "
    "reduce_scatter_single scatter send".split()
)
_NAMESPACES = (
    "",
    "functional",
    "nn.functional",
    "nn.init",
    "Tensor",
    "linalg",
    "fft",
    "special",
    "distributed",
)

# Functions whose names begin with an underscore, and that handlers are asked about nevertheless.
_PRIVATE = frozenset(
    "_assert_async _conj_copy _functional_assert_async _fused_rms_norm _native_batch_norm_legit "
    "_indices_copy _values_copy _neg_view_copy _reshape_alias_copy _rowwise_prune".split()
)
# Functions of torch's that are not there, and so not in `dir`: a handler may answer for them.
_LISTED_TOO = sorted({*_PRIVATE, *ABSENT_FUNCTIONS, *names_of("")})
# Of `nn.init`, those that offer themselves; the others call them.
_OF_INIT = frozenset(("constant_", "kaiming_uniform_", "normal_", "uniform_"))


def _namespaces() -> Iterator[tuple[str, Any]]:
    torch = _torch()
    for path in _NAMESPACES:
        namespace = torch
        for part in filter(None, path.split(".")):
            namespace = getattr(namespace, part)
        yield f"torch.{path}" if path else "torch", namespace


_ONLY = {"torch.nn.init": _OF_INIT, "torch.distributed": _OF_DISTRIBUTED}


def _may_be_overridden(place: str, name: str) -> bool:
    if place in _ONLY:
        return name in _ONLY[place]
    return place == "torch.Tensor" or not name.startswith("_") or name in _PRIVATE


@functools.cache
def _by_namespace() -> dict[str, dict[str, Any]]:
    """The functions that can be overridden, by namespace and name."""
    ignored, found = get_ignored_functions(), {}
    for place, namespace in _namespaces():
        functions: dict[str, Any] = {}
        names = {*dir(namespace), *(_LISTED_TOO if place == "torch" else _ONLY.get(place, ()))}
        for name in sorted(filter(functools.partial(_may_be_overridden, place), names)):
            value: Any = getattr(namespace, name, None)
            if place == "torch.Tensor" and not callable(value) and hasattr(value, "__get__"):
                value = value.__get__  # of a property; handlers are told its getter
            if isinstance(value, Absent) and name.islower():
                functions[name] = value  # a handler may answer for what is not there
            if isinstance(value, type) or not callable(value) or value in ignored:
                continue
            if isinstance(value, types.FunctionType | types.MethodWrapperType):
                functions[name] = value
        found[place] = functions
    return found


def get_overridable_functions() -> dict[Any, list[Callable[..., object]]]:
    """By namespace, the functions that classes and modes can answer."""
    spaces = dict(_namespaces())
    return {spaces[place]: list(found.values()) for place, found in _by_namespace().items()}


def resolve_name(f: Callable[..., object]) -> str | None:
    """Where PyTorch has a function, ``torch.Tensor.add``; None if nowhere."""
    if isinstance(f, OpOverload | OpOverloadPacket):
        return str(f)
    if not isinstance(f, Hashable):
        return None
    return _names().get(f) or _name_elsewhere(f)


@functools.cache
def _names() -> dict[Callable[..., object], str]:
    """The functions that can be overridden with their names; of several names, the last counts."""
    named: dict[Callable[..., object], str] = {}
    for place, functions in _by_namespace().items():
        for name, function in functions.items():
            if isinstance(function, types.MethodWrapperType):
                member: Any = function.__self__  # a property; its setter is named likewise
                named[member.__get__] = f"{place}.{name}.__get__"
                named[member.__set__] = f"{place}.{name}.__set__"
            else:
                named[function] = f"{place}.{name}"
    return named


def _name_elsewhere(f: Callable[..., object]) -> str | None:
    """The name of what modes alone are offered, as factories are, or of what `dir` leaves out."""
    name = getattr(f, "__name__", "")
    if not name or isinstance(f, types.MethodWrapperType):
        return None
    for place, space in _namespaces():
        # `functional` hands on what is not its own.
        if place != "torch.functional" and getattr(space, name, None) is f:
            return f"{place}.{name}"
    return None


def get_testing_overrides() -> dict[Callable[..., object], Callable[..., object]]:
    """For each function that can be overridden, one of the same parameters that gives -1."""
    found: dict[Callable[..., object], Callable[..., object]] = {}
    for functions in _by_namespace().values():
        for function in functions.values():
            found[function] = _like(function)
    return found


def _like(function: Callable[..., object]) -> Callable[..., object]:
    def dummy(*args: object, **kwargs: object) -> int:
        return -1

    with contextlib.suppress(ValueError, TypeError):  # of builtins without a signature
        dummy.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # inspect's
    return dummy


redispatch_function = redispatch

__all__ = [
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]
__getattr__ = forward(__name__, "maquette.dispatch.torch_function", spellings=without_underscores)
