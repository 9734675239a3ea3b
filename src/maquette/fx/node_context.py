"""What stands around a node, for messages: the lines before it, the modules that it came of."""

from __future__ import annotations

from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node


@compatibility(is_backward_compatible=False)
def lazy_format_graph_code(
    name: str, gm: GraphModule, maybe_id: int | None = None, **kwargs: Any
) -> LazyText:
    """A title and a module's readable code, as text that is made when it is asked for."""
    title = name if maybe_id is None else f"{name} {maybe_id}"

    def text() -> str:
        shown = gm.print_readable(print_output=False, **kwargs)
        return f"TRACED GRAPH\n ===== {title} =====\n {gm.forward.__code__.co_filename} {shown}"

    return LazyText(text)


class LazyText:
    """Text that a function makes when it is asked for."""

    def __init__(self, text: Any) -> None:
        self._text = text

    def __str__(self) -> str:
        return str(self._text())


def first_call_function_nn_module_stack(graph: Graph) -> dict[str, Any] | None:
    """The modules that the first called function with some came of; None without."""
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            found: dict[str, Any] = node.meta["nn_module_stack"]
            return found
    return None


def get_node_context(node: Node, num_nodes: int = 2) -> str:
    """The lines of the ``num_nodes`` nodes that end with ``node``."""
    lines: list[str] = []
    current = node
    while len(lines) < num_nodes and current.op != "root":
        lines.append(str(current.format_node()))
        current = current.prev
    return "\n".join(reversed(lines))


__all__ = ["first_call_function_nn_module_stack", "get_node_context", "lazy_format_graph_code"]
