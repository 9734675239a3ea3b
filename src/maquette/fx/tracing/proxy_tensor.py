"""`torch.fx.experimental.proxy_tensor`: tracing of operators under PyTorch's names."""

from __future__ import annotations

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
    "has_proxy_slot",
    "make_fx",
    "maybe_disable_proxy_mode",
    "set_proxy_slot",
    "track_tensor",
    "track_tensor_tree",
    "wrap_key",
]
