"""`GraphTransformObserver`: what a pass makes and erases in a graph."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node

T = TypeVar("T")


@compatibility(is_backward_compatible=False)
class GraphTransformObserver:
    """For a ``with`` block around a pass: the names of the nodes that it made and erased."""

    def __init__(
        self,
        gm: GraphModule,
        passname: str,
        subsystem: str | None = None,
        log_url: str | None = None,
    ) -> None:
        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url = log_url
        self.created_nodes: set[str] = set()
        self.erased_nodes: set[str] = set()

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], T]) -> T:
        """What a pass over the module gives, observed."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], T]) -> T:
        """What a pass over the graph gives, observed."""
        with self:
            return pass_fn(self.gm.graph)

    def on_node_creation(self, node: Node) -> None:
        """Note a node that was made."""
        self.created_nodes.add(node.name)

    def on_node_erase(self, node: Node) -> None:
        """Note a node that was erased."""
        self.erased_nodes.add(node.name)

    def __enter__(self) -> GraphTransformObserver:
        self.gm._register_create_node_hook(self.on_node_creation)
        self.gm._register_erase_node_hook(self.on_node_erase)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.gm._unregister_create_node_hook(self.on_node_creation)
        self.gm._unregister_erase_node_hook(self.on_node_erase)


__all__ = ["GraphTransformObserver"]
