"""The door to SymPy: an expression as a SymPy one and back, and its text.

SymPy is imported with the first question that needs it (0.4 s); a lone symbol and a plain number
have their text without it. What is behind the door is `sympy_forms.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from maquette.symbolic.expr import Expr, Poly, Relation, Symbol

_loaded: list[ModuleType] = []


def sympy_forms() -> ModuleType:
    """The module that knows SymPy, imported when first asked for."""
    if not _loaded:
        _loaded.append(importlib.import_module("maquette.symbolic.sympy_forms"))
    return _loaded[0]


def sympy_of(expr: Expr) -> Any:
    """The expression as SymPy's; the same object each time while the expression lives."""
    found = expr.memo.get("sympy")
    if found is None:
        found = expr.memo["sympy"] = sympy_forms().to_sympy(expr)
    return found


def expr_of(value: Any, lookup: Callable[[str], Symbol | None]) -> Expr:
    """A SymPy expression, a number or an expression as one of ours.

    lookup: the symbol of a name; a name that it does not know is a symbol without range.
    """
    if isinstance(value, Expr):
        return value
    found: Expr = sympy_forms().from_sympy(value, lookup)
    return found


_SHORT = {"==": "Eq({}, {})", "!=": "Ne({}, {})"}


def text_of(expr: Expr) -> str:
    """The text that PyTorch prints for the expression."""
    found = expr.memo.get("text")
    if found is None:
        found = expr.memo["text"] = _text_of(expr)
    assert isinstance(found, str)
    return found


def _text_of(expr: Expr) -> str:
    if isinstance(expr, Poly):
        plain = _plain_text(expr)
        if plain is not None:
            return plain
    elif isinstance(expr, Relation):
        lhs, rhs = _plain_text(expr.lhs), _plain_text(expr.rhs)
        if lhs is not None and rhs is not None and expr.symbols:
            return _SHORT.get(expr.op, f"{{}} {expr.op} {{}}").format(lhs, rhs)
    found: str = sympy_forms().text_of(sympy_of(expr))
    return found


def _plain_text(expr: Poly) -> str | None:
    """The text of a lone symbol or a plain number."""
    if not expr.terms:
        return "0"
    if len(expr.terms) != 1:
        return None
    ((monomial, factor),) = expr.terms.items()
    if not monomial:
        return str(factor)
    atom = monomial[0]
    return atom.name if factor == 1 and len(monomial) == 1 and isinstance(atom, Symbol) else None
