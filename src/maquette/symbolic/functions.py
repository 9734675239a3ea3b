"""The functions of symbolic numbers: what they compute, and what can be simplified at once.

Each function is one `Function` in `FUNCTIONS`, under the name that PyTorch prints: how to compute
it of plain numbers, whether its value is an integer, and how it simplifies. `apply` is the one way
to call one. What is no polynomial (a floor division, a maximum) becomes a `Call`. How bounds pass
through them is in `ranges.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from maquette.symbolic.expr import FALSE as NO
from maquette.symbolic.expr import (
    ONE,
    ZERO,
    Atom,
    Call,
    Expr,
    Memo,
    Monomial,
    Numeric,
    Poly,
    assumed_bounds,
    call,
    number,
    relation,
)
from maquette.symbolic.expr import TRUE as YES

LARGEST_POWER: Final = 8  # a larger power of a symbol is a function call


@dataclass(frozen=True)
class Function:
    """A function of numbers.

    compute: its value of plain ones. is_int: whether that is an integer; None if it is for integer
    arguments. simplify: an expression that is simpler than the call, or None.
    """

    compute: Callable[..., Numeric]
    is_int: bool | None
    simplify: Callable[..., Poly | None] | None = None


def apply(func: str, *args: Expr) -> Poly:
    """A function of expressions, simplified."""
    found = _applied.get((func, args))
    return _applied.put((func, args), _apply(func, args)) if found is None else found


_applied: Memo[tuple[str, tuple[Expr, ...]], Poly] = Memo()


def _apply(func: str, args: tuple[Expr, ...]) -> Poly:
    function = FUNCTIONS[func]
    values = [a.constant if isinstance(a, Poly) else None for a in args]
    if None not in values:
        return number(function.compute(*values))
    if function.simplify is not None:
        simpler = function.simplify(*args)
        if simpler is not None:
            return simpler
    is_int = function.is_int
    if is_int is None:
        is_int = all(a.is_int for a in args if isinstance(a, Poly))
    return call(func, args, is_int, _least(func, args)).poly


def _least(func: str, args: tuple[Expr, ...]) -> Numeric | None:
    """A lower bound that the kinds of the arguments give, of 0 or more; None if there is none."""
    lows = [assumed_bounds(a)[0] if isinstance(a, Poly) else None for a in args]
    if func in ("Mod", "Abs", "OpaqueUnaryFn_sqrt"):
        return 0
    if func == "PythonMod":
        return 0 if lows[1] is not None and lows[1] > 0 else None
    if func == "Max":
        known = [low for low in lows if low is not None]
        return max(known) if known and max(known) >= 0 else None
    if any(low is None or low < 0 for low in lows):
        return None
    if func in ("ToFloat", "Min"):
        return min(cast(list[Numeric], lows))
    return 0 if func in _NOT_NEGATIVE else None


_NOT_NEGATIVE: Final = frozenset((
    "FloorDiv", "CleanDiv", "IntTrueDiv", "FloatTrueDiv", "PowByNatural", "FloatPow", "TruncToInt",
    "FloorToInt", "CeilToInt", "RoundToInt", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or",
    "BitwiseFn_bitwise_xor",
))  # fmt: skip


# --- division ---------------------------------------------------------------------------------


def exact_quotient(dividend: Poly, divisor: Poly) -> Poly | None:
    """The polynomial that times the divisor is the dividend, with integer factors; else None."""
    lead = max(divisor.terms, key=_rank)
    factor = divisor.terms[lead]
    if not isinstance(factor, int):
        return None
    quotient = ZERO
    for _ in range(32):  # each step removes the highest term; no shape needs as many
        if not dividend.terms:
            return quotient
        highest = max(dividend.terms, key=_rank)
        rest, top = _without(highest, lead), dividend.terms[highest]
        if rest is None or not isinstance(top, int) or top % factor:
            return None
        part = Poly.__mul__(number(top // factor), _product(rest))
        quotient, dividend = quotient + part, dividend - part * divisor
    return None


def _rank(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
    """A monomial order: by degree, then by atoms."""
    return len(monomial), tuple(sorted((a.order for a in monomial), reverse=True))


def _product(monomial: Monomial) -> Poly:
    result = ONE
    for atom in monomial:
        result = result * atom.poly
    return result


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """The monomial divided by another; None if it is no multiple."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def common_factor(*polys: Poly) -> Poly:
    """The largest monomial with integer factor that divides every term of all."""
    divisor = 0
    shared: list[Atom] | None = None
    for poly in polys:
        for monomial, factor in poly.terms.items():
            if not isinstance(factor, int):
                return ONE
            divisor = math.gcd(divisor, factor)
            shared = list(monomial) if shared is None else _in_both(shared, monomial)
    return number(divisor or 1) * _product(tuple(shared or ()))


def _in_both(atoms: list[Atom], monomial: Monomial) -> list[Atom]:
    left = list(monomial)
    kept: list[Atom] = []
    for atom in atoms:
        if atom in left:
            left.remove(atom)
            kept.append(atom)
    return kept


def _floor_div(a: Poly, b: Poly) -> Poly | None:
    if b is ONE:
        return a
    if a is ZERO:
        return ZERO
    if not (a.is_int and b.is_int):
        return None
    whole = exact_quotient(a, b)
    if whole is not None:
        return whole
    quotient, rest = ZERO, a
    for monomial, factor in a.terms.items():
        term = number(factor) * _product(monomial)
        part = exact_quotient(term, b)
        if part is not None:
            quotient, rest = quotient + part, rest - term
    if quotient is not ZERO:
        return quotient + apply("FloorDiv", rest, b)
    only = _only_call(a, "FloorDiv")
    if only is not None:
        inner, divisor = cast(tuple[Poly, Poly], only.args)
        return apply("FloorDiv", inner, divisor * b)
    factor_ = common_factor(a, b)
    if factor_ is not ONE:
        over, under = exact_quotient(a, factor_), exact_quotient(b, factor_)
        if over is not None and under is not None:
            return apply("FloorDiv", over, under)
    low = assumed_bounds(b - a)[0]
    return ZERO if low is not None and low > 0 and _not_negative(a) else None


def _not_negative(poly: Poly) -> bool:
    """Whether the kinds of its atoms alone keep an expression from being negative."""
    low = assumed_bounds(poly)[0]
    return low is not None and low >= 0


def _only_call(poly: Poly, func: str) -> Call | None:
    """The call that an expression consists of, if it is one of ``func``."""
    if len(poly.terms) != 1:
        return None
    ((monomial, factor),) = poly.terms.items()
    if factor != 1 or len(monomial) != 1:
        return None
    atom = monomial[0]
    return atom if isinstance(atom, Call) and atom.func == func else None


def _modulo(a: Poly, b: Poly) -> Poly | None:
    if not (a.is_int and b.is_int):
        return None
    if b is ONE or a is ZERO or a is b or exact_quotient(a, b) is not None:
        return ZERO
    divisor, rest = b.constant, a.terms.get((), 0)
    if isinstance(divisor, int) and divisor and exact_quotient(a - number(rest), b) is not None:
        return number(rest % divisor)  # (2*s0 + 1) % 2
    return None


def _mod(a: Poly, b: Poly) -> Poly | None:
    simpler = _modulo(a, b)
    if simpler is not None or not (a.is_int and b.is_int):
        return simpler
    low, below = assumed_bounds(a)[0], assumed_bounds(b - a)[0]
    return a if low is not None and low >= 0 and below is not None and below > 0 else None


# --- extremes ---------------------------------------------------------------------------------


def _extreme(func: str, args: tuple[Poly, ...]) -> Poly | None:
    """Nested ones joined, arguments dropped that another one beats."""
    flat: dict[Poly, None] = {}
    for a in args:
        inner = _only_call(a, func)
        flat.update(dict.fromkeys(cast(tuple[Poly, ...], inner.args) if inner else (a,)))
    sign = 1 if func == "Max" else -1
    kept = list(flat)
    for a in list(kept):
        if any(b is not a and _beats(b, a, sign) for b in kept):
            kept.remove(a)
    if len(kept) == 1:
        return kept[0]
    ordered = tuple(sorted(kept, key=_argument_order))
    return None if ordered == args else apply(func, *ordered)


def _beats(b: Poly, a: Poly, sign: int) -> bool:
    low = assumed_bounds(b - a if sign > 0 else a - b)[0]
    return low is not None and low >= 0


def _argument_order(poly: Poly) -> tuple[int, int, tuple[tuple[int, ...], ...]]:
    monomials = sorted(tuple(a.order for a in m) for m in poly.terms)
    return (0 if poly.constant is not None else 1), len(monomials), tuple(monomials)


# --- powers, roundings, choice ------------------------------------------------------------------


def _pow_by_natural(base: Poly, exponent: Poly) -> Poly | None:
    power = exponent.constant
    if power == 1:
        return base
    if isinstance(power, int) and 0 <= power <= LARGEST_POWER:
        result = ONE
        for _ in range(power):
            result = result * base
        return result
    return None


def _round_trip(inverse: str) -> Callable[[Poly], Poly | None]:
    """An integer of a float of an integer is that integer."""

    def simplify(a: Poly) -> Poly | None:
        inner = _only_call(a, inverse)
        if inner is not None:
            return cast(Poly, inner.args[0])
        return a if a.is_int else None

    return simplify


def _abs(a: Poly) -> Poly | None:
    low, high = assumed_bounds(a)
    if low is not None and low >= 0:
        return a
    return -a if high is not None and high <= 0 else None


def _to_float(a: Poly) -> Poly | None:
    return None if a.is_int else a


def _piecewise(a: Expr, condition: Expr, b: Expr) -> Poly | None:
    if condition is YES or a is b:
        return cast(Poly, a)
    return cast(Poly, b) if condition is NO else None


def _true_div(a: Poly, b: Poly) -> Poly | None:
    return None


def _shift_left(a: Poly, b: Poly) -> Poly | None:
    return a * apply("PowByNatural", number(2), b)


def _shift_right(a: Poly, b: Poly) -> Poly | None:
    return apply("FloorDiv", a, apply("PowByNatural", number(2), b))


def _bitwise(func: str) -> Callable[[Poly, Poly], Poly | None]:
    def simplify(a: Poly, b: Poly) -> Poly | None:
        if a is ZERO or b is ZERO:
            return ZERO if func == "and" else a + b
        return None

    return simplify


def _divided(a: Numeric, b: Numeric) -> Numeric:
    return a / b


def _rounded(a: Numeric, digits: Numeric) -> Numeric:
    return round(a, int(digits))


def _unary(name: str) -> Function:
    return Function(cast(Callable[..., Numeric], getattr(math, name)), False)


FUNCTIONS: Final[dict[str, Function]] = {
    "FloorDiv": Function(operator.floordiv, True, _floor_div),
    "CleanDiv": Function(operator.floordiv, True, _floor_div),
    "Mod": Function(operator.mod, None, _mod),
    "PythonMod": Function(operator.mod, None, _modulo),
    "Max": Function(max, None, lambda *args: _extreme("Max", args)),
    "Min": Function(min, None, lambda *args: _extreme("Min", args)),
    "IntTrueDiv": Function(_divided, False, _true_div),
    "FloatTrueDiv": Function(_divided, False, _true_div),
    "PowByNatural": Function(operator.pow, True, _pow_by_natural),
    "FloatPow": Function(lambda a, b: float(a) ** b, False),
    "ToFloat": Function(float, False, _to_float),
    "TruncToInt": Function(math.trunc, True, _round_trip("ToFloat")),
    "FloorToInt": Function(math.floor, True, _round_trip("ToFloat")),
    "CeilToInt": Function(math.ceil, True, _round_trip("ToFloat")),
    "RoundToInt": Function(round, True, _round_trip("ToFloat")),
    "TruncToFloat": Function(lambda a: float(math.trunc(a)), False),
    "RoundDecimal": Function(_rounded, None),
    "Abs": Function(abs, None, _abs),
    "LShift": Function(operator.lshift, True, _shift_left),
    "RShift": Function(operator.rshift, True, _shift_right),
    "BitwiseFn_bitwise_and": Function(operator.and_, True, _bitwise("and")),
    "BitwiseFn_bitwise_or": Function(operator.or_, True, _bitwise("or")),
    "BitwiseFn_bitwise_xor": Function(operator.xor, True, _bitwise("xor")),
    "Piecewise": Function(lambda a, c, b: a if c else b, None, _piecewise),
    **{
        f"OpaqueUnaryFn_{name}": _unary(name)
        for name in (
            "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp",
            "log", "log2", "asinh",
        )
    },
}  # fmt: skip


def mod(a: Poly, b: Poly) -> Poly:
    """Python's remainder, under the name that operands without sign let it have."""
    plain = all(_not_negative(p) for p in (a, b))
    return apply("Mod" if plain else "PythonMod", a, b)


def compare(op: str, a: Poly, b: Poly) -> Expr:
    """A relation of two expressions; integers beside floats become floats."""
    if a.is_int != b.is_int:
        a, b = apply("ToFloat", a), apply("ToFloat", b)
    return relation(op, a, b)  # type: ignore[arg-type]  # one of the six
