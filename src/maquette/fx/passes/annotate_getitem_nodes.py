"""Types of the members that a graph takes out of annotated results."""

from __future__ import annotations

import operator
import typing

from maquette.fx.graph import Graph


def annotate_getitem_nodes(graph: Graph) -> None:
    """Give each ``getitem`` of an annotated tuple, list or NamedTuple the member's type."""
    for node in graph.nodes:
        if node.target is not operator.getitem:
            continue
        whole, index = node.args
        kind = getattr(whole, "type", None)
        if kind is None or not isinstance(index, int):
            continue
        arguments = typing.get_args(kind)
        origin = typing.get_origin(kind)
        if origin is tuple:
            open_ended = len(arguments) == 2 and arguments[1] is Ellipsis
            node.type = arguments[0 if open_ended else index]
        elif origin is list:
            node.type = arguments[0]
        elif hasattr(kind, "_fields"):
            node.type = typing.get_type_hints(kind)[kind._fields[index]]


__all__ = ["annotate_getitem_nodes"]
