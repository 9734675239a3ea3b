"""Modules of graphs that write their code when they are first called.

Every `GraphModule` here does, so PyTorch's class for it is another name of that; the blocks that
choose one are kept for programs that open them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maquette.fx.graph_module import GraphModule

_LazyGraphModule = GraphModule


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """For a block: PyTorch chooses here what `_make_graph_module` makes."""
    yield


@contextmanager
def _force_skip_lazy_graph_module() -> Iterator[None]:
    """For a block: PyTorch makes no lazy modules in it."""
    yield


def _get_graph_module_cls() -> type[GraphModule]:
    """The class that `_make_graph_module` makes."""
    return GraphModule


def _make_graph_module(
    *args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any
) -> GraphModule:
    """A module of a graph, of a class of the caller's choice."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


__all__: list[str] = []
