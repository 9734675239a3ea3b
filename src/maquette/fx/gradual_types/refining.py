"""`Refine`: names for the sizes that a checked graph leaves open, and what must hold for them."""

from __future__ import annotations

import itertools
from operator import attrgetter
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.gradual_types.registry import (
    ALGEBRAIC_RULES,
    REFINEMENT_RULES,
    rule_and_arguments,
)
from maquette.fx.gradual_types.unification import Equality, Var, mapped
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, map_arg
from maquette.fx.tensor_type import Dyn, TensorType

_CALLS = ("call_function", "call_module")


@compatibility(is_backward_compatible=False)
class Refine:
    """Refines the types of a graph that `GraphTypeChecker` has checked.

    constraints: the equalities between sizes that `refine` finds.
    """

    def __init__(self, traced: GraphModule) -> None:
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count(0)

    def refine(self) -> bool:
        """Name all unknown sizes and gather the equalities; True."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def symbolic_relations(self) -> bool:
        """SymPy symbols for all names, and formulas where a rule knows one; True."""
        for node in self.traced.graph.nodes:
            self.infer_symbolic_relations(node)
        return True

    def refine_node(self, n: Node) -> None:
        """Name the node's unknown sizes and gather the equalities that hold at it."""
        if n.op == "output":
            n.type = map_arg(n.args[0], attrgetter("type"))
            return
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        if n.op in _CALLS:
            rule, arguments = rule_and_arguments(REFINEMENT_RULES, n, self.traced)
            if rule is not None:
                self.constraints.extend(rule(arguments[0]))

    def infer_symbolic_relations(self, n: Node) -> None:
        """SymPy symbols for the node's names, or its formula."""
        if n.op == "output":
            n.type = map_arg(n.args[0], attrgetter("type"))
            return
        n.type = self.convert_to_sympy_symbols(n.type)
        if n.op in _CALLS:
            rule, arguments = rule_and_arguments(ALGEBRAIC_RULES, n, self.traced)
            known = None if rule is None else rule(*arguments)
            n.type = n.type if known is None else known

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """The type with a new name for each unknown."""
        if typ == Dyn:
            return Var(next(self.symbol_iter))
        return self._of_parts(typ, self.replace_dyn_with_fresh_var)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """The type with a SymPy symbol of the same text for each name."""
        if isinstance(typ, Var):
            import sympy

            return sympy.symbols(str(typ))
        return self._of_parts(typ, self.convert_to_sympy_symbols)

    def _of_parts(self, typ: Any, function: Any) -> Any:
        if isinstance(typ, TensorType):
            return TensorType(tuple([function(size) for size in typ.__args__]))
        return mapped(typ, function, typ)
