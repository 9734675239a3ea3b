"""`replace_pattern`: find a subgraph wherever it occurs, and put another in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from maquette.core import pytree
from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule, copy_attribute
from maquette.fx.node import Node
from maquette.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from maquette.fx.tracing.tracer import symbolic_trace
from maquette.nn.base import Module

Program = Callable[..., Any] | Graph | GraphModule


@compatibility(is_backward_compatible=True)
class Match(NamedTuple):
    """A replaced occurrence: the node that it began from, and the pattern's nodes to its own."""

    anchor: Node
    nodes_map: dict[Node, Node]


@compatibility(is_backward_compatible=False)
@dataclass
class ReplacedPatterns:
    """A replaced occurrence, with the nodes that came in its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@compatibility(is_backward_compatible=True)
def replace_pattern(gm: GraphModule, pattern: Program, replacement: Program) -> list[Match]:
    """Replace every occurrence of ``pattern`` that overlaps no earlier one; the occurrences.

    pattern, replacement: functions, graphs or modules of the same parameters. The first is found by
    what it calls; its parameters stand for any values.
    """
    done = _replace(gm, pattern, replacement)
    return [Match(m.anchor, m.nodes_map) for m in done]


@compatibility(is_backward_compatible=False)
def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Program,
    replacement: Program | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` of those occurrences that all ``match_filters`` pass.

    ignore_literals: numbers in the pattern stand for any others. replacement_callback: gives the
    replacement of one occurrence.
    """
    return _replace(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback,
        node_name_match,
    )  # fmt: skip


def _graph_of(program: Program) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    if isinstance(program, Graph):
        return program
    return symbolic_trace(program).graph


def _replace(
    gm: GraphModule,
    pattern: Program,
    replacement: Program | None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    graph = gm.graph
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(
        pattern_graph,
        match_output=False,
        match_placeholder=False,
        remove_overlapping_matches=True,
        ignore_literals=ignore_literals,
    )
    matches = [
        m
        for m in matcher.match(graph, node_name_match)
        if all(keep(m, graph, pattern_graph) for keep in match_filters or ())
    ]
    common = None if replacement is None else _graph_of(replacement)
    changed: dict[Node, Node] = {}  # what earlier replacements have put in a node's place
    done: list[ReplacedPatterns] = []
    for match in matches:
        if replacement_callback is not None:
            new = replacement_callback(match, graph, pattern_graph)
        else:
            assert common is not None, "Must provide either a replacement GraphModule or callback"
            new = common
        done.append(_replace_one(graph, match, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return done


def _replace_one(
    graph: Graph, match: InternalMatch, new: Graph, changed: dict[Node, Node]
) -> ReplacedPatterns:
    parameters = [n for n in new.nodes if n.op == "placeholder"]
    given = match.placeholder_nodes
    assert len(parameters) == len(given), (
        f"the replacement takes {len(parameters)} values and the pattern {len(given)}"
    )
    values = {
        p: (changed.get(v, v) if isinstance(v, Node) else v) for p, v in zip(parameters, given)
    }
    own = {
        gn
        for pn, gn in match.nodes_map.items()
        if isinstance(gn, Node) and pn.op not in ("placeholder", "output")
    }
    first = _insertion_point(graph, match, own)
    before = set(graph.nodes)
    with graph.inserting_before(first):
        copied = graph.graph_copy(new, values)
    results = [n for n in pytree.tree_leaves(copied) if isinstance(n, Node)]
    assert len(match.returning_nodes) == len(results), (
        f"the replacement gives {len(results)} values and the pattern {len(match.returning_nodes)}"
    )
    for old, made in zip(match.returning_nodes, results):
        old.replace_all_uses_with(made)
        changed[old] = made
    for node in reversed(graph.nodes):
        if node in own and not node.users:
            graph.erase_node(node)
    fresh = [n for n in graph.nodes if n not in before]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, fresh)


def _insertion_point(graph: Graph, match: InternalMatch, own: set[Node]) -> Node:
    """The node before which all that the replacement takes is there: the first user of a result."""
    users = [user for node in match.returning_nodes for user in node.users if user not in own]
    if users:
        return min(users)
    last = max(own) if own else next(iter(reversed(graph.nodes)))
    return last._next


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Give the module what the replacement's nodes name, and take away what nothing names now."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        path = str(node.target)
        if _there(gm, path):
            continue
        if not _there(replacement, path):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{path}, but the referenced attribute does not exist in the replacement "
                f"GraphModule"
            )
        copy_attribute(replacement, gm, path)
    gm.graph.lint()


def _there(module: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True
