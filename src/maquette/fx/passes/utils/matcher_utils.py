"""`SubgraphMatcher`: where a graph contains a pattern, which is a graph too.

Matching begins at what the pattern returns and follows arguments, node by node; a placeholder of
the pattern matches anything.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node
from maquette.nn.base import Module


@compatibility(is_backward_compatible=False)
@dataclass
class InternalMatch:
    """A place where a pattern occurs.

    anchors: the pattern's nodes from which matching began. nodes_map: nodes of the pattern to nodes
    of the graph. placeholder_nodes, returning_nodes: nodes of the graph that the pattern takes and
    gives. name_node_map: nodes of the graph by the names that the pattern returns them under.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Any] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            anchors=self.anchors,
            nodes_map=self.nodes_map.copy(),
            placeholder_nodes=self.placeholder_nodes.copy(),
            returning_nodes=self.returning_nodes.copy(),
        )


@compatibility(is_backward_compatible=False)
class SubgraphMatcher:
    """Finds a pattern in graphs.

    match_output: the pattern's output is the graph's. match_placeholder: placeholders match
    placeholders only. remove_overlapping_matches: of two that share nodes, the first alone.
    ignore_literals: numbers in arguments match any others.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and len(node.users) == 0:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        if match_output:
            self.pattern_anchors: list[Node] = [output]
        else:
            # What the pattern gives and does not use itself; else one result is enough.
            self.pattern_anchors = [n for n in output.all_input_nodes if len(n.users) == 1]

    # --- one node --------------------------------------------------------------------

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        mine = _attribute(pn.graph.owning_module, str(pn.target))
        other = _attribute(gn.graph.owning_module, str(gn.target))
        if isinstance(mine, Module):
            return type(mine) is type(other)
        return type(mine) is type(other) or (mine is None) == (other is None)

    def _nodes_are_equal(self, pn: Node, gn: Node) -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        if pn.op == "call_module":
            mine = _attribute(pn.graph.owning_module, str(pn.target))
            return mine is None or type(mine) is type(
                _attribute(gn.graph.owning_module, str(gn.target))
            )
        return bool(pn.target == gn.target)

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node):
            if pn in match.nodes_map:
                return bool(match.nodes_map[pn] == gn)
            if pn.op == "placeholder" and not isinstance(gn, Node) and not self.match_placeholder:
                match.nodes_map[pn] = gn
                return True
            return False
        if isinstance(gn, Node):
            return False
        return bool(type(pn) is type(gn) and pn == gn) or self.ignore_literals

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if gn in match.nodes_map.values():
            return False
        if not self._nodes_are_equal(pn, gn):
            return False
        saved = copy.copy(match)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        matched = self._match_arguments(pn, gn, match)
        if not matched:
            match.nodes_map = saved.nodes_map
        return matched

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        mine, other = _by_name(pn), _by_name(gn)
        if mine is not None and other is not None:
            if mine.keys() != other.keys():
                return False
            return all(self._match_values(mine[k], other[k], match) for k in mine)
        if len(pn.args) != len(gn.args) or pn.kwargs.keys() != gn.kwargs.keys():
            return False
        pairs = [*zip(pn.args, gn.args), *((pn.kwargs[k], gn.kwargs[k]) for k in pn.kwargs)]
        return all(self._match_values(a, b, match) for a, b in pairs)

    def _match_values(self, a: Any, b: Any, match: InternalMatch) -> bool:
        if isinstance(a, Node) and isinstance(b, Node):
            return self._match_nodes(a, b, match)
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            return len(a) == len(b) and all(self._match_values(x, y, match) for x, y in zip(a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._match_values(a[k], b[k], match) for k in a)
        return self._match_literals(a, b, match)

    # --- all -------------------------------------------------------------------------

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All places where the pattern occurs, in the graph's order.

        node_name_match: only where a node has this in its name.
        """
        candidates = {
            anchor: [n for n in graph.nodes if self._nodes_are_equal(anchor, n)]
            for anchor in self.pattern_anchors
        }
        found = [
            match
            for match in self._all_matches(list(candidates.items()), self._empty())
            if self._is_whole(match)
        ]
        kept = [m for m in found if self._stands_apart(m)]
        if node_name_match:
            kept = [
                m
                for m in kept
                if any(
                    isinstance(n, Node) and node_name_match in n.name for n in m.nodes_map.values()
                )
            ]
        return _without_overlaps(kept) if self.remove_overlapping_matches else kept

    def _empty(self) -> InternalMatch:
        return InternalMatch(anchors=self.pattern_anchors)

    def _all_matches(
        self, anchors: list[tuple[Node, list[Node]]], match: InternalMatch
    ) -> Iterator[InternalMatch]:
        if not anchors:
            yield match
            return
        (pattern_node, candidates), *rest = anchors
        for node in candidates:
            further = copy.copy(match)
            if self._match_nodes(pattern_node, node, further):
                yield from self._all_matches(rest, further)

    def _is_whole(self, match: InternalMatch) -> bool:
        """Note what the match takes and gives; whether it has all that the pattern has."""
        if not all(n in match.nodes_map for n in self.pattern_returning_nodes):
            return False
        if not all(n in match.nodes_map for n in self.pattern_placeholder_nodes):
            return False
        match.placeholder_nodes = [match.nodes_map[n] for n in self.pattern_placeholder_nodes]
        match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
        return True

    def _stands_apart(self, match: InternalMatch) -> bool:
        """Whether nothing outside uses what is inside, but for what the pattern gives."""
        ours = {id(n) for n in match.nodes_map.values()}
        outer = {id(n) for n in (*match.placeholder_nodes, *match.returning_nodes)}
        inner = [
            gn
            for pn, gn in match.nodes_map.items()
            if isinstance(gn, Node) and pn.op != "placeholder" and id(gn) not in outer
        ]
        return all(
            id(user) in ours for node in inner for user in node.users if node.op != "get_attr"
        )


def _without_overlaps(matches: list[InternalMatch]) -> list[InternalMatch]:
    kept: list[InternalMatch] = []
    taken: set[int] = set()
    for match in matches:
        own = {
            id(gn)
            for pn, gn in match.nodes_map.items()
            if isinstance(gn, Node) and pn.op not in ("placeholder", "output", "get_attr")
        }
        if own & taken:
            continue
        taken |= own
        kept.append(match)
    return kept


def _by_name(node: Node) -> dict[str, Any] | None:
    """The arguments of an operator by the names of its parameters; None for other targets."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or node.op != "call_function":
        return None
    found: dict[str, Any] = {}
    for i, argument in enumerate(schema.arguments):
        if argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        elif i < len(node.args) and not argument.kwarg_only:
            found[argument.name] = node.args[i]
        elif argument.has_default_value():
            default = argument.default_value
            found[argument.name] = list(default) if isinstance(default, tuple) else default
    return found


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A matcher for patterns that also return a dict of names: matches know nodes by these."""

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern, self.name_node_map = _split_names(pattern_gm)
        super().__init__(
            pattern.graph, match_output, match_placeholder, remove_overlapping_matches,
            ignore_literals,
        )  # fmt: skip

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """See `SubgraphMatcher.match`."""
        found = super().match(graph, node_name_match)
        for match in found:
            match.name_node_map = {
                name: match.nodes_map[node] for name, node in self.name_node_map.items()
            }
        return found


def _split_names(pattern: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """The pattern without the dict of names at the end of what it returns, and that dict."""
    pattern = copy.deepcopy(pattern)
    output = next(iter(reversed(pattern.graph.nodes)))
    *values, names = output.args[0] if isinstance(output.args[0], list | tuple) else output.args
    assert isinstance(names, dict), (
        "SubgraphMatcherWithNameNodeMap requires the last output to be a dict of names to nodes"
    )
    output.args = (tuple(values),)
    pattern.recompile()
    return pattern, names
