"""The tables of rules, by the function or the class of module that they are for.

Three kinds of rule: what type a node has, which sizes are equal, and which size is a formula of
others. A rule of a function takes the node; a rule of a module takes the node and the module (but
for equalities, where the node is all). A rule may return the type or set it on the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from maquette.fx.graph_module import GraphModule
    from maquette.fx.node import Node

F = TypeVar("F", bound=Callable[..., Any])
Table = dict[Any, Callable[..., Any]]

INFERENCE_RULES: Table = {}
REFINEMENT_RULES: Table = {}
ALGEBRAIC_RULES: Table = {}


def register_inference_rule(call_target: Any) -> Callable[[F], F]:
    """A decorator: the function says the type of nodes that call ``call_target``."""
    return _registering(INFERENCE_RULES, "Inference rule", call_target)


def register_refinement_rule(call_target: Any) -> Callable[[F], F]:
    """A decorator: the function lists the `Equality`s that hold at nodes that call the target."""
    return _registering(REFINEMENT_RULES, "Refinement rule", call_target)


def register_algebraic_expressions_inference_rule(call_target: Any) -> Callable[[F], F]:
    """A decorator: the function gives a node's type with formulas of its arguments' sizes."""
    return _registering(ALGEBRAIC_RULES, "Rule", call_target)


def _registering(table: Table, kind: str, target: Any) -> Callable[[F], F]:
    def register(rule: F) -> F:
        if target in table:
            raise RuntimeError(f"{kind} already registered for {target}!")
        table[target] = rule
        return rule

    return register


def rule_and_arguments(
    table: Table, node: Node, traced: GraphModule
) -> tuple[Callable[..., Any] | None, tuple[Any, ...]]:
    """The table's rule for a call, or None, and what it is called with."""
    if node.op == "call_function":
        return table.get(node.target), (node,)
    module = traced.get_submodule(str(node.target))
    return table.get(type(module)), (node, module)
