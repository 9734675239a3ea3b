"""`split_by_tags`: a module cut into submodules by the ``tag`` of each node."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule, _assign_attr, _get_attr
from maquette.fx.node import Node, map_arg
from maquette.fx.passes.tools_common import is_node_output_tensor
from maquette.nn.base import Module


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj: Any, name: str) -> Any:
    """What stands at a dotted path from ``obj``; None where a part of the path is missing."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj: Any, attr: str, value: object) -> None:
    """Set what stands at a dotted path from ``obj``, all but the last part of which exists."""
    *parents, last = attr.split(".")
    for part in parents:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@compatibility(is_backward_compatible=False)
@dataclass
class Component:
    """One submodule in the making.

    order: its place among the submodules; orig_inputs, orig_outputs: the nodes of the whole graph
    that it takes and gives; input_placeholders: its own nodes for the former; getattr_maps: for
    attributes of the whole graph its own nodes; gm: the module, when it is made.
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


@compatibility(is_backward_compatible=False)
def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """A module that calls one submodule for each tag, in the order of ``tags``.

    Each node but placeholders, attributes and the output has a ``tag``, and takes nothing from a
    node whose tag comes later, else AssertionError. return_fqn_mapping: also give, for each path
    that a submodule uses, its path in the result. return_tuple: submodules give tuples even of one
    value. GraphModuleCls: what the submodules and the result are.
    """
    splitting = _Splitting(gm, tags)
    for node in gm.graph.nodes:
        splitting.place(node)
    return splitting.assembled(return_fqn_mapping, return_tuple, GraphModuleCls)


class _Splitting:
    """One `split_by_tags` at work."""

    def __init__(self, gm: GraphModule, tags: Sequence[str]) -> None:
        self.gm = gm
        self.components = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
        self.owner: dict[Node, Component] = {}
        self.copies: dict[Node, Node] = {}  # in the submodules
        self.main = Graph()
        self.in_main: dict[Node, Node] = {}

    def place(self, node: Node) -> None:
        """Put a node into the graph in which it belongs."""
        if node.op == "placeholder":
            self.in_main[node] = self.main.node_copy(node)
        elif node.op == "output":
            for used in node.all_input_nodes:
                self._give(used)
        elif node.op != "get_attr":
            tag = getattr(node, "tag", None)
            assert tag is not None, f"split_by_tags: the node {node.name} has no tag"
            assert tag in self.components, f"split_by_tags: {tag!r} is not among the tags"
            owner = self.owner[node] = self.components[tag]
            self.copies[node] = owner.graph.node_copy(node, lambda n: self._taken(n, owner))
            self.copies[node].tag = tag  # type: ignore[attr-defined]  # programs set it, too

    def _give(self, node: Node) -> None:
        """Let a node's submodule give its value."""
        owner = self.owner.get(node)
        if owner is not None and node not in owner.orig_outputs:
            owner.orig_outputs.append(node)

    def _taken(self, node: Node, by: Component) -> Node:
        """A node of the whole graph, as a submodule has it."""
        if node.op == "get_attr":
            if node not in by.getattr_maps:
                by.getattr_maps[node] = by.graph.node_copy(node)
            return by.getattr_maps[node]
        owner = self.owner.get(node)
        if owner is by:
            return self.copies[node]
        if node not in by.orig_inputs:
            assert owner is None or owner.order < by.order, (
                f"split_by_tags: {by.name} takes {node.name} of {owner.name}, which comes later"
            )
            self._give(node)
            by.orig_inputs.append(node)
            by.input_placeholders.append(self._placeholder(node, by))
        return by.input_placeholders[by.orig_inputs.index(node)]

    def _placeholder(self, node: Node, by: Component) -> Node:
        known = by.input_placeholders
        place = by.graph.inserting_after(known[-1] if known else None)
        with place if known else by.graph.inserting_before(next(iter(by.graph.nodes), None)):
            made = by.graph.placeholder(node.name, type_expr=node.type)
        made.meta = node.meta.copy()
        return made

    def assembled(self, mapping: bool, as_tuple: bool, cls: type[GraphModule]) -> Any:
        paths: dict[str, str] = {}
        root = Module()
        for component in self.components.values():
            if not component.orig_outputs and not len(component.graph.nodes):
                continue
            self._finish(component, as_tuple, cls)
            root.add_module(component.name, component.gm)
            for node in component.graph.nodes:
                if node.op in ("call_module", "get_attr"):
                    paths[str(node.target)] = f"{component.name}.{node.target}"
        self._finish_main(root)
        made = cls(root, self.main)
        return (made, paths) if mapping else made

    def _finish(self, component: Component, as_tuple: bool, cls: type[GraphModule]) -> None:
        given = tuple([self.copies[n] for n in component.orig_outputs])
        single = len(given) == 1 and not as_tuple
        component.graph.output(given[0] if single else given)
        component.gm = cls(self.gm, component.graph)
        taken = tuple([self.in_main[n] for n in component.orig_inputs])
        call = self.main.call_module(component.name, taken)
        for i, node in enumerate(component.orig_outputs):
            self.in_main[node] = (
                call if single else self.main.call_function(operator.getitem, (call, i))
            )

    def _finish_main(self, root: Module) -> None:
        last = next(n for n in self.gm.graph.nodes if n.op == "output")

        def given(node: Node) -> Node:
            if node.op == "get_attr" and node not in self.in_main:
                self.in_main[node] = self.main.node_copy(node)
                _assign_attr(_get_attr(self.gm, str(node.target)), root, str(node.target))
            return self.in_main[node]

        self.main.output(map_arg(last.args[0], given), type_expr=last.type)


@compatibility(is_backward_compatible=False)
def move_non_tensor_nodes_on_boundary(subgraphs: list[Any]) -> None:
    """Move nodes that give no tensor and stand at the end of a subgraph to where they are used.

    A node moves from an accelerator's subgraph to the next one, where all of its users are later
    and none is in its own: no subgraph then has to hand on anything but tensors.
    """
    place = {n: i for i, s in enumerate(subgraphs) for n in s.nodes}
    for i in range(len(subgraphs) - 1):
        if not subgraphs[i].is_acc:
            continue
        for node in reversed(list(subgraphs[i].nodes)):
            users = [place[u] for u in node.users if u in place]
            if not is_node_output_tensor(node) and users and min(users) > i:
                subgraphs[i].nodes.remove(node)
                subgraphs[i + 1].nodes.insert(0, node)
                place[node] = i + 1


__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]
