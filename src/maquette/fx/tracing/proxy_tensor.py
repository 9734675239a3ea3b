"""`torch.fx.experimental.proxy_tensor`: tracing of operators under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from maquette.fx.tracing.decomposing import DecompositionInterpreter
from maquette.fx.tracing.operator_tracing import (
    PythonKeyTracer,
    decompose,
    dispatch_trace,
    fake_signature,
    get_isolated_graphmodule,
    make_fx,
    wrap_key,
)
from maquette.fx.tracing.proxy_mode import (
    CONSTANT_NUMEL_LIMIT,
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    get_innermost_proxy_mode,
    get_proxy_mode,
    maybe_disable_proxy_mode,
)
from maquette.fx.tracing.tracked import (
    _ProxyTensor,
    get_proxy_slot,
    has_proxy_slot,
    set_proxy_slot,
    track_tensor,
    track_tensor_tree,
)

__all__ = [
    "CONSTANT_NUMEL_LIMIT",
    "DecompositionInterpreter",
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "_ProxyTensor",
    "decompose",
    "disable_proxy_modes_tracing",
    "dispatch_trace",
    "fake_signature",
    "get_innermost_proxy_mode",
    "get_isolated_graphmodule",
    "get_proxy_mode",
    "get_proxy_slot",
    "handle_sym_dispatch",
    "has_proxy_slot",
    "make_fx",
    "maybe_disable_proxy_mode",
    "maybe_disable_thunkify",
    "maybe_enable_thunkify",
    "set_proxy_slot",
    "track_tensor",
    "track_tensor_tree",
    "wrap_key",
]


def handle_sym_dispatch(
    func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    """Call a function of sizes in a trace; AssertionError where nothing is traced.

    Nothing more is to be done: nodes for what it computes are made when they are needed.
    """
    assert get_proxy_mode() is not None, "handle_sym_dispatch: nothing is traced by make_fx"
    return func(*args, **kwargs)


@contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """Nodes for arithmetic on sizes are made when they are needed: here they always are."""
    yield


@contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    """As `maybe_enable_thunkify`: a node that nothing needs is never made."""
    yield
