"""Graphs as data: records for pickle and JSON, and packages of Python on disk.

A graph is a list of records, one a node, in which other nodes are numbers; so its length does not
matter, and a record can be read by eye. JSON holds what can be named: operators and functions by
their public names, dtypes, devices and plain values; nothing of what is loaded is run.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.core import dtype as dtypes
from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.size import Size
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import OpOverloadPacket
from maquette.dispatch.registry import ops
from maquette.fx.codegen import builtin_value
from maquette.fx.names import public_module, qualified_name
from maquette.fx.node import Argument, Node, map_arg
from maquette.nn.base import Module
from maquette.tensor import saving as tensor_saving
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.graph import Graph
    from maquette.fx.graph_module import GraphModule


class _Reference(NamedTuple):
    """A node in the arguments of a record, by its number."""

    number: int


class NodeRecord(NamedTuple):
    """A node without its links."""

    op: str
    name: str
    target: Any
    args: Any
    kwargs: Any
    type: Any
    meta: dict[str, Any]


class GraphRecords(NamedTuple):
    """A graph as data: its nodes, and how it is written as code."""

    nodes: list[NodeRecord]
    codegen: Any
    tracer_cls: Any


# --- pickle ----------------------------------------------------------------------------------

_NOT_KEPT = ("val", "example_value", "nn_module_stack", "source_fn_stack", "from_node")


def records_of(graph: Graph) -> GraphRecords:
    """A graph as data for pickle; what belongs to a run (fake values) is left behind."""
    numbers = {node: _Reference(i) for i, node in enumerate(graph.nodes)}
    records = [
        NodeRecord(
            node.op,
            node.name,
            node.target,
            map_arg(node.args, numbers.__getitem__),
            dict(map_arg(node.kwargs, numbers.__getitem__)),
            node.type,
            {k: v for k, v in node.meta.items() if k not in _NOT_KEPT},
        )
        for node in graph.nodes
    ]
    local = "<locals>" in getattr(graph._tracer_cls, "__qualname__", "")
    tracer_cls = None if local else graph._tracer_cls  # a local class cannot be pickled
    return GraphRecords(records, graph._codegen, tracer_cls)


def load_graph(records: GraphRecords) -> Graph:
    """The graph of its records."""
    from maquette.fx.graph import Graph  # noqa: PLC0415  # graphs pickle themselves by this module

    graph = Graph(tracer_cls=records.tracer_cls)
    graph._codegen = records.codegen
    made: list[Node] = []
    for record in records.nodes:
        node = graph.create_node(
            record.op,
            record.target,
            _resolved(record.args, made),
            _resolved(record.kwargs, made),
            record.name,
            record.type,
        )
        node.meta.update(record.meta)
        made.append(node)
    return graph


def _resolved(value: Argument, made: list[Node]) -> Any:
    if isinstance(value, _Reference):
        return made[value.number]
    if isinstance(value, dict):
        return {k: _resolved(v, made) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*[_resolved(part, made) for part in (value.start, value.stop, value.step)])
    if isinstance(value, list):
        return [_resolved(v, made) for v in value]
    if isinstance(value, tuple):
        parts = [_resolved(v, made) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def load_module(
    base: type[GraphModule], name: str, state: dict[str, Any], records: GraphRecords
) -> GraphModule:
    """The graph module of what its pickle holds."""
    made = base.__new__(base)
    Module.__init__(made)
    made.__dict__.update(state)
    made.__class__.__name__ = name
    made.graph = load_graph(records)
    return made


RECORDS = "_maquette_graph"
"""By which the state of a pickled graph module has its graph, in bytes that PyTorch passes over."""


def records_in_bytes(base: type[GraphModule], graph: Graph, code: str) -> bytes:
    """A graph with the class of its module, good for as long as the module has this code."""
    return pickle.dumps((code, base, records_of(graph)))


def records_of_code(
    pickled: bytes, code: str | None
) -> tuple[type[GraphModule], GraphRecords] | None:
    """What `records_in_bytes` wrote; None if the code has changed since, in PyTorch."""
    written_for, base, records = pickle.loads(pickled)  # beside code, which the file is trusted for
    return (base, records) if written_for == code else None


def import_block(names: dict[str, Any]) -> str:
    """The imports that generated code needs, as PyTorch reads them."""
    lines = (_import_of(name, obj) for name, obj in names.items() if name != "__builtins__")
    return "".join(f"{line}\n" for line in lines)


def imports_from_here(block: str) -> str:
    """An `import_block` whose torch is maquette, installed or not."""
    block = re.sub(r"^import torch$", "import maquette.torch as torch", block, flags=re.M)
    return re.sub(r"^(import|from) torch\b", r"\1 maquette.torch", block, flags=re.M)


def _import_of(name: str, obj: Any) -> str:
    if name in _IMPORTS:
        return _IMPORTS[name]
    if inspect.ismodule(obj):
        return f"import {public_module(obj.__name__)} as {name}"
    module = public_module(getattr(obj, "__module__", None) or type(obj).__module__)
    own = getattr(obj, "__name__", name)
    return f"from {module} import {own} as {name}"


_IMPORTS = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "torch": "import torch",
    "device": "from torch import device",
    "fx_pytree": "import torch.fx._pytree as fx_pytree",
    "pytree": "import torch.utils._pytree as pytree",
}


# --- JSON ------------------------------------------------------------------------------------

_FORMAT = 1
_PLAIN = (str, bool, int, type(None))


def to_json(graph: Graph, **options: Any) -> str:
    """A graph as JSON text; ``options`` are `json.dumps`'s.

    Raises TypeError, which names the node, for what has no name: a lambda, a tensor.
    """
    numbers = {node: i for i, node in enumerate(graph.nodes)}
    nodes = [_node_as_json(node, numbers) for node in graph.nodes]
    return json.dumps({"format": _FORMAT, "nodes": nodes}, **options)


def _node_as_json(node: Node, numbers: dict[Node, int]) -> dict[str, Any]:
    try:
        target = node.target if isinstance(node.target, str) else _named(node.target)
        made: dict[str, Any] = {"op": node.op, "name": node.name, "target": target}
        made["args"] = [_as_json(a, numbers) for a in node.args]
        made["kwargs"] = {k: _as_json(v, numbers) for k, v in node.kwargs.items()}
    except TypeError as error:
        error.add_note(f"It is in the node {node.format_node()}")
        raise
    if node.stack_trace:
        made["stack_trace"] = node.stack_trace
    return made


def _named(function: Any) -> dict[str, str]:
    if isinstance(function, OpOverload):
        return {"operator": function.name(), "overload": function._overloadname}
    if isinstance(function, OpOverloadPacket):
        return {"operator": function._qualified_op_name}
    try:
        return {"function": qualified_name(function)}
    except (RuntimeError, AttributeError):
        raise TypeError(
            f"a graph as JSON names its functions, and {function!r} has no public name; use pickle"
        ) from None


def _as_json(value: Argument, numbers: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return {"node": numbers[value]}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, list):
        return [_as_json(v, numbers) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [_as_json(v, numbers) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_as_json(k, numbers), _as_json(v, numbers)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [_as_json(v, numbers) for v in (value.start, value.stop, value.step)]}
    for kind, names in (("dtype", dtype), ("layout", layout), ("memory_format", memory_format)):
        if isinstance(value, names):
            return {kind: str(value).rpartition(".")[2]}
    if isinstance(value, device):
        return {"device": str(value)}
    if value is ...:
        return {"ellipsis": True}
    if callable(value):
        return _named(value)
    raise TypeError(
        f"a graph as JSON holds plain values, and not a {type(value).__name__}; use pickle"
    )


def from_json(text: str) -> Graph:
    """The graph that `to_json` wrote; ValueError for any other text."""
    from maquette.fx.graph import Graph  # noqa: PLC0415  # graphs pickle themselves by this module

    data = json.loads(text)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ValueError("this is no graph as maquette.fx writes it: there is no known 'format'")
    graph = Graph()
    made: list[Node] = []
    for record in data["nodes"]:
        target = record["target"]
        args = tuple([_from_json(a, made) for a in record["args"]])
        kwargs = {k: _from_json(v, made) for k, v in record["kwargs"].items()}
        target = target if isinstance(target, str) else _from_json(target, made)
        node = graph.create_node(record["op"], target, args, kwargs, record["name"])
        if "stack_trace" in record:
            node.stack_trace = record["stack_trace"]
        made.append(node)
    return graph


def _from_json(value: Any, made: list[Node]) -> Any:
    if isinstance(value, list):
        return [_from_json(v, made) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner), *rest) = value.items()
    read = _READERS.get(kind)
    if read is not None:
        return read(inner)
    if kind == "node":
        return made[inner]
    if kind == "tuple":
        return tuple([_from_json(v, made) for v in inner])
    if kind == "dict":
        return {_from_json(k, made): _from_json(v, made) for k, v in inner}
    if kind == "slice":
        return slice(*[_from_json(v, made) for v in inner])
    if kind == "operator":
        namespace, _, name = inner.partition("::")
        packet = getattr(getattr(ops, namespace), name.partition(".")[0])
        return getattr(packet, dict(rest)["overload"]) if rest else packet
    raise ValueError(f"a graph as JSON has no values of kind {kind!r}")


def _function(name: str) -> Any:
    """A function by the name that generated code has for it."""
    if "." not in name:
        return getattr(importlib.import_module("builtins"), name)
    head, *path = name.split(".")
    if head == "torch":
        found = builtin_value("torch")
    elif head == "operator":
        found = importlib.import_module(head)
    else:
        raise ValueError(
            f"{name} is a function of a program; a graph as JSON calls those of torch, operator "
            f"and Python itself only, since loading data must not import what it names"
        )
    for part in path:
        found = getattr(found, part)
    return found


_READERS = {
    "float": float.fromhex,
    "complex": lambda parts: complex(*map(float.fromhex, parts)),
    "dtype": lambda name: getattr(dtypes, f"{name}_" if name == "bool" else name),
    "layout": lambda name: getattr(importlib.import_module(layout.__module__), name),
    "memory_format": lambda name: getattr(importlib.import_module(layout.__module__), name),
    "device": device,
    "ellipsis": lambda _: ...,
    "function": _function,
}


# --- folders ---------------------------------------------------------------------------------

_PLAIN_MODULES = ("Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "ReLU")


def write_folder(module: GraphModule, folder: Path, class_name: str) -> None:
    """See `GraphModule.to_folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tensor_saving.save(module.state_dict(), folder / "state_dict.pt")
    lines: list[str] = []
    for name, child in module.named_children():
        file = folder / f"{name}.pt"
        file.write_bytes(pickle.dumps(child))
        lines.append(f"self.{name} = pickle.loads(Path(r'{file}').read_bytes())")
    for name, buffer in module.named_buffers(recurse=False):
        lines.append(f"self.register_buffer('{name}', {_empty(buffer)})")
    for name, parameter in module.named_parameters(recurse=False):
        lines.append(f"self.{name} = torch.nn.Parameter({_empty(parameter)})")
    lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
    code = module.code.replace("\n", "\n    ")
    body = "\n        ".join(["super().__init__()", *lines])
    source = (
        "import pickle\nfrom pathlib import Path\n\nimport maquette.torch as torch\n"
        "from maquette.torch.nn import *\n\n\n"
        f"class {class_name}(torch.nn.Module):\n"
        f"    def __init__(self):\n        {body}\n    {code}\n"
    )
    (folder / "module.py").write_text(source)
    (folder / "__init__.py").write_text("from .module import *\n")


def _empty(t: Tensor) -> str:
    return f"torch.empty({list(t.shape)}, dtype={t.dtype})"


__all__ = ["Size", "from_json", "inspect", "load_graph", "load_module", "records_of", "to_json"]
