"""Sizes of what nodes hold and give, and targets exchanged throughout a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, Target
from maquette.fx.passes.shape_prop import ShapeProp
from maquette.fx.shapes import TensorMetadata
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Let each node of one op and target be of another; the arguments stay."""
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target
    fx_module.recompile()


@compatibility(is_backward_compatible=False)
class size_bytes(NamedTuple):  # PyTorch's name
    """The bytes of what a node gives, and of that with the parameters that it holds."""

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(fx_module: GraphModule, args: list[Tensor] | None = None) -> None:
    """Note in each node but the output its ``size_bytes``; args: run on them first."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        setattr(node, "size_bytes", get_size_of_node(fx_module, node))  # noqa: B010  # as PyTorch


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> Any:
    """What `ShapeProp` noted of a node; RuntimeError where it did not run."""
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return found


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """A node's bytes: of its result and, of a module, of its parameters."""
    held = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[str(node.target)]
        held = sum(p.numel() * p.element_size() for p in module.parameters())
    given = _bytes_of(get_tensor_meta(node))
    return size_bytes(given, given + held)


def _bytes_of(meta: Any) -> int:
    if isinstance(meta, TensorMetadata):
        count = 1
        for n in meta.shape:
            count *= n
        return count * meta.dtype.itemsize
    return sum(_bytes_of(m) for m in meta)


__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]
