"""Gradual types of a traced program: sizes that are known are checked, the others are `Dyn`.

A name of PyTorch's `torch.fx.experimental.graph_gradual_typechecker` is handed on from here; what
solves equalities between sizes is in `inferring` and `unification`.
"""

from maquette.fx.gradual_types.checking import GraphTypeChecker
from maquette.fx.gradual_types.lattice import (
    broadcast_types,
    expand_to_tensor_dim,
    get_greatest_upper_bound,
)
from maquette.fx.gradual_types.refining import Refine
from maquette.fx.gradual_types.registry import (
    register_algebraic_expressions_inference_rule,
    register_inference_rule,
    register_refinement_rule,
)
from maquette.fx.gradual_types.rules import (  # this import fills the tables of rules
    all_eq,
    calculate_out_dimension,
)
from maquette.fx.gradual_types.unification import Equality, Var
from maquette.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

__all__ = [
    "Dyn",
    "Equality",
    "GraphTypeChecker",
    "Refine",
    "TensorType",
    "Var",
    "all_eq",
    "broadcast_types",
    "calculate_out_dimension",
    "expand_to_tensor_dim",
    "get_greatest_upper_bound",
    "is_consistent",
    "is_more_precise",
    "register_algebraic_expressions_inference_rule",
    "register_inference_rule",
    "register_refinement_rule",
]
