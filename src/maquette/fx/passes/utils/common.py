"""Small helpers of passes."""

from __future__ import annotations

from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.passes.utils.matcher_utils import SubgraphMatcher
from maquette.nn.base import Module


@compatibility(is_backward_compatible=False)
class HolderModule(Module):
    """A module that only holds others, by name."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


@compatibility(is_backward_compatible=False)
def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of a part of another one's graph, with what that part names.

    Also gives, for each path in the new module, the path in the old one.
    """
    paths: dict[str, str] = {}
    holder = HolderModule({})
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        at: Any = gm
        to: Any = holder
        *prefix, last = target.split(".")
        for name in prefix:
            at = getattr(at, name)
            if not hasattr(to, name):
                to.add_module(name, HolderModule({}))
            to = getattr(to, name)
        setattr(to, last, getattr(at, last))
        paths[target] = f"{comp_name}.{target}" if comp_name else target
    return GraphModule(holder, subgraph, class_name), paths


@compatibility(is_backward_compatible=False)
def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs do the same in the same way."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
