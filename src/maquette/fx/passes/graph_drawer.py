"""`FxGraphDrawer`: a graph as a picture, made by the pydot package."""

from __future__ import annotations

import hashlib
import importlib
from typing import Any

from maquette.core.dtype import dtype
from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, _get_qualified_name
from maquette.fx.shapes import TensorMetadata

_COLORS = (
    "AliceBlue chartreuse1 cyan darkslategray1 gold khaki lavender lemonchiffon1 lightpink "
    "mistyrose palegreen1 peachpuff thistle1"
).split()
_FILL = {
    "placeholder": "AliceBlue",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
    "call_module": "LightSteelBlue1",
}


@compatibility(is_backward_compatible=False)
class FxGraphDrawer:
    """Draws a module's graph, and those of its submodules, as pydot's ``Dot``.

    name: of the picture; ignore_getattr: leave attributes out; ignore_parameters_and_buffers: do
    not list what modules hold; skip_node_names_in_args: write arguments that are nodes as values
    only; parse_stack_trace: write the source line, where one is known; dot_graph_shape: of the
    nodes. RuntimeError without pydot.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        try:
            self._pydot: Any = importlib.import_module("pydot")
        except ImportError as error:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot "
                "through your favorite Python package manager."
            ) from error
        self._name = name
        self.ignore_getattr = ignore_getattr
        self.ignore_parameters_and_buffers = ignore_parameters_and_buffers
        self.skip_node_names_in_args = skip_node_names_in_args
        self.parse_stack_trace = parse_stack_trace
        self.normalize_args = normalize_args
        self.dot_graph_shape = dot_graph_shape or "record"
        self._dot_graphs = {name: self._drawn(graph_module, name)}
        for path, child in graph_module.named_children():
            if isinstance(child, GraphModule):
                self._dot_graphs[f"{name}_{path}"] = self._drawn(child, f"{name}_{path}")

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The picture of the module, or of a submodule, named ``{name}_{path}``."""
        return self._dot_graphs[self._name if submod_name is None else submod_name]

    def get_main_dot_graph(self) -> Any:
        """The picture of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The picture of a submodule."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All pictures, by name."""
        return self._dot_graphs

    def _drawn(self, module: GraphModule, name: str) -> Any:
        dot = self._pydot.Dot(name, rankdir="TB")
        shown = [n for n in module.graph.nodes if n.op != "get_attr" or not self.ignore_getattr]
        for node in shown:
            dot.add_node(
                self._pydot.Node(node.name, label=self._label(module, node), **self._style(node))
            )
        for node in shown:
            for user in node.users:
                dot.add_edge(self._pydot.Edge(node.name, user.name))
        return dot

    def _style(self, node: Node) -> dict[str, str]:
        color = _FILL.get(node.op)
        if color is None:  # one color for all calls of a target
            text = str(node._pretty_print_target(node.target))
            color = _COLORS[int(hashlib.md5(text.encode()).hexdigest()[:8], 16) % len(_COLORS)]
        weight = {"penwidth": "2"} if node.op == "call_module" else {}
        return {
            "shape": self.dot_graph_shape,
            "fillcolor": color,
            "style": '"filled,rounded"',
            "fontcolor": "#000000",
            **weight,
        }

    def _label(self, module: GraphModule, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            kind = module.get_submodule(str(node.target))
            lines.append(f"op={type(kind).__name__}")
            if not self.ignore_parameters_and_buffers:
                held = [*kind.named_parameters(recurse=False), *kind.named_buffers(recurse=False)]
                lines += [f"{k}: {list(t.shape)}" for k, t in held]
        target = node.target
        lines.append(f"target={target if isinstance(target, str) else _get_qualified_name(target)}")
        for what, values in (("args", node.args), ("kwargs", node.kwargs)):
            text = self._arguments(values)
            lines += [f"{what}={text}"] if text else []
        lines.append(f"num_users={len(node.users)}")
        lines += self._meta(node)
        if self.parse_stack_trace and node.stack_trace:
            lines.append("file=" + node.stack_trace.strip().splitlines()[0].strip())
        body = r"\n".join(_escaped(line) for line in lines)
        return "{" + body + r"\n}" if self.dot_graph_shape == "record" else body

    def _arguments(self, values: Any) -> str:
        pairs = list(values.items() if isinstance(values, dict) else enumerate(values))
        if self.skip_node_names_in_args:
            pairs = [(k, v) for k, v in pairs if not isinstance(v, Node)]
        return ", ".join(f"{k}: {v}" if isinstance(k, str) else str(v) for k, v in pairs)

    def _meta(self, node: Node) -> list[str]:
        found = node.meta.get("tensor_meta")
        if isinstance(found, TensorMetadata):
            return [f"dtype={_dtype(found.dtype)}", f"shape={tuple(found.shape)}",
                    f"stride={tuple(found.stride)}"]  # fmt: skip
        return []


def _dtype(kind: dtype) -> str:
    return str(kind)


def _escaped(text: str) -> str:
    for mark in "{}<>|":
        text = text.replace(mark, "\\" + mark)
    return text.replace('"', '\\"')


__all__ = ["FxGraphDrawer"]
