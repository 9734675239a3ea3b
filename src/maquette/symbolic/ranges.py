"""Bounds of expressions: the interval of values that symbols in given intervals allow.

`ValueRange` is an interval with both ends included; its ends are ints, or floats where an end is
infinite or the value no integer. `bounds_of` works through an expression from its atoms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from maquette.symbolic.expr import Atom, Call, Expr, Junction, Numeric, Poly, Relation, Symbol
from maquette.symbolic.functions import FUNCTIONS

INFINITY: Final = math.inf


@dataclass(frozen=True, slots=True)
class ValueRange:
    """All numbers from ``lower`` to ``upper``, both included."""

    lower: Numeric
    upper: Numeric

    def __and__(self, other: ValueRange) -> ValueRange:
        return ValueRange(max(self.lower, other.lower), min(self.upper, other.upper))

    def __or__(self, other: ValueRange) -> ValueRange:
        return ValueRange(min(self.lower, other.lower), max(self.upper, other.upper))

    def __contains__(self, value: object) -> bool:
        if isinstance(value, ValueRange):
            return self.lower <= value.lower and value.upper <= self.upper
        return bool(self.lower <= value <= self.upper)  # type: ignore[operator]  # a number

    def is_singleton(self) -> bool:
        """Whether one value is left."""
        return self.lower == self.upper

    def issubset(self, other: ValueRange) -> bool:
        """Whether every value of this interval is in the other."""
        return self in other

    @staticmethod
    def unknown() -> ValueRange:
        """All numbers."""
        return ValueRange(-INFINITY, INFINITY)

    @staticmethod
    def wrap(value: Numeric | ValueRange) -> ValueRange:
        """A number as the interval of it alone."""
        return value if isinstance(value, ValueRange) else ValueRange(value, value)

    def __str__(self) -> str:
        return f"VR[{_shown(self.lower)}, {_shown(self.upper)}]"

    __repr__ = __str__


def _shown(end: Numeric) -> str:
    if end == INFINITY:
        return "int_oo"
    return "-int_oo" if end == -INFINITY else str(end)


UNKNOWN: Final = ValueRange.unknown()
Lookup = Callable[[Symbol], ValueRange]


def times(a: Numeric, b: Numeric) -> Numeric:
    """A product in which nothing times infinity is nothing."""
    return 0 if a == 0 or b == 0 else a * b


def _product(a: ValueRange, b: ValueRange) -> ValueRange:
    corners = [times(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return ValueRange(min(corners), max(corners))


def poly_bounds(poly: Poly, lookup: Lookup) -> ValueRange:
    """The interval of a polynomial."""
    lower: Numeric = 0
    upper: Numeric = 0
    for monomial, factor in poly.terms.items():
        part = _monomial_bounds(monomial, lookup)
        if factor < 0:
            part = ValueRange(part.upper, part.lower)
        lower += times(factor, part.lower)
        upper += times(factor, part.upper)
    return ValueRange(lower, upper)


def _monomial_bounds(monomial: tuple[Atom, ...], lookup: Lookup) -> ValueRange:
    result = ValueRange(1, 1)
    position = 0
    while position < len(monomial):
        atom = monomial[position]
        power = 1
        while position + power < len(monomial) and monomial[position + power] is atom:
            power += 1
        one = _atom_bounds(atom, lookup)
        part = one
        for _ in range(power - 1):
            part = _product(part, one)
        if power % 2 == 0:
            least = 0 if 0 in one else min(one.lower**power, one.upper**power)
            part = ValueRange(least, part.upper)
        result = _product(result, part)
        position += power
    return result


def _atom_bounds(atom: Atom, lookup: Lookup) -> ValueRange:
    if isinstance(atom, Symbol):
        return lookup(atom)
    assert isinstance(atom, Call)
    args = [poly_bounds(a, lookup) if isinstance(a, Poly) else UNKNOWN for a in atom.args]
    rule = _RULES.get(atom.func)
    found = UNKNOWN if rule is None else rule(*args)
    if atom.lower is not None and atom.lower > found.lower:
        found = ValueRange(atom.lower, max(atom.lower, found.upper))
    return found


def bounds_of(expr: Expr, lookup: Lookup) -> ValueRange:
    """The interval of an expression; of a condition 0 for false to 1 for true."""
    if isinstance(expr, Poly):
        return poly_bounds(expr, lookup)
    return ValueRange(0, 1)


# --- functions ----------------------------------------------------------------------------------


def _monotonic(func: str) -> Callable[[ValueRange], ValueRange]:
    compute = FUNCTIONS[func].compute

    def at(value: Numeric) -> Numeric:
        return value if math.isinf(value) else compute(value)

    return lambda a: ValueRange(at(a.lower), at(a.upper))


def _floor(a: Numeric, b: Numeric) -> Numeric:
    if math.isinf(b):
        return 0 if math.isinf(a) or (a >= 0) == (b > 0) or a == 0 else -1
    if math.isinf(a):
        return a if b > 0 else -a
    return a // b


def _floor_div(a: ValueRange, b: ValueRange) -> ValueRange:
    if b.lower <= 0 <= b.upper:
        if b.lower < 0:
            return UNKNOWN
        b = ValueRange(1, max(b.upper, 1))  # division by 0 is an error, so no value
    corners = [_floor(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return ValueRange(min(corners), max(corners))


def _true_div(a: ValueRange, b: ValueRange) -> ValueRange:
    if b.lower <= 0 <= b.upper:
        return UNKNOWN
    inverse = ValueRange(
        0.0 if math.isinf(b.upper) else 1 / b.upper, 0.0 if math.isinf(b.lower) else 1 / b.lower
    )
    return _product(a, inverse)


def _mod(a: ValueRange, b: ValueRange) -> ValueRange:
    if b.lower < 1:
        return UNKNOWN if b.lower < 0 else ValueRange(0, max(b.upper - 1, 0))
    if 0 <= a.lower and a.upper < b.lower:
        return a
    if b.is_singleton() and not math.isinf(a.lower) and a.lower // b.lower == a.upper // b.lower:
        return ValueRange(a.lower % b.lower, a.upper % b.lower)
    top = b.upper - 1
    return ValueRange(0, min(top, a.upper) if a.lower >= 0 else top)


def _extremes(pick: Callable[..., Numeric]) -> Callable[..., ValueRange]:
    return lambda *args: ValueRange(pick(a.lower for a in args), pick(a.upper for a in args))


def _abs(a: ValueRange) -> ValueRange:
    ends = abs(a.lower), abs(a.upper)
    return ValueRange(0 if 0 in a else min(ends), max(ends))


def _power(a: ValueRange, b: ValueRange) -> ValueRange:
    if a.lower < 1 or b.lower < 0:
        return UNKNOWN
    top: Numeric = INFINITY
    if not math.isinf(a.upper) and not math.isinf(b.upper) and b.upper < 64:
        top = a.upper**b.upper
    return ValueRange(a.lower**b.lower if b.lower < 64 else 1, top)


def _bitwise_and(a: ValueRange, b: ValueRange) -> ValueRange:
    if a.lower < 0 and b.lower < 0:
        return UNKNOWN
    return ValueRange(0, min(r.upper for r in (a, b) if r.lower >= 0))


def _bitwise_or(a: ValueRange, b: ValueRange) -> ValueRange:
    if a.lower < 0 or b.lower < 0:
        return UNKNOWN
    top = max(a.upper, b.upper)
    return ValueRange(0, top if math.isinf(top) else (1 << int(top).bit_length()) - 1)


def _sqrt(a: ValueRange) -> ValueRange:
    if a.lower < 0:
        return ValueRange(0.0, INFINITY)
    return ValueRange(*(end if math.isinf(end) else math.sqrt(end) for end in (a.lower, a.upper)))


def _choice(a: ValueRange, condition: ValueRange, b: ValueRange) -> ValueRange:
    return a | b


_RULES: Final[dict[str, Callable[..., ValueRange]]] = {
    "FloorDiv": _floor_div,
    "CleanDiv": _floor_div,
    "Mod": _mod,
    "PythonMod": _mod,
    "Max": _extremes(max),
    "Min": _extremes(min),
    "IntTrueDiv": _true_div,
    "FloatTrueDiv": _true_div,
    "PowByNatural": _power,
    "Abs": _abs,
    "BitwiseFn_bitwise_and": _bitwise_and,
    "BitwiseFn_bitwise_or": _bitwise_or,
    "OpaqueUnaryFn_sqrt": _sqrt,
    "Piecewise": _choice,
    **{
        name: _monotonic(name)
        for name in (
            "ToFloat", "TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "TruncToFloat"
        )
    },
}  # fmt: skip


def value_of(expr: Expr, values: Callable[[Symbol], Numeric]) -> Numeric | bool:
    """The value of an expression when its symbols have values; KeyError of one that has none."""
    if isinstance(expr, Poly):
        total: Numeric = 0
        for monomial, factor in expr.terms.items():
            product = factor
            for atom in monomial:
                product = product * _atom_value(atom, values)
            total += product
        return total
    if isinstance(expr, Relation):
        lhs, rhs = value_of(expr.lhs, values), value_of(expr.rhs, values)
        return _COMPARE[expr.op](lhs, rhs)
    assert isinstance(expr, Junction)
    if not expr.args:
        return expr.func == "True"
    join = all if expr.func == "And" else any
    return join(value_of(a, values) for a in expr.args)


def _atom_value(atom: Atom, values: Callable[[Symbol], Numeric]) -> Numeric:
    if isinstance(atom, Symbol):
        return values(atom)
    assert isinstance(atom, Call)
    return FUNCTIONS[atom.func].compute(*[value_of(a, values) for a in atom.args])


_COMPARE: Final[dict[str, Callable[[Numeric, Numeric], bool]]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
