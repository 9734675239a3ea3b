"""Parts of a graph that came of one module or function (`get_source_partitions`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.node import Node


@compatibility(is_backward_compatible=False)
@dataclass
class SourcePartition:
    """Nodes that came of one call of ``source``.

    input_nodes: what they take from outside; output_nodes: those of them that are used outside;
    params: the attributes among what they take.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


@compatibility(is_backward_compatible=False)
def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """For each wanted source that a graph has, its calls' parts.

    A node's source is the last of its ``meta["source_fn_stack"]``, or of ``"torch_fn"``; without
    either, the type or path of the module of its ``"nn_module_stack"``. filter_fn: only parts of
    which no node is refused by it.
    """
    calls: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        for source, name in _sources_of(node):
            if source in wanted_sources:
                calls.setdefault(source, {}).setdefault(name, []).append(node)
                break
    found = {s: [_partition(nodes, s) for nodes in by.values()] for s, by in calls.items()}
    if filter_fn is None:
        return found
    kept = {s: [p for p in parts if all(map(filter_fn, p.nodes))] for s, parts in found.items()}
    return {s: parts for s, parts in kept.items() if parts}


def _sources_of(node: Node) -> list[tuple[Any, str]]:
    """What a node may have come of, each with the name of the call."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        name, source = stack[-1]
        return [(source, name)]
    found = []
    named = node.meta.get("torch_fn")
    if named:
        name, source = named
        found += [(source, name), (source.rpartition(".")[2], name)]
    for path, kind in reversed(list((node.meta.get("nn_module_stack") or {}).values())):
        found.append((kind, path))
    return found


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    taken = dict.fromkeys(i for n in nodes for i in n.all_input_nodes if i not in inside)
    given = [n for n in nodes if any(u not in inside for u in n.users)]
    params = [n for n in taken if n.op == "get_attr"]
    inputs = [n for n in taken if n.op != "get_attr"]
    params += [n for n in nodes if n.op == "get_attr"]
    return SourcePartition(nodes, source, inputs, given, params)


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether a node of the second takes the result of one of the first."""
    return any(i in subgraph1.nodes for n in subgraph2.nodes for i in n.all_input_nodes)


__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]
