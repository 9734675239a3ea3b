"""Constant folding: what a graph computes from attributes alone is computed once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, map_arg
from maquette.fx.passes.split_module import split_module
from maquette.fx.tracing.tracer import symbolic_trace
from maquette.nn import ParameterList
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=False)
class FoldedGraphModule(GraphModule):
    """A module that computes its constants when it is first called, or by `run_folding`.

    const_subgraph_module: what computes them. fx_const_folded_attrs_name: the attribute that holds
    them. device_for_folded_attrs: where they are put.
    """

    def __init__(
        self,
        root: Any,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the constants if that has not been done, and run."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args)

    def run_folding(self) -> None:
        """Compute the constants."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        assert not self.has_folding_been_run, "the constants of this module have been computed"
        self.has_folding_been_run = True
        values = self.const_subgraph_module()

        def kept(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return Parameter(value, requires_grad=value.requires_grad)

        name = self.fx_const_folded_attrs_name
        if isinstance(values, tuple):
            delattr(self, name)
            setattr(self, name, ParameterList([kept(v) for v in values]))
        else:
            setattr(self, name, kept(values))


@compatibility(is_backward_compatible=False)
def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """A name like ``name`` that no attribute of the module has."""
    name = re.sub(r"[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        numbered = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if numbered is None else f"{numbered[1]}_{int(numbered[2]) + 1}"
    return name


@compatibility(is_backward_compatible=False)
def split_const_subgraphs(
    module: Module,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """A module that computes once what needs no input.

    skip_folding_node_fn: says which nodes are to be computed with the rest all the same.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant: set[Node] = set()
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr" and not set(node.all_input_nodes) <= constant:
            continue
        if skip_folding_node_fn is not None and skip_folding_node_fn(node):
            continue
        if node.is_impure():
            continue
        constant.add(node)
    folded = [n for n in constant if n.op != "get_attr"]
    if not folded:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    return _inlined(traced, split, device_for_folded_attrs)


def _inlined(traced: GraphModule, split: GraphModule, device: str) -> FoldedGraphModule:
    """The split module with its second part in its own graph, fetching what the first computes."""
    first: Any = split.submod_0
    _flatten_attributes(split, first, "submod_0")
    name = get_unique_attr_name_in_module(split, "_FX_CONST_FOLDED_ATTRS")
    setattr(split, name, Parameter(_empty(), requires_grad=False))
    for node in list(split.graph.nodes):
        if node.op == "call_module" and node.target == "submod_0":
            with split.graph.inserting_before(node):
                fetched = split.graph.get_attr(name)
                fetched.meta = node.meta.copy()
            inputs = node.all_input_nodes
            _fetch_inputs(first.graph, node.args)
            node.replace_all_uses_with(fetched)
            split.graph.erase_node(node)
            for given in inputs:
                if not given.users:
                    split.graph.erase_node(given)
    if hasattr(split, "submod_1"):
        _inline_second(split)
    split.graph.lint()
    return FoldedGraphModule(split, split.graph, first.graph, name, device)


def _fetch_inputs(graph: Graph, given: tuple[Any, ...]) -> None:
    """Have a graph fetch itself what it is given, attributes all."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node, fetch in zip(placeholders, given, strict=True):
        with graph.inserting_before(node):
            fetched = graph.create_node("get_attr", fetch.target)  # of the whole, not of the part
            fetched.meta = node.meta.copy()
        node.replace_all_uses_with(fetched)
        graph.erase_node(node)


def _empty() -> Tensor:
    return Tensor(0)


def _flatten_attributes(split: GraphModule, part: GraphModule, name: str) -> None:
    """Give the whole what a part's nodes name, under names of the whole."""
    for node in part.graph.nodes:
        if node.op not in ("get_attr", "call_module"):
            continue
        value = part
        for piece in str(node.target).split("."):
            value = getattr(value, piece)
        unique = get_unique_attr_name_in_module(split, str(node.target))
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            split.register_buffer(unique, value)
        else:
            setattr(split, unique, value)
        node.target = unique


def _inline_second(split: GraphModule) -> None:
    part: Any = split.submod_1
    _flatten_attributes(split, part, "submod_1")
    call = next(n for n in split.graph.nodes if n.op == "call_module" and n.target == "submod_1")
    given = iter(call.args)
    env: dict[Node, Any] = {}
    with split.graph.inserting_before(call):
        for node in part.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "output":
                result = map_arg(node.args[0], lambda n: env[n])
            else:
                env[node] = split.graph.node_copy(node, lambda n: env[n])
    _use_instead(split, call, result)
    del split.submod_1


def _use_instead(split: GraphModule, call: Node, result: Any) -> None:
    """Use the results of the inlined part where those of its call were used."""
    if isinstance(result, Node):
        call.replace_all_uses_with(result)
    else:
        for item in list(call.users):
            item.replace_all_uses_with(result[item.args[1]])
            split.graph.erase_node(item)
    split.graph.erase_node(call)
