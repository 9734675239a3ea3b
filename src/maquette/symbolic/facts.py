"""What is known of symbols: ranges, replacements, and conditions that hold.

A comparison of integers is one statement about a *direction*, its difference without the constant
and without a common factor: `2*s < 2*t + 6` says `s - t <= 2`. So all that is known of a direction
is an interval and the values that it does not take, and whatever follows from that is decided
without a search. A direction that is one symbol is that symbol's range.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Final

from maquette.symbolic.expr import (
    TRUE,
    ZERO,
    Call,
    Expr,
    Junction,
    Monomial,
    Numeric,
    Poly,
    Relation,
    Symbol,
    negation,
    number,
    relation,
    substituted,
)
from maquette.symbolic.functions import apply, exact_quotient
from maquette.symbolic.ranges import INFINITY, UNKNOWN, ValueRange, poly_bounds


class Facts:
    """The knowledge of one environment; it only grows.

    version: raised by every change, so that answers can say when they were worked out.
    """

    def __init__(self) -> None:
        self.ranges: dict[Symbol, ValueRange] = {}
        self.replacements: dict[Symbol, Poly] = {}
        self.between: dict[Poly, ValueRange] = {}
        self.apart: dict[Poly, set[Numeric]] = {}
        self.held: set[Expr] = set()
        self.divisible: set[Poly] = set()
        self.size_like: set[Symbol] = set()
        self.version = 0
        self._replaced: dict[Expr, Expr] = {}
        self._simplified: dict[Expr, Expr] = {}

    # --- replacements ---------------------------------------------------------------------

    def replace(self, expr: Expr) -> Expr:
        """The expression with every symbol that was found to be another expression replaced."""
        if not self.replacements:
            return expr
        found = self._replaced.get(expr)
        if found is None:
            found = expr
            while not self.replacements.keys().isdisjoint(found.symbols):
                found = substituted(found, self.replacements, apply)
            self._replaced[expr] = found
        return found

    def set_replacement(self, of: Symbol, by: Poly) -> None:
        """Let one symbol be an expression from here on, in everything that was made before."""
        self.replacements[of] = by
        self.changed()
        for condition in [c for c in self.held if of in c.symbols]:
            self.learn(self.replace(condition))
        for direction in [d for d in self.between if of in d.symbols]:
            self._restate(direction)

    def _restate(self, direction: Poly) -> None:
        """What was known of a direction, as a fact about the direction that it has become."""
        interval = self.between[direction]
        now = self.replace(direction)
        assert isinstance(now, Poly)
        self.narrow_by(now, interval)

    def changed(self) -> None:
        """Note that something new is known."""
        self.version += 1
        self._replaced.clear()
        self._simplified.clear()

    # --- intervals ------------------------------------------------------------------------

    def range_of(self, symbol: Symbol) -> ValueRange:
        """The values that a symbol may have."""
        found = self.ranges.get(symbol)
        if found is None:
            low = symbol.lower
            found = UNKNOWN if low is None else ValueRange(low, INFINITY)
        return found

    def shown_range_of(self, symbol: Symbol) -> ValueRange:
        """The range as it is told: a size that only data tells may always be as large as 2 (F132).

        Questions are answered by what is known, which may be less.
        """
        found = self.range_of(symbol)
        if not symbol.is_unbacked or symbol not in self.size_like or found.upper >= 2:
            return found
        return ValueRange(found.lower, 2)

    def oblivious_range_of(self, symbol: Symbol) -> ValueRange:
        """The range in which a size-like symbol is neither 0 nor 1."""
        found = self.range_of(symbol)
        if symbol in self.size_like and found.lower < 2:
            return ValueRange(2, max(2, found.upper))
        return found

    def bounds_by_ranges(self, poly: Poly, *, oblivious: bool = False) -> ValueRange:
        """The interval of an expression, from the ranges of symbols alone."""
        alone = _symbol_alone(poly)
        if alone is not None:
            return self.oblivious_range_of(alone) if oblivious else self.range_of(alone)
        found = poly_bounds(poly, self.oblivious_range_of if oblivious else self.range_of)
        if len(poly.terms) > 1 and not found.is_singleton():
            found = found & self._shifted_bounds(poly, oblivious)
            found = found & self._by_extremes(poly, oblivious)
        return found

    def bounds(self, poly: Poly, *, oblivious: bool = False) -> ValueRange:
        """The interval of an expression, from ranges and from what is known of its direction."""
        found = self.bounds_by_ranges(poly, oblivious=oblivious)
        if not found.is_singleton():
            base, factor, constant = direction_of(poly)
            known = None if base is None else self.between.get(base)
            if known is not None:
                ends = sorted((known.lower * factor + constant, known.upper * factor + constant))
                found = found & ValueRange(ends[0], ends[1])
        return found

    def _shifted_bounds(self, poly: Poly, oblivious: bool) -> ValueRange:
        """Bounds with each symbol written as its least value plus something from 0 on."""
        lookup = self.oblivious_range_of if oblivious else self.range_of
        total = ZERO
        shift: dict[Symbol, ValueRange] = {}
        for monomial, factor in poly.terms.items():
            product = number(factor)
            for atom in monomial:
                part = atom.poly
                if isinstance(atom, Symbol):
                    known = lookup(atom)
                    if atom.is_int and not math.isinf(known.lower):
                        shift[atom] = ValueRange(0, known.upper - known.lower)
                        part = part + number(int(known.lower))
                product = product * part
            total = total + product
        if not shift:
            return UNKNOWN
        return poly_bounds(total, lambda s: shift.get(s) or lookup(s))

    def _by_extremes(self, poly: Poly, oblivious: bool) -> ValueRange:
        """A maximum is no less than each of its arguments, a minimum no more."""
        found = UNKNOWN
        for monomial, factor in poly.terms.items():
            if len(monomial) != 1 or not isinstance(monomial[0], Call):
                continue
            extreme = monomial[0]
            if extreme.func not in ("Max", "Min"):
                continue
            rest = poly - number(factor) * extreme.poly
            sides = [
                self.bounds(rest + number(factor) * a, oblivious=oblivious)
                for a in extreme.args
                if isinstance(a, Poly)
            ]
            if (extreme.func == "Max") == (factor > 0):
                found = found & ValueRange(max(s.lower for s in sides), INFINITY)
            else:
                found = found & ValueRange(-INFINITY, min(s.upper for s in sides))
        return found

    # --- deciding -------------------------------------------------------------------------

    def simplify(self, expr: Expr) -> Expr:
        """The expression with replacements made and exact divisions carried out."""
        expr = self.replace(expr)
        if not self.divisible:
            return expr
        found = self._simplified.get(expr)
        if found is None:
            found = self._simplified[expr] = self._with_exact_divisions(expr)
        return found

    def _with_exact_divisions(self, expr: Expr) -> Expr:
        if isinstance(expr, Relation):
            lhs, rhs = self.simplify(expr.lhs), self.simplify(expr.rhs)
            return _same_relation(expr, lhs, rhs)
        if not isinstance(expr, Poly):
            return expr
        total = ZERO
        for monomial, factor in expr.terms.items():
            total = total + self._exact_term(monomial, factor)
        return total

    def _exact_term(self, monomial: Monomial, factor: Numeric) -> Poly:
        """``k * (a // k)`` is ``a`` where ``k`` is known to divide ``a``."""
        for position, atom in enumerate(monomial):
            if isinstance(atom, Call) and atom.func == "FloorDiv":
                dividend, divisor = atom.args
                assert isinstance(dividend, Poly)
                assert isinstance(divisor, Poly)
                if not self.divides(dividend, divisor):
                    continue
                rest = number(factor)
                for other in (*monomial[:position], *monomial[position + 1 :]):
                    rest = rest * other.poly
                quotient = exact_quotient(rest, divisor)
                if quotient is not None:
                    return quotient * dividend
        product = number(factor)
        for atom in monomial:
            product = product * atom.poly
        return product

    def divides(self, dividend: Poly, divisor: Poly) -> bool:
        """Whether it is known that there is no remainder."""
        return any(apply(f, dividend, divisor) in self.divisible for f in ("Mod", "PythonMod"))

    def decide(self, expr: Expr, *, oblivious: bool = False) -> bool | None:
        """The truth of a condition where what is known tells it."""
        expr = self.simplify(expr)
        if isinstance(expr, Junction):
            return self._decide_junction(expr, oblivious)
        if expr in self.held:
            return True
        assert isinstance(expr, Relation)
        answer = self._decide_relation(expr, oblivious)
        if answer is None and self.held:
            opposite = negation(expr)
            answer = False if opposite in self.held else None
        return answer

    def decide_by_ranges(self, expr: Expr, *, oblivious: bool = False) -> bool | None:
        """The truth of a condition where the ranges of its symbols tell it."""
        expr = self.simplify(expr)
        if isinstance(expr, Junction):
            answers = [self.decide_by_ranges(a, oblivious=oblivious) for a in expr.args]
            return _joined_answers(expr, answers)
        assert isinstance(expr, Relation)
        base, factor, constant = direction_of(expr.difference)
        if base is None:
            return None
        interval = self.bounds_by_ranges(base, oblivious=oblivious)
        return _answer(expr, interval, factor, constant, base.is_int, ())

    def narrow_by(self, poly: Poly, interval: ValueRange) -> None:
        """Keep an expression within an interval."""
        base, factor, constant = direction_of(poly)
        if base is not None:
            ends = sorted(
                ((interval.lower - constant) / factor, (interval.upper - constant) / factor)
            )
            self.narrow(base, ValueRange(_up(ends[0]), _down(ends[1])))

    def _decide_junction(self, expr: Junction, oblivious: bool) -> bool | None:
        if expr in self.held:
            return True
        return _joined_answers(expr, [self.decide(a, oblivious=oblivious) for a in expr.args])

    def _decide_relation(self, expr: Relation, oblivious: bool) -> bool | None:
        base, factor, constant = direction_of(expr.difference)
        if base is None:
            return None
        interval = self.bounds(base, oblivious=oblivious)
        apart = self.apart.get(base, ())
        return _answer(expr, interval, factor, constant, base.is_int, apart)

    # --- learning -------------------------------------------------------------------------

    def learn(self, expr: Expr) -> None:
        """Take a condition for true from here on."""
        if isinstance(expr, Junction):
            if expr.func == "And":
                for part in expr.args:
                    self.learn(part)
            elif expr.args:
                self.held.add(expr)
                self.changed()
            return
        assert isinstance(expr, Relation)
        self.held.add(expr)
        self.changed()
        self._learn_remainder(expr)
        base, factor, constant = direction_of(expr.difference)
        if base is None:
            return
        op = _MIRRORED[expr.op] if factor < 0 else expr.op
        target: Numeric = -constant / factor if constant % factor else -constant // factor
        self._learn_direction(base, op, target)

    def _learn_direction(self, base: Poly, op: str, target: Numeric) -> None:
        if op == "!=":
            self.apart.setdefault(base, set()).add(target)
            self.narrow(base, UNKNOWN)
            return
        whole = base.is_int
        lower: Numeric = -INFINITY
        upper: Numeric = INFINITY
        if op in ("==", ">=", ">"):
            lower = _up(target) if whole else target
            if op == ">":
                if whole:
                    lower = _down(target) + 1
                else:
                    self.apart.setdefault(base, set()).add(target)
        if op in ("==", "<=", "<"):
            upper = _down(target) if whole else target
            if op == "<":
                if whole:
                    upper = _up(target) - 1
                else:
                    self.apart.setdefault(base, set()).add(target)
        self.narrow(base, ValueRange(lower, upper))

    def narrow(self, base: Poly, interval: ValueRange) -> None:
        """Keep a direction within an interval; the values that it does not take shrink that."""
        symbol = _symbol_alone(base)
        before = self.range_of(symbol) if symbol else self.between.get(base, UNKNOWN)
        found = before & interval
        apart = self.apart.get(base, ())
        while base.is_int and found.lower in apart and found.lower < found.upper:
            found = ValueRange(found.lower + 1, found.upper)
        while base.is_int and found.upper in apart and found.lower < found.upper:
            found = ValueRange(found.lower, found.upper - 1)
        if found == before:
            return
        if symbol is None:
            self.between[base] = found
        else:
            self.ranges[symbol] = found
        self.changed()
        if symbol is None:
            self._narrow_symbols(base, found)

    def _narrow_symbols(self, direction: Poly, interval: ValueRange) -> None:
        """Shrink the ranges of the symbols of a direction by what the others leave."""
        for monomial, factor in direction.terms.items():
            if len(monomial) != 1 or not isinstance(monomial[0], Symbol) or not direction.is_int:
                continue
            symbol = monomial[0]
            rest = direction - number(factor) * symbol.poly
            if symbol in rest.symbols:
                continue
            others = poly_bounds(rest, self.range_of)
            ends = sorted(
                ((interval.lower - others.upper) / factor, (interval.upper - others.lower) / factor)
            )
            if not any(map(math.isnan, ends)):
                self.narrow(symbol.poly, ValueRange(_up(ends[0]), _down(ends[1])))

    def _learn_remainder(self, expr: Relation) -> None:
        if expr.op != "==":
            return
        for side, other in ((expr.lhs, expr.rhs), (expr.rhs, expr.lhs)):
            if other is ZERO and len(side.terms) == 1:
                ((monomial, factor),) = side.terms.items()
                if factor == 1 and len(monomial) == 1:
                    atom = monomial[0]
                    if isinstance(atom, Call) and atom.func in ("Mod", "PythonMod"):
                        self.divisible.add(atom.poly)
                        self.changed()


def _joined_answers(expr: Junction, answers: list[bool | None]) -> bool | None:
    if not expr.args:
        return expr is TRUE
    absorbing = expr.func == "Or"
    if absorbing in answers:
        return absorbing
    return None if None in answers else not absorbing


def _answer(
    expr: Relation,
    interval: ValueRange,
    factor: Numeric,
    constant: Numeric,
    is_int: bool,
    apart: Collection[Numeric],
) -> bool | None:
    """The truth of a relation whose difference is factor * direction + constant."""
    op: str = expr.op if factor > 0 else _MIRRORED[expr.op]
    target = -constant / factor if constant % factor else -constant // factor
    excluded = target in apart
    if op in ("==", "!="):
        if excluded or target not in interval or (is_int and target != math.floor(target)):
            return op == "!="
        return op == "==" if interval.is_singleton() else None
    return _compare(interval, op, target, excluded)


_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _same_relation(expr: Relation, lhs: Expr, rhs: Expr) -> Expr:
    from_ = expr
    if lhs is from_.lhs and rhs is from_.rhs:
        return from_
    assert isinstance(lhs, Poly)
    assert isinstance(rhs, Poly)
    return relation(expr.op, lhs, rhs)


def direction_of(poly: Poly) -> tuple[Poly | None, Numeric, Numeric]:
    """``poly`` as factor * direction + constant; no direction if it is a plain number."""
    found = poly.memo.get("direction")
    if found is None:
        found = poly.memo["direction"] = _direction_of(poly)
    return found  # type: ignore[return-value]  # only written here


def _direction_of(poly: Poly) -> tuple[Poly | None, Numeric, Numeric]:
    constant = poly.terms.get((), 0)
    rest = poly - number(constant) if constant else poly
    if not rest.terms:
        return None, 1, constant
    lead = rest.terms[min(rest.terms, key=lambda m: (len(m), [a.order for a in m]))]
    if not poly.is_int:
        scale = number(1 / lead)
        return (rest * scale if lead not in (1, 1.0) else rest), lead, constant
    factor = math.gcd(*[int(c) for c in rest.terms.values()]) * (1 if lead > 0 else -1)
    if factor != 1:
        quotient = exact_quotient(rest, number(factor))
        assert quotient is not None
        rest = quotient
    return rest, factor, constant


def _symbol_alone(poly: Poly) -> Symbol | None:
    """The symbol that an expression consists of, if it is one."""
    if len(poly.terms) != 1:
        return None
    ((monomial, factor),) = poly.terms.items()
    if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
        return monomial[0]
    return None


symbol_alone = _symbol_alone


def _up(value: Numeric) -> Numeric:
    return value if math.isinf(value) else math.ceil(value)


def _down(value: Numeric) -> Numeric:
    return value if math.isinf(value) else math.floor(value)


def _compare(interval: ValueRange, op: str, target: Numeric, excluded: bool) -> bool | None:
    """Whether all, or no, values of an interval compare so with a target."""
    lower, upper = interval.lower, interval.upper
    if op == "<":
        if upper < target or (upper == target and excluded):
            return True
        return False if lower >= target else None
    if op == "<=":
        if upper <= target:
            return True
        return False if lower > target or (lower == target and excluded) else None
    opposite = _compare(interval, "<=" if op == ">" else "<", target, excluded)
    return None if opposite is None else not opposite


def solutions(equation: Relation) -> Iterator[tuple[Symbol, Poly]]:
    """Symbols that an equation gives as expressions of the others, without a fraction."""
    difference = equation.difference
    for monomial, factor in difference.terms.items():
        if len(monomial) != 1 or not isinstance(monomial[0], Symbol):
            continue
        symbol = monomial[0]
        rest = difference - number(factor) * symbol.poly
        if symbol in rest.symbols:
            continue
        solution = exact_quotient(-rest, number(factor)) if difference.is_int else None
        if solution is not None:
            yield symbol, solution
