"""Symbolic shapes: `ShapeEnv`, the numbers it makes, guards, and what may be asked of them.

The modules, in the order in which a question passes them: `numbers` (what users hold), `node`
(expressions in an environment), `expr` and `functions` (the algebra), `shape_env` (decide, guard or
defer), `facts` and `ranges` (what is known), `creating` (symbols of inputs), `producing` (guards on
inputs). SymPy is behind `forms`. A module is imported when a name of it is first asked for: most
programs have no symbols, and an eighth of the time of `import maquette` would go into them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from maquette.symbolic.config import config

if TYPE_CHECKING:
    from maquette.symbolic.checks import (
        SymIntEqByExpr,
        check,
        check_index,
        check_is_size,
        check_not_implemented,
        check_tensor_all,
        check_type,
        check_value,
        constrain_range,
        constrain_unify,
        expect_true,
        free_symbols,
        free_unbacked_symbols,
        guard_bool,
        guard_float,
        guard_int,
        guard_or_false,
        guard_or_true,
        guard_scalar,
        guard_size_oblivious,
        guarding_hint_or_throw,
        has_free_symbols,
        has_free_unbacked_symbols,
        has_guarding_hint,
        has_static_value,
        has_symbolic_sizes_strides,
        is_concrete_bool,
        is_concrete_float,
        is_concrete_int,
        is_symbolic,
        optimization_hint,
        statically_known_false,
        statically_known_true,
        sym_and,
        sym_constrain_range,
        sym_constrain_range_for_size,
        sym_eq,
        sym_float,
        sym_int,
        sym_ite,
        sym_max,
        sym_min,
        sym_not,
        sym_or,
        sym_sum,
    )
    from maquette.symbolic.creating import marks_of
    from maquette.symbolic.errors import (
        ConstraintViolationError,
        GuardOnDataDependentSymNode,
        NotEqualError,
        PendingUnbackedSymbolNotFound,
        ShapeEnvGuardError,
    )
    from maquette.symbolic.guards import RuntimeAssert, ShapeGuard, SLoc
    from maquette.symbolic.node import SymNode
    from maquette.symbolic.numbers import SymBool, SymFloat, SymInt
    from maquette.symbolic.program.contexts import (
        Constraint,
        DimDynamic,
        EqualityConstraint,
        RelaxedUnspecConstraint,
        StatefulSymbolicContext,
        StatelessSymbolicContext,
        StrictMinMaxConstraint,
        SubclassSymbolicContext,
        SymbolicContext,
        SymIntSymbolicContext,
    )
    from maquette.symbolic.program.sources import (
        AttrSource,
        CallSource,
        ConstantSource,
        EphemeralSource,
        GlobalSource,
        LocalSource,
        Source,
        TensorProperty,
        TensorPropertySource,
        source_of,
    )
    from maquette.symbolic.ranges import ValueRange
    from maquette.symbolic.shape_env import ShapeEnv, ShapeEnvSettings

_NAMES = {
    "checks": (
        "SymIntEqByExpr check check_index check_is_size check_not_implemented check_tensor_all "
        "check_type check_value constrain_range constrain_unify expect_true free_symbols "
        "free_unbacked_symbols guard_bool guard_float guard_int guard_or_false guard_or_true "
        "guard_scalar guard_size_oblivious guarding_hint_or_throw has_free_symbols "
        "has_free_unbacked_symbols has_guarding_hint has_static_value "
        "has_symbolic_sizes_strides is_concrete_bool is_concrete_float is_concrete_int "
        "is_symbolic optimization_hint statically_known_false statically_known_true sym_and "
        "sym_constrain_range sym_constrain_range_for_size sym_eq sym_float sym_int sym_ite "
        "sym_max sym_min sym_not sym_or sym_sum"
    ),
    "program.contexts": (
        "Constraint DimDynamic EqualityConstraint RelaxedUnspecConstraint "
        "StatefulSymbolicContext StatelessSymbolicContext StrictMinMaxConstraint "
        "SubclassSymbolicContext SymbolicContext SymIntSymbolicContext"
    ),
    "errors": (
        "ConstraintViolationError GuardOnDataDependentSymNode NotEqualError "
        "PendingUnbackedSymbolNotFound "
        "ShapeEnvGuardError"
    ),
    "guards": "RuntimeAssert ShapeGuard SLoc",
    "node": "SymNode",
    "numbers": "SymBool SymFloat SymInt",
    "ranges": "ValueRange",
    "shape_env": "ShapeEnv ShapeEnvSettings",
    "program.sources": (
        "AttrSource CallSource ConstantSource EphemeralSource GlobalSource LocalSource Source "
        "TensorProperty TensorPropertySource source_of"
    ),
    "creating": "marks_of",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'maquette.symbolic' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return found


__all__ = [
    "AttrSource", "CallSource", "ConstantSource", "Constraint", "ConstraintViolationError",
    "EphemeralSource",
    "DimDynamic", "EqualityConstraint", "GlobalSource", "GuardOnDataDependentSymNode",
    "LocalSource", "NotEqualError", "PendingUnbackedSymbolNotFound", "RelaxedUnspecConstraint",
    "RuntimeAssert", "SLoc", "ShapeEnv", "ShapeEnvGuardError", "ShapeEnvSettings", "ShapeGuard",
    "Source",
    "StatefulSymbolicContext", "StatelessSymbolicContext", "StrictMinMaxConstraint",
    "SubclassSymbolicContext", "SymBool", "SymFloat", "SymInt", "SymIntEqByExpr",
    "SymIntSymbolicContext", "SymNode", "SymbolicContext", "TensorProperty",
    "TensorPropertySource", "ValueRange", "check", "check_index", "check_is_size",
    "check_not_implemented", "check_tensor_all", "check_type", "check_value", "config",
    "constrain_range", "constrain_unify", "expect_true", "free_symbols", "free_unbacked_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "guarding_hint_or_throw", "has_free_symbols",
    "has_free_unbacked_symbols", "has_guarding_hint", "has_static_value",
    "has_symbolic_sizes_strides", "is_concrete_bool", "is_concrete_float", "is_concrete_int",
    "is_symbolic", "marks_of", "optimization_hint", "source_of", "statically_known_false",
    "statically_known_true", "sym_and", "sym_constrain_range", "sym_constrain_range_for_size",
    "sym_eq", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_or",
    "sym_sum",
]  # fmt: skip
