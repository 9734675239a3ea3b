"""`infer_symbolic_types`: sizes that a checked graph leaves open, in terms of each other.

Under PyTorch's names of `torch.fx.experimental.unify_refinements`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maquette.fx.gradual_types.refining import Refine
from maquette.fx.gradual_types.unification import Equality, solve, substituted
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule


def infer_symbolic_types(traced: GraphModule) -> None:
    """Give the nodes types whose unknown sizes are SymPy symbols and formulas of them.

    One substitution may let operands agree that did not before, as after `BatchNorm2d` in a
    residual sum, which gives more equalities; so it goes on until none is new.
    """
    while True:
        refine = Refine(traced)
        refine.refine()
        solution = unify_eq(refine.constraints)
        if not solution:
            break
        substitute_all_types(traced.graph, solution)
    refine.symbolic_relations()


def infer_symbolic_types_single_pass(traced: GraphModule) -> None:
    """One round of `infer_symbolic_types`, which leaves the names of sizes."""
    refine = Refine(traced)
    refine.refine()
    substitute_all_types(traced.graph, unify_eq(refine.constraints))


def unify_eq(list_of_eq: Sequence[Equality]) -> dict[Any, Any]:
    """What each unknown size must be; TypeError if nothing fits."""
    return solve(list_of_eq)


def convert_eq(list_of_eq: Sequence[Equality]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The left sides and the right sides."""
    return tuple([e.lhs for e in list_of_eq]), tuple([e.rhs for e in list_of_eq])


def substitute_all_types(graph: Graph, mapping: Mapping[Any, Any]) -> None:
    """Put the mapping's sizes for names in all types of the graph."""
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def substitute_solution_one_type(mapping: Mapping[Any, Any], t: Any) -> Any:
    """The type with the mapping's sizes for its names."""
    return substituted(t, mapping)


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Whether the nodes of two graphs have the same types, in order."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes))
