"""Names of targets, graphs in an order in which they can run, nodes that belong together."""

from __future__ import annotations

from collections.abc import Mapping

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, _get_qualified_name
from maquette.nn.base import Module
from maquette.tensor.tensor import Tensor


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


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, as `ShapeProp` noted in its ``meta``."""
    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Groups of an accelerator's nodes that one subgraph must hold.

    A node that gives no tensor must be in the subgraph of its users: only tensors are handed on
    between subgraphs. A group is whole: what stands on a way from member to member is a member.
    """

    def __init__(self, module: GraphModule, acc_nodes: set[Node]) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Node, set[Node]]:
        """For each node of a group, the group; a group that meets another is one with it."""
        found: dict[Node, set[Node]] = {}
        for node in self.nodes:
            if node in self.acc_nodes and not is_node_output_tensor(node):
                group = self._group_of(node)
                for member in list(group):
                    group |= found.get(member, set())
                if group <= self.acc_nodes:
                    found.update(dict.fromkeys(group, group))
        return found

    def _group_of(self, first: Node) -> set[Node]:
        """A node, its users, theirs where they give no tensor either, and what is between."""
        group, waiting = {first}, [first]
        while waiting:
            node = waiting.pop()
            if is_node_output_tensor(node):
                continue
            new = {u for u in node.users if u.op != "output"} - group
            group |= new
            waiting += new
        below: set[Node] = set()
        for node in self.nodes:
            if node in group or any(n in below for n in node.all_input_nodes):
                below.add(node)
        above: set[Node] = set()
        for node in reversed(self.nodes):
            if node in group or any(u in above for u in node.users):
                above.add(node)
        return below & above


__all__ = [
    "FxNetAccFusionsFinder",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]
