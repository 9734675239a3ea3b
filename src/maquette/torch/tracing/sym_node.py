"""`torch.fx.experimental.sym_node`: which operations symbolic numbers have, and of what kind.

The numbers are `maquette.symbolic`'s. The tables here are for programs that go through the
operations by name; a name is that of `SymNode`'s method in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from maquette.symbolic import SymNode, sym_float, sym_ite, sym_max, sym_min, sym_not
from maquette.symbolic.checks import (
    sym_acos,
    sym_asin,
    sym_atan,
    sym_cos,
    sym_cosh,
    sym_log2,
    sym_sin,
    sym_sinh,
    sym_sqrt,
    sym_tan,
    sym_tanh,
)
from maquette.symbolic.node import NODE_OPERATIONS, to_node


def wrap_node(x: SymNode) -> Any:
    """The number of a node."""
    return x.number


_FLOAT_FUNCTIONS: Final = (
    sym_sqrt, sym_cos, sym_cosh, sym_sin, sym_sinh, sym_tan, sym_tanh, sym_asin, sym_acos,
    sym_atan, sym_log2,
)  # fmt: skip
# Nodes have these two as methods, under names that Python allows.
_SPELLINGS: Final = {"and": "and_", "or": "or_"}

METHOD_TO_OPERATOR: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: NODE_OPERATIONS[_SPELLINGS.get(name, name)]
        for name in (
            "pos", "abs", "add", "and", "bitwise_and", "ceil", "eq", "floor", "trunc",
            "int_floordiv", "ge", "gt", "is_integer", "le", "lshift", "lt", "mod", "mul", "ne",
            "neg", "or", "bitwise_or", "bitwise_xor", "float_pow", "pow_by_natural", "round",
            "rshift", "sub", "float_truediv", "int_truediv",
        )
    },
    # Of plain numbers too, which have no such methods.
    **{
        function.__name__: function
        for function in (sym_float, sym_ite, sym_max, sym_min, sym_not, *_FLOAT_FUNCTIONS)
    },
}  # fmt: skip


def method_to_operator(method: str) -> Callable[..., Any]:
    """The function of numbers that a method of `SymNode` computes."""
    return METHOD_TO_OPERATOR[method]


# What PyTorch maps to functions of SymPy's expressions is here a function of numbers.
magic_methods: Final = METHOD_TO_OPERATOR

unary_nonmagic_methods: Final = {"is_integer"}
unary_magic_methods: Final = {
    "abs", "ceil", "floor", "neg", "pos", "sym_float", "sym_int", "sym_not", "trunc",
    *(function.__name__ for function in _FLOAT_FUNCTIONS),
}  # fmt: skip
unary_methods: Final = unary_magic_methods | unary_nonmagic_methods

bool_magic_methods: Final = {"and", "or", "eq", "sym_ite", "sym_not"}
only_bool_magic_methods: Final = bool_magic_methods - {"eq"}
also_bool_magic_methods: Final = {"eq"}
bool_becomes_int_magic_methods: Final = {"add", "sub", "mul"}
only_float_magic_methods: Final = {"is_integer", "round", "sym_int", "sym_log2"}
always_bool_magic_methods: Final = {
    "eq", "ne", "gt", "lt", "le", "ge", "and", "or", "sym_not", "is_integer",
    "is_non_overlapping_and_dense",
}  # fmt: skip
always_int_magic_methods: Final = {"ceil", "floor", "trunc", "pow_by_natural"}
always_float_magic_methods: Final = {
    "int_truediv", "float_truediv", "float_pow", "sym_float",
    *(function.__name__ for function in _FLOAT_FUNCTIONS),
}  # fmt: skip
bitwise_ops: Final = {
    name: METHOD_TO_OPERATOR[name] for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
}
reflectable_magic_methods: Final = {
    name: METHOD_TO_OPERATOR[name]
    for name in (
        "add", "sub", "mul", "mod", "pow_by_natural", "float_pow", "and", "bitwise_and", "or",
        "bitwise_or", "bitwise_xor", "float_truediv", "int_truediv", "int_floordiv", "lshift",
        "rshift",
    )
}  # fmt: skip
magic_methods_on_operator_with_trailing_underscore: Final = {"and", "or"}

__all__ = [
    "SymNode",
    "magic_methods",
    "method_to_operator",
    "sym_acos",
    "sym_asin",
    "sym_atan",
    "sym_cos",
    "sym_cosh",
    "sym_log2",
    "sym_sin",
    "sym_sinh",
    "sym_sqrt",
    "sym_tan",
    "sym_tanh",
    "to_node",
    "wrap_node",
]
