"""Layers of a model for inference: convolutions and linear layers take their batch norms in."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node
from maquette.fx.tracing.tracer import Tracer, symbolic_trace
from maquette.nn import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    Dropout,
    Linear,
)
from maquette.nn.base import Module
from maquette.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval


def _parent_name(target: str) -> tuple[str, str]:
    """A path's parent, "" at the top, and its last part."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node and its first argument are calls of modules of exactly two types."""
    kinds = list(pattern)
    if not node.args:
        return False
    for kind, current in zip(kinds, (node.args[0], node)):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if type(modules.get(str(current.target))) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Put a module in the place of the one that a node calls."""
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


_FUSED: tuple[tuple[type, type, Any], ...] = (
    (Conv1d, BatchNorm1d, fuse_conv_bn_eval),
    (Conv2d, BatchNorm2d, fuse_conv_bn_eval),
    (Conv3d, BatchNorm3d, fuse_conv_bn_eval),
    (Linear, BatchNorm1d, fuse_linear_bn_eval),
)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """A model in which a convolution or linear layer, alone before a batch norm, does its work.

    For models in eval mode. inplace: change ``model``; no_trace: it is a `GraphModule` already. A
    norm without running statistics stays.
    """
    model = model if inplace else copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules: dict[Any, Any] = dict(traced.named_modules())
    for first, second, fused in _FUSED:
        for node in list(traced.graph.nodes):
            if not matches_module_pattern((first, second), node, modules):
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if len(node.args[0].users) > 1 or not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fused(layer, norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    return GraphModule(traced, traced.graph)


def remove_dropout(model: Module) -> Module:
    """A model without its `Dropout` modules, which give what they are given."""
    traced = symbolic_trace(model)
    modules: dict[Any, Any] = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    return GraphModule(traced, traced.graph)


def extract_subgraph(
    orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module of some nodes of another's graph: of ``inputs``, giving a list of ``outputs``."""
    graph = Graph()
    known = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        known[node] = graph.node_copy(node, lambda n: known[n])
    graph.output([known[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> Module:
    """A model for inference: batch norms fused, dropout gone.

    pass_config: ``{"conv_bn_fuse": bool, "remove_dropout": bool}``, both true unless said. There is
    no other layout of memory here, so PyTorch's ``"mkldnn_layout_optimize"`` changes nothing.
    """
    asked = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if asked["conv_bn_fuse"]:
        model = fuse(model)
    if asked["remove_dropout"]:
        model = remove_dropout(model)
    kept = tracer()
    graph = kept.trace(copy.deepcopy(model))
    return GraphModule(kept.root, graph)


class UnionFind:
    """Sets of numbers below ``n`` that are joined; each is known by one of its members."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size: list[int] = [0] * n

    def make_set(self, v: int) -> None:
        """Let a number be a set of its own."""
        self.parent[v], self.size[v] = v, 1

    def find(self, v: int) -> int:
        """The member by which a number's set is known."""
        above = self.parent[v]
        assert above is not None, f"{v} is in no set: call make_set first"
        if above != v:
            above = self.parent[v] = self.find(above)
        return above

    def join(self, a: int, b: int) -> int:
        """Make one set of two; the larger one's member stands for it."""
        a, b = self.find(a), self.find(b)
        if a != b:
            if self.size[a] < self.size[b]:
                a, b = b, a
            self.parent[b] = a
            self.size[a] += self.size[b]
        return a


__all__ = [
    "UnionFind",
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]
