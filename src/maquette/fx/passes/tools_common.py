"""Names of targets, and graphs put in an order in which they can run."""

from __future__ import annotations

from collections.abc import Mapping

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, _get_qualified_name
from maquette.nn.base import Module


@compatibility(is_backward_compatible=False)
def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of what a node calls: a method's, a function's, the type of a module."""
    if node.op == "call_module":
        kind = type(submodules[str(node.target)])
        return f"{kind.__module__}.{kind.__name__}".replace("maquette.nn", "torch.nn")
    if node.op == "call_function":
        assert not isinstance(node.target, str)
        return _get_qualified_name(node.target)
    return str(node.target)


@compatibility(is_backward_compatible=False)
def legalize_graph(gm: GraphModule) -> GraphModule:
    """Order a module's nodes so that each comes after its inputs, else as they were.

    RuntimeError where they depend on each other in a circle.
    """
    last = next(n for n in gm.graph.nodes if n.op == "output")
    placed: set[Node] = set()
    left = dict.fromkeys(n for n in gm.graph.nodes if n is not last)
    while left:
        node = next((n for n in left if placed.issuperset(n.all_input_nodes)), None)
        if node is None:
            names = ", ".join(n.name for n in left)
            raise RuntimeError(f"the nodes {names} depend on each other in a circle")
        last.prepend(node)
        placed.add(node)
        del left[node]
    return gm


stable_topological_sort = legalize_graph

__all__ = ["get_node_target", "legalize_graph", "stable_topological_sort"]
