"""Private functions of ``torch._C`` that are called from outside PyTorch all the same.

Questions about memory, about the backward that is under way, and about what a thread holds.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from typing import Any

from maquette.api.from_schema import find_function
from maquette.autograd.engine import current_run
from maquette.autograd.grad_mode import is_multithreading_enabled
from maquette.autograd.grad_mode import set_recording as _set_grad_enabled
from maquette.autograd.node import AccumulateGrad, Node
from maquette.core.determinism import Determinism
from maquette.core.device import cpu, device
from maquette.core.errors import check
from maquette.dispatch.abstract import disabled_torch_dispatch, disabled_torch_function
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.keysets import DispatchKeySet
from maquette.dispatch.modes import no_dispatch
from maquette.dispatch.overrides import enable_python_dispatcher
from maquette.dispatch.stacks.quiet import function_mode_stack
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    TorchFunctionState,
    pop_mode,
    push_mode,
    set_torch_function_state,
    torch_function_state,
)
from maquette.nn import functional
from maquette.nn.base.conversion import parse_to
from maquette.symbolic.nested_ints import NestedInt
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import temporarily_clear_interpreter_stack

_get_nested_int = NestedInt
_push_on_torch_function_stack = push_mode
_pop_torch_function_stack = pop_mode
_DisableTorchDispatch = no_dispatch
_DisableFuncTorch = temporarily_clear_interpreter_stack
# What classes set their handlers to, to switch them off.
_disabled_torch_function_impl = disabled_torch_function
_disabled_torch_dispatch_impl = disabled_torch_dispatch


class _AutoDispatchBelowAutograd:
    """Excludes every Autograd key from where it is made until it is deleted, or a block ends.

    `maquette.dispatch.AutoDispatchBelowAutograd` acts for a block alone.
    """

    __slots__ = ("_guard",)

    def __init__(self) -> None:
        self._guard: AutoDispatchBelowAutograd | None = AutoDispatchBelowAutograd()
        self._guard.__enter__()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.__exit__(None, None, None)

    def __del__(self) -> None:
        self.__exit__()


class _EnablePythonDispatcher:
    """`enable_python_dispatcher` from when it is made until it is let go."""

    __slots__ = ("_block",)

    def __init__(self) -> None:
        self._block = enable_python_dispatcher()
        self._block.__enter__()

    def __del__(self) -> None:
        self._block.__exit__(None, None, None)


# --- memory ----------------------------------------------------------------------------------


def _storage_address(t: Tensor) -> int:
    """A number that tensors over one storage share."""
    return t.untyped_storage()._cdata


_storage_id = _storage_address


def _dispatch_key_set(t: Tensor) -> str:
    """The keys of a tensor, as PyTorch writes them."""
    return repr(DispatchKeySet.from_raw_repr(t._keys))


def _data_address(t: Tensor) -> int:
    """The address of the first element; asking copies nothing."""
    if t._storage.data is None:
        return 0
    return t._storage.address() + t.storage_offset() * t.element_size()


def _is_cow_tensor(t: Tensor) -> bool:
    """Whether the tensor's memory is shared with a lazy clone until either is mutated."""
    return t._storage.lazy_copies is not None


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode of functions is active in the thread."""
    st = tls.st
    return bool(st.function_modes or st.quiet_modes)


def _len_torch_function_stack() -> int:
    """How many function modes are active in the thread."""
    return len(function_mode_stack())


def _get_function_stack_at(level: int) -> object:
    """The function mode at a level, counted from the outermost."""
    return function_mode_stack()[level]


def _is_alias_of(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share their memory."""
    return a._storage is b._storage


class _OfAllStorages(type):
    """The type of `StorageBase`, which in PyTorch every storage of bytes derives from."""

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, UntypedStorage) if cls is StorageBase else cls in kind.__mro__


class StorageBase(UntypedStorage, metaclass=_OfAllStorages):
    """The base of storage classes of programs; it is not made itself."""

    def __new__(cls, *args: object, **kwargs: object) -> StorageBase:
        if cls is StorageBase:
            raise RuntimeError(
                "Cannot directly construct StorageBase; subclass it and then construct that"
            )
        return super().__new__(cls)


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, t: Tensor) -> None:
        self._reference = weakref.ref(t)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


# --- backward --------------------------------------------------------------------------------


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Switch forward mode on or off in this thread."""
    tls.st.forward_enabled = enabled


def _current_graph_task_id() -> int:
    """The number of the backward that is under way; -1 outside of backward."""
    run = current_run()
    return -1 if run is None else run.number


def _current_autograd_node() -> Node | None:
    """The node that is being run; None outside of backward."""
    run = current_run()
    return None if run is None else run.node


def _current_graph_task_execution_order() -> list[Node]:
    """The nodes of the backward that is under way, in the order in which they run."""
    run = current_run()
    if run is None:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if is_multithreading_enabled():
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with "
            "multithreading disabled, e.g. by running: with "
            "torch.autograd.set_multithreading_enabled(False): ..."
        )
    return run.execution_order()


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the backward that is under way runs a node, and does not just pass it by."""
    if not isinstance(node, Node):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    run = current_run()
    if run is None:
        raise RuntimeError(
            "_will_engine_execute_node should only be called during the backward pass"
        )
    if isinstance(node, AccumulateGrad) and not run.accumulate and node in run.captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported."
        )
    if run.needed is None or node in run.needed:
        return run.will_run(node)
    return node in run.captures and (isinstance(node, AccumulateGrad) or run.accumulate)


_cached: dict[int, weakref.ref[Tensor]] = {}


def _set_cached_tensors_enabled(enabled: bool) -> None:
    """Nothing: what is cached is told apart by the list alone."""


def _add_cached_tensor(t: Tensor) -> None:
    """Note that a tensor is kept by a cache, whose reference is nobody's use of it."""
    number = id(t)
    _cached[number] = weakref.ref(t, lambda _: _cached.pop(number, None))


def _remove_cached_tensor(t: Tensor) -> None:
    """Undo `_add_cached_tensor`, however often it was called."""
    _cached.pop(id(t), None)


def _is_cached_tensor(t: Tensor) -> bool:
    """Whether a tensor was given to `_add_cached_tensor`."""
    return id(t) in _cached


def _is_key_in_tls(name: str) -> bool:
    """Whether this thread keeps an object by a name."""
    return name in vars(_held)


# --- overriding ------------------------------------------------------------------------------


_TorchFunctionState = TorchFunctionState


def _get_torch_function_state() -> TorchFunctionState:
    """Who is asked to override functions in this thread."""
    return torch_function_state()


def _set_torch_function_state(state: TorchFunctionState) -> None:
    """Say who is asked to override functions in this thread."""
    set_torch_function_state(state)


# --- settings and what threads hold ----------------------------------------------------------

_held = threading.local()


def _stash_obj_in_tls(name: str, value: Any) -> None:
    """Keep an object by name in this thread."""
    vars(_held)[name] = value


def _get_obj_in_tls(name: str) -> Any:
    """What this thread keeps by a name."""
    return vars(_held)[name]


def _get_deterministic_fill_uninitialized_memory() -> bool:
    """`torch.utils.deterministic.fill_uninitialized_memory`."""
    return Determinism.fill_uninitialized_memory


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    """Set `torch.utils.deterministic.fill_uninitialized_memory`."""
    check(type(mode) is bool, lambda: f"expected a bool, but got {type(mode).__name__}")
    Determinism.fill_uninitialized_memory = mode


def _get_privateuse1_backend_name() -> str:
    """The name of the device type that a program may bring."""
    return "privateuseone"


def _warn_deprecation() -> None:
    """Warn of something deprecated, as a test of the way that warnings take."""
    warnings.warn("Test message for TORCH_WARN_DEPRECATION", DeprecationWarning, stacklevel=2)


def _log_api_usage_once(event: str) -> None:
    """Nothing: nobody counts."""


def _get_tracing_state() -> None:
    """None: nothing is being traced for a script compiler."""


def _is_tracing() -> bool:
    """False: nothing is being traced for a script compiler."""
    return False


def _get_accelerator(check: bool | None = None) -> device:
    """The device that programs would run on: cpu."""
    return cpu


def _set_math_sdp_allow_fp16_bf16_reduction(allow: bool) -> None:
    """Nothing: products of half precision are summed in float32."""


def _jit_set_profiling_executor(on: bool) -> bool:
    """False, what it was before: there is no script compiler."""
    return False


_jit_set_profiling_mode = _jit_set_texpr_fuser_enabled = _jit_set_profiling_executor
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_executor
_jit_set_autocast_mode = _jit_set_profiling_executor
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_set_profiling_executor


def _jit_can_fuse_on_cpu() -> bool:
    """False."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu


class _Nn:
    """`torch._C._nn`: the private functions of modules that programs call."""

    @staticmethod
    def _parse_to(*args: object, **kwargs: object) -> tuple[object, object, bool, object]:
        """The arguments of `Module.to`: device, dtype, non_blocking, memory_format."""
        found = parse_to(*args, **kwargs)
        return found.device, found.dtype, found.non_blocking, found.format

    def __getattr__(self, name: str) -> object:
        written = getattr(functional, name, None)
        if getattr(written, "as_written", False):
            return written  # an operator's own function
        found = find_function(name) or written
        if found is None:
            raise AttributeError(
                f"module 'torch._C._nn' has no attribute '{name}': maquette does not have it"
            )
        return found


_nn = _Nn()


def _warn() -> None:
    """Warn, as a test of the way that warnings take."""
    warnings.warn("Test message for TORCH_WARN", UserWarning, stacklevel=2)


__all__ = [
    "StorageBase",
    "_is_alias_of",
    "_get_function_stack_at",
    "_is_torch_function_mode_enabled",
    "_len_torch_function_stack",
    "_pop_torch_function_stack",
    "_push_on_torch_function_stack",
    "_AutoDispatchBelowAutograd",
    "_DisableFuncTorch",
    "_DisableTorchDispatch",
    "_EnablePythonDispatcher",
    "_WeakTensorRef",
    "_current_autograd_node",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "_current_graph_task_execution_order",
    "_is_key_in_tls",
    "_will_engine_execute_node",
    "_dispatch_key_set",
    "_TorchFunctionState",
    "_current_graph_task_id",
    "_get_torch_function_state",
    "_set_torch_function_state",
    "_data_address",
    "_get_accelerator",
    "_get_tracing_state",
    "_is_tracing",
    "_jit_can_fuse_on_cpu",
    "_jit_can_fuse_on_gpu",
    "_jit_override_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu",
    "_jit_set_autocast_mode",
    "_jit_set_nvfuser_enabled",
    "_jit_set_nvfuser_guard_mode",
    "_jit_set_profiling_executor",
    "_jit_set_profiling_mode",
    "_jit_set_texpr_fuser_enabled",
    "_log_api_usage_once",
    "_set_grad_enabled",
    "_set_math_sdp_allow_fp16_bf16_reduction",
    "_get_deterministic_fill_uninitialized_memory",
    "_get_nested_int",
    "_get_obj_in_tls",
    "_get_privateuse1_backend_name",
    "_is_cow_tensor",
    "_nn",
    "_add_cached_tensor",
    "_remove_cached_tensor",
    "_is_cached_tensor",
    "_set_cached_tensors_enabled",
    "_set_deterministic_fill_uninitialized_memory",
    "_storage_id",
    "_set_fwd_grad_enabled",
    "_stash_obj_in_tls",
    "_storage_address",
    "_warn",
    "_warn_deprecation",
]
