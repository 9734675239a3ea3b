"""SymPy's side of expressions: its functions for ours, conversion both ways, printers.

Loaded through `forms.py` with the first question that needs SymPy. The functions carry PyTorch's
names, since programs read them from `node.expr`; they simplify by our own rules, so that an
expression means the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sympy  # noqa: TID253 — this module is the lazy import
from sympy.printing.precedence import PRECEDENCE  # noqa: TID253
from sympy.printing.str import StrPrinter  # noqa: TID253

from maquette.symbolic import functions
from maquette.symbolic.expr import (
    Atom,
    Call,
    Expr,
    Junction,
    Op,
    Poly,
    Relation,
    Symbol,
    all_of,
    any_of,
    negation,
    number,
    relation,
    symbol,
    truth,
)

# --- functions ----------------------------------------------------------------------------------


class _Function(sympy.Function):  # type: ignore[misc]  # sympy has no types
    """A function of ours, which simplifies by our rules."""

    is_real = True

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """A simpler form of the call, or None."""
        if any(a in (sympy.oo, -sympy.oo, sympy.nan, sympy.zoo) for a in args):
            return None
        forms = [from_sympy(a, _unknown) for a in args]
        found = functions.apply(cls.__name__, *forms)
        only = _lone_call(found)
        same = only is not None and only.func == cls.__name__ and only.args == tuple(forms)
        return None if same else to_sympy(found)


def _lone_call(poly: Poly) -> Call | None:
    if len(poly.terms) != 1:
        return None
    ((monomial, factor),) = poly.terms.items()
    if factor != 1 or len(monomial) != 1:
        return None
    return monomial[0] if isinstance(monomial[0], Call) else None


def _unknown(name: str) -> Symbol | None:
    return None


def _integer(self: Any) -> bool | None:
    return True if all(a.is_integer for a in self.args) else None


def _made(name: str) -> Any:
    function = functions.FUNCTIONS[name]
    space: dict[str, Any] = {"__doc__": f"{name} of sizes.", "__module__": __name__}
    if function.is_int:
        space["is_integer"] = True
    elif function.is_int is None:
        space["_eval_is_integer"] = _integer
    if name in ("FloorDiv", "CleanDiv", "Mod", "PythonMod"):
        space["base"] = property(lambda self: self.args[0])
        space["divisor"] = property(lambda self: self.args[1])
    if name in ("Mod", "OpaqueUnaryFn_sqrt"):
        space["is_nonnegative"] = True
        space["precedence"] = PRECEDENCE["Relational"]  # a product has it in parentheses
    if name in ("FloorDiv", "CleanDiv"):
        space["_sympystr"] = _divided
    if name in functions._NOT_NEGATIVE:
        space["_eval_is_nonnegative"] = _nonnegative
    return type(name, (_Function,), space)


def _divided(self: Any, printer: Any) -> str:
    a, b = (printer.parenthesize(x, PRECEDENCE["Atom"] - 0.5) for x in self.args)
    return f"({a}//{b})"


def _nonnegative(self: Any) -> bool | None:
    return True if all(a.is_nonnegative for a in self.args) else None


#: Ours by SymPy's own name.
_NATIVE: Final = {"Max": sympy.Max, "Min": sympy.Min, "Abs": sympy.Abs, "Piecewise": None}
CLASSES: Final[dict[str, Any]] = {
    name: _made(name) for name in functions.FUNCTIONS if name not in _NATIVE
}
_BY_CLASS: Final[dict[Any, str]] = {
    **{cls: name for name, cls in CLASSES.items()},
    sympy.Max: "Max", sympy.Min: "Min", sympy.Abs: "Abs", sympy.Mod: "PythonMod",
    sympy.floor: "FloorToInt", sympy.ceiling: "CeilToInt",
}  # fmt: skip

# --- to SymPy -----------------------------------------------------------------------------------

_symbols: dict[Symbol, Any] = {}
_foreign: dict[str, Any] = {}


def sympy_symbol(of: Symbol) -> Any:
    """SymPy's symbol: positive, not negative or of unknown sign, as the kind of ours says."""
    found = _symbols.get(of)
    if found is None:
        found = _foreign.get(of.name) if of.prefix == "?" else None
        if found is None:
            sign = {"positive": True} if of.lower else {"nonnegative": True}
            kind = {"integer": True} if of.is_int else {"real": True}
            found = sympy.Symbol(of.name, **kind, **(sign if of.lower is not None else {}))
        _symbols[of] = found
    return found


def to_sympy(expr: Expr) -> Any:
    """One of our expressions as SymPy's."""
    if isinstance(expr, Poly):
        terms = [
            sympy.Mul(_number(factor), *map(_atom, monomial)) if monomial else _number(factor)
            for monomial, factor in expr.terms.items()
        ]
        return sympy.Add(*terms)
    if isinstance(expr, Relation):
        return _RELATIONS[expr.op](to_sympy(expr.lhs), to_sympy(expr.rhs))
    assert isinstance(expr, Junction)
    if not expr.args:
        return sympy.true if expr.func == "True" else sympy.false
    return (sympy.And if expr.func == "And" else sympy.Or)(*map(to_sympy, expr.args))


def _number(value: float) -> Any:
    return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value)


def _atom(atom: Atom) -> Any:
    if isinstance(atom, Symbol):
        return sympy_symbol(atom)
    assert isinstance(atom, Call)
    args = [to_sympy(a) for a in atom.args]
    if atom.func == "Piecewise":
        return sympy.Piecewise((args[0], args[1]), (args[2], True))
    native = _NATIVE.get(atom.func)
    return native(*args) if native is not None else CLASSES[atom.func](*args, evaluate=False)


_RELATIONS: Final[dict[Op, Any]] = {
    "==": sympy.Eq, "!=": sympy.Ne, "<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge,
}  # fmt: skip
_OPS: Final[dict[Any, Op]] = {cls: op for op, cls in _RELATIONS.items()}

# --- from SymPy ---------------------------------------------------------------------------------


def from_sympy(value: Any, lookup: Callable[[str], Symbol | None]) -> Expr:
    """A SymPy expression, or a plain number, as one of ours; TypeError if there is none."""
    if isinstance(value, (bool, sympy.logic.boolalg.BooleanAtom)):
        return truth(bool(value))
    if isinstance(value, (int, float)):
        return number(value)
    if value.is_Integer:
        return number(int(value))
    if value.is_Number and value.is_finite:
        return number(float(value))
    if value.is_Symbol:
        return _symbol_of(value, lookup).poly
    if value.is_Add or value.is_Mul:
        return _folded(value, lookup)
    if value.is_Pow:
        return _power(value, lookup)
    op = _OPS.get(type(value))
    if op is not None:
        return relation(op, *(_poly(a, lookup) for a in value.args))
    return _function(value, lookup)


def _poly(value: Any, lookup: Callable[[str], Symbol | None]) -> Poly:
    found = from_sympy(value, lookup)
    if not isinstance(found, Poly):
        raise TypeError(f"expected a number, got the condition {value}")
    return found


def _folded(value: Any, lookup: Callable[[str], Symbol | None]) -> Poly:
    parts = [_poly(a, lookup) for a in value.args]
    result = parts[0]
    for part in parts[1:]:
        result = result + part if value.is_Add else result * part
    return result


def _symbol_of(value: Any, lookup: Callable[[str], Symbol | None]) -> Symbol:
    known = lookup(value.name)
    if known is not None:
        return known
    prefix = value.name.rstrip("0123456789")
    lower = 1 if value.is_positive else (0 if value.is_nonnegative else None)
    kind = prefix if prefix in ("s", "u", "zf", "zuf") else "?"
    found = symbol(value.name, kind, lower, bool(value.is_integer or kind == "?"))
    _symbols.setdefault(found, value)
    return found


def _power(value: Any, lookup: Callable[[str], Symbol | None]) -> Poly:
    base, exponent = value.args
    if exponent.is_Integer and exponent > 0:
        result = factor = _poly(base, lookup)
        for _ in range(int(exponent) - 1):
            result = result * factor
        return result
    if exponent == sympy.S.Half:
        argument = functions.apply("ToFloat", _poly(base, lookup))
        return functions.apply("OpaqueUnaryFn_sqrt", argument)
    parts = [functions.apply("ToFloat", _poly(p, lookup)) for p in (base, exponent)]
    return functions.apply("FloatPow", *parts)


def _function(value: Any, lookup: Callable[[str], Symbol | None]) -> Expr:
    if isinstance(value, sympy.And):
        return all_of(from_sympy(a, lookup) for a in value.args)
    if isinstance(value, sympy.Or):
        return any_of(from_sympy(a, lookup) for a in value.args)
    if isinstance(value, sympy.Not):
        return negation(from_sympy(value.args[0], lookup))
    if isinstance(value, sympy.Piecewise):
        (first, condition), (second, _) = value.args[:2]
        parts = [from_sympy(p, lookup) for p in (first, condition, second)]
        return functions.apply("Piecewise", *parts)
    name = _BY_CLASS.get(type(value))
    if name is None:
        raise TypeError(f"no symbolic number has the form {value} ({type(value).__name__})")
    return functions.apply(name, *[from_sympy(a, lookup) for a in value.args])


# --- text ---------------------------------------------------------------------------------------


class ExprPrinter(StrPrinter):  # type: ignore[misc]  # sympy has no types
    """Prints expressions as PyTorch does."""

    def _print_Float(self, expr: Any) -> str:
        return str(float(expr))


class GuardPrinter(ExprPrinter):
    """Prints guards as Python over the sources of symbols."""

    printmethod = "_as_guard"  # the texts of our functions are for `str`

    def __init__(self, source_of: Callable[[Any], str]) -> None:
        super().__init__()
        self._source_of = source_of

    def _tight(self, expr: Any) -> str:
        if isinstance(expr, sympy.Function):
            return str(self.doprint(expr))
        return str(self.parenthesize(expr, PRECEDENCE["Atom"] - 0.5))

    def _print_Symbol(self, expr: Any) -> str:
        return self._source_of(expr)

    def _print_Add(self, expr: Any, order: object = None) -> str:
        return " + ".join(self._term(a, "Add") for a in expr.args)

    def _print_Mul(self, expr: Any) -> str:
        return "*".join(self._term(a, "Mul") for a in expr.args)

    def _term(self, expr: Any, level: str) -> str:
        if isinstance(expr, sympy.Function):
            return str(self.doprint(expr))
        text = str(self.parenthesize(expr, PRECEDENCE[level]))
        return f"({text})" if text.startswith("-") else text

    def _print_Pow(self, expr: Any, rational: bool = False) -> str:
        base, exponent = expr.args
        if exponent.is_Integer and exponent > 0:
            return "*".join([self._tight(base)] * int(exponent))
        return f"{self._tight(base)} ** {self._tight(exponent)}"

    _print_PowByNatural = _print_FloatPow = _print_Pow

    def _print_Relational(self, expr: Any) -> str:
        if isinstance(expr, (sympy.Eq, sympy.Ne)):
            sign = "==" if isinstance(expr, sympy.Eq) else "!="
            return f"{self._tight(expr.lhs)} {sign} {self._tight(expr.rhs)}"
        return f"{self.doprint(expr.lhs)} {expr.rel_op} {self.doprint(expr.rhs)}"

    def _print_And(self, expr: Any) -> str:
        return " and ".join(self.parenthesize(a, PRECEDENCE["And"]) for a in expr.args)

    def _print_Or(self, expr: Any) -> str:
        return " or ".join(self.parenthesize(a, PRECEDENCE["And"]) for a in expr.args)

    def _print_FloorDiv(self, expr: Any) -> str:
        a, b = map(self._tight, expr.args)
        return f"({a} // {b})"

    _print_CleanDiv = _print_FloorDiv

    def _print_Mod(self, expr: Any) -> str:
        a, b = map(self._tight, expr.args)
        return f"({a} % {b})"

    _print_PythonMod = _print_Mod

    def _print_IntTrueDiv(self, expr: Any) -> str:
        a, b = map(self._tight, expr.args)
        return f"({a} / {b})"

    _print_FloatTrueDiv = _print_IntTrueDiv

    def _print_Max(self, expr: Any) -> str:
        return f"max({', '.join(map(self.doprint, expr.args))})"

    def _print_Min(self, expr: Any) -> str:
        return f"min({', '.join(map(self.doprint, expr.args))})"

    def _print_ToFloat(self, expr: Any) -> str:
        return f"float({self.doprint(expr.args[0])})"

    def _print_TruncToInt(self, expr: Any) -> str:
        return f"math.trunc({self.doprint(expr.args[0])})"

    def _print_FloorToInt(self, expr: Any) -> str:
        return f"math.floor({self.doprint(expr.args[0])})"

    def _print_CeilToInt(self, expr: Any) -> str:
        return f"math.ceil({self.doprint(expr.args[0])})"

    def _print_RoundToInt(self, expr: Any) -> str:
        return f"round({self.doprint(expr.args[0])})"

    def _print_Abs(self, expr: Any) -> str:
        return f"abs({self.doprint(expr.args[0])})"

    def _print_Piecewise(self, expr: Any) -> str:
        (a, condition), (b, _) = expr.args[:2]
        return f"({self.doprint(a)} if {self.doprint(condition)} else {self.doprint(b)})"

    def _print_Function(self, expr: Any) -> str:
        name = type(expr).__name__
        args = [self._tight(a) for a in expr.args]
        signs = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
        if name.startswith("BitwiseFn_"):
            return f"({f' {signs[name[10:]]} '.join(args)})"
        if name.startswith("OpaqueUnaryFn_"):
            return f"math.{name[14:]}({self.doprint(expr.args[0])})"
        return f"{name}({', '.join(map(self.doprint, expr.args))})"


def text_of(expr: Any) -> str:
    """The text of a SymPy expression."""
    return str(ExprPrinter().doprint(expr))
