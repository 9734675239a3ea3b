"""Symbols in a trace: which node gives a size, and nodes for expressions of sizes.

A symbolic number is made of symbols, and each of these is a size, stride or offset of some tensor
in the graph, or what an operator such as ``item`` gave. The one idea: nothing is recorded while the
program computes with sizes; where one becomes the argument of a node, nodes for its expression are
added, once for each expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from maquette.core.symbols import SymbolicNode, node_of
from maquette.dispatch.registry import ops
from maquette.fx.node import Node
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.graph import Graph

aten = ops.aten


class SymbolNodes:
    """The symbolic numbers of one trace."""

    def __init__(self) -> None:
        self.graph: Graph | None = None
        self._nodes: dict[Hashable, Node] = {}
        # Where a number is to be had that no node gives yet.
        self._sources: dict[Hashable, tuple[Any, Node, Callable[..., Any], int | None, Any]] = {}

    def note(self, number: Any, node: Node) -> None:
        """Say that ``node`` gives a symbolic number."""
        self._nodes.setdefault(_key(number), node)

    def note_sizes(self, t: Tensor, node: Node) -> None:
        """Say that ``node`` gives a tensor, whose sizes, strides and offset may be symbols."""
        meta = t.meta
        for dim, size in enumerate(meta.shape):
            if size.__class__ is not int:
                self._note_source(size, node, aten.sym_size.int, dim)
        for dim, stride in enumerate(meta.strides):
            if stride.__class__ is not int:
                self._note_source(stride, node, aten.sym_stride.int, dim)
        if meta.offset.__class__ is not int:
            self._note_source(meta.offset, node, aten.sym_storage_offset.default, None)

    def _note_source(
        self, number: Any, node: Node, query: Callable[..., Any], dim: int | None
    ) -> None:
        key = _key(number)
        self._sources.setdefault(key, (number, node, query, dim, None))

    def find(self, number: Any) -> Node | None:
        """The node that gives a symbolic number, made if need be; None where nothing gives it."""
        key = _key(number)
        known = self._nodes.get(key)
        if known is not None:
            return known
        made = self._from_source(key) or self._from_expression(number)
        if made is not None:
            self._nodes[key] = made
        return made

    def _from_source(self, key: Hashable) -> Node | None:
        found = self._sources.get(key)
        if found is None:
            return None
        number, node, query, dim, _ = found
        assert self.graph is not None
        made = self.graph.call_function(
            query, (node,) if dim is None else (node, dim), name=_name_of(query)
        )
        made.meta["val"] = number
        return made

    def _from_expression(self, number: Any) -> Node | None:
        """Nodes that compute an expression from its parts."""
        node: SymbolicNode | None = node_of(number)
        parts = getattr(node, "as_calls", None)
        if parts is None or self.graph is None:
            return None
        graph = self.graph

        def call(function: Callable[..., Any], args: tuple[Any, ...]) -> Node:
            return graph.call_function(function, args)

        made: Node | None = parts(self.find, call)
        if made is not None:
            made.meta["val"] = number
        return made


def _name_of(query: Any) -> str:
    return str(query.__name__).replace(".", "_").removesuffix("_default")


def _key(number: Any) -> Hashable:
    node = node_of(number)
    assert node is not None
    return node.intern_key()


__all__ = ["SymbolNodes", "operator"]
