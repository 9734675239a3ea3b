"""`merge_matmul`: products with one right operand become one product."""

from __future__ import annotations

import operator
from typing import Any

from maquette.api import functions
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node
from maquette.fx.passes.tools_common import legalize_graph
from maquette.fx.tracing.tracer import symbolic_trace
from maquette.nn.base import Module
from maquette.tensor.tensor import Tensor


def split_result_tensors(result: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """The rows of a merged product that belong to each of the operands, which were joined."""
    return tuple(result.split([x.shape[0] for x in inputs], 0))


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether ``a`` depends on ``b``; also true where that takes more steps back to say."""
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(i, b, search_depth - 1) for i in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether none of the nodes may depend on another."""
    return not any(
        may_depend_on(a, b) or may_depend_on(b, a)
        for i, a in enumerate(nodes)
        for b in nodes[i + 1 :]
    )


def merge_matmul(in_mod: Module) -> GraphModule:
    """A module in which products ``x @ w`` with one ``w``, independent of each other, are one."""
    gm = symbolic_trace(in_mod)
    by_right: dict[Any, list[Node]] = {}
    for node in gm.graph.nodes:
        if node.target is functions.matmul and len(node.args) == 2:
            by_right.setdefault(node.args[1], []).append(node)
    merged = False
    for right, products in by_right.items():
        if len(products) > 1 and are_nodes_independent(products):
            _merge(gm, right, products)
            merged = True
    if merged:
        legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm


def _merge(gm: GraphModule, right: Any, products: list[Node]) -> None:
    """Join the left operands, multiply once, and hand out the parts."""
    lefts = [p.args[0] for p in products]
    graph = gm.graph
    with graph.inserting_before(products[0]):
        joined = graph.call_function(functions.cat, (lefts,), {})
        product = graph.call_function(functions.matmul, (joined, right), {})
        parts = graph.call_function(split_result_tensors, (product, lefts), {})
        each = [graph.call_function(operator.getitem, (parts, i), {}) for i in range(len(products))]
    for old, new in zip(products, each):
        old.replace_all_uses_with(new)
        graph.erase_node(old)


__all__ = [
    "are_nodes_independent",
    "may_depend_on",
    "merge_matmul",
    "split_result_tensors",
]
