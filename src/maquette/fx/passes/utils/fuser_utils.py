"""Parts of a graph made modules of their own, called in their place."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node
from maquette.fx.passes.tools_common import legalize_graph
from maquette.fx.passes.utils.common import lift_subgraph_as_module


@compatibility(is_backward_compatible=False)
def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Nodes of one graph in the order in which they stand there."""
    wanted = list(nodes)
    if not wanted:
        return []
    order = {node: n for n, node in enumerate(wanted[0].graph.nodes)}
    return sorted(wanted, key=order.__getitem__)


@compatibility(is_backward_compatible=False)
def validate_partition(partition: Iterable[Node]) -> bool:
    """Whether nodes can run as one: no path leads out of them and in again."""
    members = set(partition)
    seen: set[Node] = set()
    left = [u for node in members for u in node.users if u not in members]
    while left:
        node = left.pop()
        if node in members:
            return False
        if node not in seen:
            seen.add(node)
            left += list(node.users)
    return True


@compatibility(is_backward_compatible=False)
def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: Sequence[Node],
    module_name: str,
    partition_lookup_table: Any = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Nodes, in order, as a module; also the nodes that it reads, and those that others read.

    always_return_tuple: give a tuple where one result is read, too.
    """
    members = set(nodes)
    for node in nodes:
        assert node.graph.owning_module is gm, f"{node} doesn't belong to passed in graph module"
        assert not node._erased, f"{node} has been removed from owning graph"
    assert validate_partition(nodes), "Invalid partition, found dependency cycles"
    graph = Graph()
    inputs: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def value_of(node: Node) -> Node:
        if node in copies:
            return copies[node]
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, node.type)
            inputs[node].meta = node.meta.copy()
        return inputs[node]

    for outside in dict.fromkeys(i for n in nodes for i in n.all_input_nodes if i not in members):
        value_of(outside)
    for node in nodes:
        copies[node] = graph.node_copy(node, value_of)
    read = tuple([n for n in nodes if any(u not in members for u in n.users)])
    results = tuple([copies[n] for n in read])
    single = len(results) == 1 and not always_return_tuple
    graph.output(results[0] if single else results)
    graph.lint()
    module, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return module, tuple(inputs), read


@compatibility(is_backward_compatible=False)
def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Call a module, which is added to ``gm``, and have its results read for those of nodes."""
    name = type(sub_gm).__name__ if not sub_gm._get_name() else sub_gm._get_name()
    gm.add_submodule(name, sub_gm)
    place = insertion_point or max(
        orig_outputs or orig_inputs, key={n: i for i, n in enumerate(gm.graph.nodes)}.__getitem__
    )
    with gm.graph.inserting_after(place):
        call = gm.graph.call_module(name, orig_inputs)
    result = next(n for n in sub_gm.graph.nodes if n.op == "output").args[0]
    if not isinstance(result, tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    at = call
    for n, node in enumerate(orig_outputs):
        with gm.graph.inserting_after(at):
            at = gm.graph.call_function(operator.getitem, (call, n))
        node.replace_all_uses_with(at, propagate_meta=True)
    call.meta["val"] = tuple([n.meta.get("val") for n in orig_outputs])
    return gm


@compatibility(is_backward_compatible=False)
def erase_nodes(gm: GraphModule, nodes: Sequence[Node]) -> None:
    """Erase nodes, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


@compatibility(is_backward_compatible=False)
def fuse_by_partitions(
    gm: GraphModule,
    partitions: Sequence[Iterable[Node]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Make each set of nodes a module, called ``fused_0`` and so on; the module is changed.

    AssertionError where a set cannot run as one.
    """
    for n, partition in enumerate(partitions):
        nodes = topo_sort(partition)
        module, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{n}", always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, module, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
        legalize_graph(gm)
    gm.graph.lint()
    gm.recompile()
    return gm


__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]
