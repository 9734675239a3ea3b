"""Programs as graphs: `Graph` and its nodes, `symbolic_trace`, `make_fx`, `Interpreter`.

Names only; what each file has is said at its beginning.
"""

import importlib
from typing import Any

from maquette.fx import immutable_collections, traceback
from maquette.fx.codegen import CodeGen, PythonCode
from maquette.fx.graph import Graph, PyTreeCodeGen
from maquette.fx.graph_module import GraphModule
from maquette.fx.interpreter import Interpreter, Transformer
from maquette.fx.node import Node, has_side_effect, map_arg
from maquette.fx.saving import from_json, to_json
from maquette.fx.tracing import proxy
from maquette.fx.tracing.operator_tracing import make_fx
from maquette.fx.tracing.proxy import Proxy
from maquette.fx.tracing.tracer import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap

# Modules that few programs need, and PyTorch's names for modules of ours.
_MODULES = {
    **{
        name: name for name in ("decompositions", "operator_schemas", "passes", "subgraph_rewriter")
    },
    "_compatibility": "compatibility",
    "_pytree": "pytree_spec",
    "_symbolic_trace": "tracing.tracer",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "replace_pattern"})


def __getattr__(name: str) -> Any:
    if name == "replace_pattern":
        return importlib.import_module(f"{__name__}.subgraph_rewriter").replace_pattern
    place = _MODULES.get(name)
    if place is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return importlib.import_module(f"{__name__}.{place}")


__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "PyTreeCodeGen",
    "PythonCode",
    "Tracer",
    "Transformer",
    "from_json",
    "has_side_effect",
    "make_fx",
    "immutable_collections",
    "map_arg",
    "proxy",
    "replace_pattern",
    "symbolic_trace",
    "to_json",
    "traceback",
    "wrap",
]
