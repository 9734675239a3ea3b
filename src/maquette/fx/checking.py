"""Whether a graph is whole, and which of its nodes nothing needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maquette.fx.node import Node, map_arg

if TYPE_CHECKING:
    from maquette.fx.graph import Graph


def lint(graph: Graph) -> None:
    """See `Graph.lint`."""
    seen: set[Node] = set()
    names: set[str] = set()
    inputs_over = False
    for node in graph.nodes:
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        if node.op == "placeholder" and inputs_over:
            # Nothing runs before the inputs are there; code has them in its first line anyway.
            pass
        inputs_over = inputs_over or node.op != "placeholder"
        for used in node._input_nodes:
            _check_use(node, used, seen)
        for user in node.users:
            if node not in user._input_nodes:
                raise RuntimeError(f"Node '{node}' has the user '{user}', which does not use it")
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        names.add(node.name)
        seen.add(node)
    if graph.owning_module is not None:
        for node in graph.nodes:
            _check_target(graph.owning_module, node)


def _check_use(node: Node, used: Node, seen: set[Node]) -> None:
    if used.graph is not node.graph:
        raise RuntimeError(
            f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as "
            f"an argument! If you are copying nodes from another graph, make sure to use "
            f"``arg_transform`` on node_copy() to remap values\n{node.graph}"
        )
    if used not in seen:
        raise RuntimeError(
            f"Argument '{used}' of Node '{node}' was used before it has been defined! Please "
            f"check that Nodes in the graph are topologically ordered\n{node.graph}"
        )
    if node not in used.users:
        raise RuntimeError(f"Node '{node}' uses '{used}', which does not know it")


def _check_target(root: Any, node: Node) -> None:
    """Whether the attribute or submodule that a node names is there."""
    if node.op not in ("get_attr", "call_module"):
        return
    assert isinstance(node.target, str)
    at = root
    *path, last = node.target.split(".")
    for i, name in enumerate([*path, last]):
        if not hasattr(at, name):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {name} of "
                f"{'.'.join(path[:i])}"
            )
        at = getattr(at, name)
    if node.op == "call_module" and not callable(getattr(at, "forward", None)):
        raise RuntimeError(
            f"Node {node} target {node.target} {'.'.join(path)} of type {type(at).__name__} does "
            f"not reference an nn.Module"
        )


def eliminate_dead_code(graph: Graph, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
    """See `Graph.eliminate_dead_code`."""
    graph.lint()
    impure = is_impure_node or (lambda node: node.is_impure())
    changed = False
    for node in reversed(graph.nodes):
        if not node.users and not impure(node) and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
            changed = True
    for module in _graph_modules(graph):
        if module.graph.eliminate_dead_code(is_impure_node):
            module.recompile()
            changed = True
    return changed


def _graph_modules(graph: Graph) -> list[Any]:
    """The modules that nodes of a graph fetch or call and that are themselves graphs."""
    owner = graph.owning_module
    found: dict[int, Any] = {}
    for node in graph.nodes if owner is not None else ():
        if node.op in ("get_attr", "call_module"):
            at = owner
            for name in str(node.target).split("."):
                at = getattr(at, name, None)
            if hasattr(at, "graph") and hasattr(at, "recompile"):
                found[id(at)] = at
    return list(found.values())


__all__ = ["eliminate_dead_code", "lint", "map_arg"]
