"""`GraphTypeChecker`: a type for each node of a graph, from the types that are annotated.

What an operator makes of its arguments' types is in `rules`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.gradual_types.lattice import get_greatest_upper_bound
from maquette.fx.gradual_types.registry import INFERENCE_RULES, rule_and_arguments
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, map_arg
from maquette.fx.tensor_type import Dyn, TensorType
from maquette.tensor.tensor import Tensor


@compatibility(is_backward_compatible=False)
class GraphTypeChecker:
    """Checks a traced program whose nodes may have types, and gives each node one.

    >>> checker = GraphTypeChecker({}, symbolic_trace(module))  # doctest: +SKIP
    >>> checker.type_check()  # doctest: +SKIP
    True
    """

    def __init__(self, env: dict[Node, Any], traced: GraphModule) -> None:
        self.env = env
        self.traced = traced

    def type_check(self) -> bool:
        """Give each node its type; TypeError at the first node that no types fit."""
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Give the node its type, which the types of the nodes before it must allow.

        What is annotated holds besides what is inferred; `Tensor` as an annotation says nothing of
        sizes. RuntimeError: no rule is registered for the node's target.
        """
        if n.type is None or n.type is Tensor:
            n.type = Dyn
        if n.op == "output":
            n.type = map_arg(n.args[0], attrgetter("type"))
        elif n.op == "get_attr":
            n.type = self._type_of_attribute(str(n.target))
        elif n.op in ("call_function", "call_module"):
            self._check_call(n)
        elif n.op != "placeholder":
            raise NotImplementedError(
                f"gradual types: expected functions and modules, got the node {n.name} of kind "
                f"{n.op} ({n.target}); call a function instead"
            )
        return n.type

    def _check_call(self, node: Node) -> None:
        rule, arguments = rule_and_arguments(INFERENCE_RULES, node, self.traced)
        if rule is None:
            target = node.target if node.op == "call_function" else type(arguments[-1])
            raise RuntimeError(
                f"No inference rule registered for {target}, which the node {node.name} calls; "
                f"register_inference_rule adds one"
            )
        try:
            inferred = rule(*arguments)
            if inferred is not None:
                node.type = get_greatest_upper_bound(node.type, inferred)
        except TypeError as error:
            shown = [getattr(arg, "type", arg) for arg in node.args]
            error.add_note(f"At {node.format_node()}, whose arguments have the types {shown}.")
            raise

    def _type_of_attribute(self, path: str) -> Any:
        value: Any = self.traced
        for name in path.split("."):
            value = getattr(value, name)
        return TensorType(tuple(value.shape)) if isinstance(value, Tensor) else Dyn
