"""Expressions over symbols: interned polynomials, function calls, relations.

This is all the algebra that shapes need every day: sums and products of sizes, with what is no
polynomial (a floor division, a maximum) as an opaque atom. An expression is immutable and equal
ones are one object, so a question about it is remembered by identity. SymPy sees an expression
only when somebody asks for it or for its text (`sympy_forms.py`). Simplification of single
functions is in `functions.py`; expressions know no environment, hint or guard.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar
from weakref import WeakValueDictionary

Numeric: TypeAlias = int | float
Monomial: TypeAlias = tuple["Atom", ...]
"""Atoms in the order in which they were made; a power is an atom more than once."""
K = TypeVar("K")
V = TypeVar("V")
Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
MAX_INT: Final = 2**63 - 1
"""The largest size."""

_orders = itertools.count()
_lock = threading.Lock()
_table: WeakValueDictionary[Hashable, Expr | Atom] = WeakValueDictionary()

FLIPPED: Final[dict[Op, Op]] = {
    "==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
NEGATED: Final[dict[Op, Op]] = {
    "==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip


class Atom:
    """What a polynomial is made of: a symbol or a function call."""

    __slots__ = ("__weakref__", "_poly", "is_int", "lower", "order", "symbols")

    is_int: bool
    lower: Numeric | None
    """The least value that its kind alone allows; None if there is no such bound."""
    order: int
    symbols: frozenset[Symbol]

    @property
    def poly(self) -> Poly:
        """The atom as an expression."""
        try:
            return self._poly
        except AttributeError:
            self._poly: Poly = _poly({(self,): 1})
            return self._poly


class Symbol(Atom):
    """A name for a number that is not fixed.

    prefix: `s` a size with a hint, `u` an unbacked integer, `zf` and `zuf` floats of both kinds.
    """

    __slots__ = ("name", "prefix")

    name: str
    prefix: str

    @property
    def is_unbacked(self) -> bool:
        """Whether only data could tell its value."""
        return self.prefix in ("u", "zuf")

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return symbol, (self.name, self.prefix, self.lower, self.is_int)


class Call(Atom):
    """A function of expressions that has no simpler form."""

    __slots__ = ("args", "func")

    func: str
    args: tuple[Expr, ...]

    def __repr__(self) -> str:
        return f"{self.func}({', '.join(map(repr, self.args))})"

    def __reduce__(self) -> tuple[object, ...]:
        return call, (self.func, self.args, self.is_int, self.lower)


class Expr:
    """A number or a condition; see `Poly`, `Relation` and `Junction`."""

    __slots__ = ("__weakref__", "memo", "symbols")

    symbols: frozenset[Symbol]
    memo: dict[str, object]
    """What was worked out of the expression alone: its SymPy form, its text."""

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self


class Poly(Expr):
    """A sum of products of atoms; a plain number is one, too."""

    __slots__ = ("is_int", "terms")

    terms: dict[Monomial, Numeric]
    is_int: bool

    @property
    def constant(self) -> Numeric | None:
        """The value of a plain number; None if there is an atom."""
        terms = self.terms
        if not terms:
            return 0
        if len(terms) == 1:
            return terms.get(())
        return None

    def __add__(self, other: Poly) -> Poly:
        found = _sums.get((self, other))
        return _sums.put((self, other), self._plus(other)) if found is None else found

    def __mul__(self, other: Poly) -> Poly:
        found = _products.get((self, other))
        return _products.put((self, other), self._times(other)) if found is None else found

    def _plus(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            total = terms.get(monomial, 0) + factor
            if total == 0:
                terms.pop(monomial, None)
            else:
                terms[monomial] = total
        return _poly(terms)

    def __neg__(self) -> Poly:
        return _poly({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def _times(self, other: Poly) -> Poly:
        terms: dict[Monomial, Numeric] = {}
        for m1, c1 in self.terms.items():
            for m2, c2 in other.terms.items():
                product = merged(m1, m2)
                total = terms.get(product, 0) + c1 * c2
                if total == 0:
                    terms.pop(product, None)
                else:
                    terms[product] = total
        return _poly(terms)

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        parts = ["*".join([str(c), *map(repr, m)]) for m, c in self.terms.items()]
        return " + ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _poly, (self.terms,)


class Relation(Expr):
    """A comparison of two numbers, as it was written."""

    __slots__ = ("difference", "lhs", "op", "rhs")

    op: Op
    lhs: Poly
    rhs: Poly
    difference: Poly

    def __repr__(self) -> str:
        return f"({self.lhs!r} {self.op} {self.rhs!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return relation, (self.op, self.lhs, self.rhs)


class Junction(Expr):
    """Several conditions joined by `and` or `or`, the negation of an `or` of unknowns, a constant.

    func: `And`, `Or`, `True`, `False`.
    """

    __slots__ = ("args", "func")

    func: str
    args: tuple[Expr, ...]

    def __repr__(self) -> str:
        return f"{self.func}({', '.join(map(repr, self.args))})"

    def __reduce__(self) -> tuple[object, ...]:
        return _junction, (self.func, self.args)


class Memo(Generic[K, V]):
    """Answers by key; all are forgotten when there are too many, so that expressions can end."""

    __slots__ = ("_table", "get")

    def __init__(self) -> None:
        self._table: dict[K, V] = {}
        self.get = self._table.get

    def put(self, key: K, value: V) -> V:
        """Remember an answer, and give it."""
        if len(self._table) > _LARGEST_MEMO:
            self._table.clear()
        self._table[key] = value
        return value


_LARGEST_MEMO: Final = 8192
_sums: Memo[tuple[Poly, Poly], Poly] = Memo()
_products: Memo[tuple[Poly, Poly], Poly] = Memo()
_relations: Memo[tuple[Op, Poly, Poly], Relation | Junction] = Memo()


def _interned(key: Hashable, make: Callable[[], Expr | Atom]) -> Expr | Atom:
    found = _table.get(key)
    if found is None:
        with _lock:
            found = _table.get(key)
            if found is None:
                found = _table[key] = make()
    return found


def _order(atom: Atom) -> int:
    return atom.order


def merged(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials."""
    if not a or not b:
        return a or b
    return tuple(sorted(a + b, key=_order))


_symbols: dict[Hashable, Symbol] = {}


def symbol(name: str, prefix: str, lower: Numeric | None, is_int: bool) -> Symbol:
    """The symbol of this name and kind. lower: 1 for a positive one, 0 if it is not negative."""
    key = (name, prefix, lower, is_int)
    found = _symbols.get(key)
    if found is None:
        made = Symbol()
        made.name, made.prefix, made.lower, made.is_int = name, prefix, lower, is_int
        made.order = next(_orders)
        made.symbols = frozenset((made,))
        found = _symbols.setdefault(key, made)
    return found


def call(func: str, args: tuple[Expr, ...], is_int: bool, lower: Numeric | None = None) -> Call:
    """A function call as an atom; `functions.py` has what simplifies first."""

    def make() -> Call:
        made = Call()
        made.func, made.args, made.is_int, made.lower = func, args, is_int, lower
        made.order = next(_orders)
        made.symbols = frozenset().union(*(a.symbols for a in args))
        return made

    found = _interned(("call", func, args), make)
    assert isinstance(found, Call)
    return found


def _poly(terms: dict[Monomial, Numeric]) -> Poly:
    is_int = True
    for monomial, factor in terms.items():
        if factor.__class__ is not int:
            is_int = False
        for atom in monomial:
            if not atom.is_int:
                is_int = False
    if is_int:
        key: Hashable = frozenset(terms.items())
    else:
        key = frozenset([(m, c, c.__class__) for m, c in terms.items()])
    found = _table.get(key)
    if found is None:
        found = _interned(key, lambda: _new_poly(terms, is_int))
    assert isinstance(found, Poly)
    return found


def _new_poly(terms: dict[Monomial, Numeric], is_int: bool) -> Poly:
    made = Poly()
    made.terms, made.is_int, made.memo = terms, is_int, {}
    made.symbols = frozenset().union(*(atom.symbols for m in terms for atom in m))
    return made


_SMALL = range(-16, 1025)
_constants: dict[int, Poly] = {}


def number(value: Numeric) -> Poly:
    """A plain number as an expression."""
    if value.__class__ is int and value in _SMALL:
        found = _constants.get(value)
        if found is None:
            found = _constants[value] = _poly({(): value} if value else {})
        return found
    if isinstance(value, bool):
        value = int(value)
    return _poly({(): value} if value.__class__ is not int or value else {})


ZERO: Final = number(0)
ONE: Final = number(1)


def assumed_bounds(poly: Poly) -> tuple[Numeric | None, Numeric | None]:
    """The bounds that the kinds of its atoms alone give a polynomial; None where there is none."""
    lower: Numeric = 0
    upper: Numeric = 0
    falling = rising = False
    for monomial, factor in poly.terms.items():
        least = factor
        for atom in monomial:
            if atom.lower is None or atom.lower < 0:
                return None, None
            least = least * atom.lower
        lower += least
        upper += least
        if monomial:
            rising, falling = rising or factor > 0, falling or factor < 0
    return None if falling else lower, None if rising else upper


def _decided(op: Op, lower: Numeric | None, upper: Numeric | None) -> bool | None:
    """What `difference op 0` is, if the bounds of the difference tell."""
    if op in (">", ">="):
        lower, upper = (None if upper is None else -upper), (None if lower is None else -lower)
        op = FLIPPED[op]
    if op == "<":
        if upper is not None and upper < 0:
            return True
        return False if lower is not None and lower >= 0 else None
    if op == "<=":
        if upper is not None and upper <= 0:
            return True
        return False if lower is not None and lower > 0 else None
    apart = (lower is not None and lower > 0) or (upper is not None and upper < 0)
    if apart:
        return op == "!="
    if lower is not None and lower == upper:
        return op == "=="
    return None


def relation(op: Op, lhs: Poly, rhs: Poly) -> Relation | Junction:
    """A comparison; a constant where the expressions or the kinds of their symbols decide it."""
    known = _relations.get((op, lhs, rhs))
    return _relations.put((op, lhs, rhs), _relation(op, lhs, rhs)) if known is None else known


def _relation(op: Op, lhs: Poly, rhs: Poly) -> Relation | Junction:
    difference = lhs - rhs
    constant = difference.constant
    bounds = (constant, constant) if constant is not None else assumed_bounds(difference)
    decided = _decided(op, *bounds)
    if decided is not None:
        return TRUE if decided else FALSE

    def make() -> Relation:
        made = Relation()
        made.op, made.lhs, made.rhs, made.difference = op, lhs, rhs, difference
        made.symbols, made.memo = difference.symbols, {}
        return made

    found = _interned((op, lhs, rhs), make)
    assert isinstance(found, Relation)
    return found


def _junction(func: str, args: tuple[Expr, ...]) -> Junction:
    def make() -> Junction:
        made = Junction()
        made.func, made.args, made.memo = func, args, {}
        made.symbols = frozenset().union(*(a.symbols for a in args))
        return made

    found = _interned(("junction", func, args), make)
    assert isinstance(found, Junction)
    return found


TRUE: Final = _junction("True", ())
FALSE: Final = _junction("False", ())


def truth(value: bool) -> Junction:
    """A Python bool as a condition."""
    return TRUE if value else FALSE


def all_of(conditions: Iterable[Expr]) -> Expr:
    """The conjunction."""
    return _joined("And", conditions, TRUE, FALSE)


def any_of(conditions: Iterable[Expr]) -> Expr:
    """The disjunction."""
    return _joined("Or", conditions, FALSE, TRUE)


def _joined(func: str, conditions: Iterable[Expr], neutral: Expr, absorbing: Expr) -> Expr:
    kept: dict[Expr, None] = {}
    for condition in conditions:
        if condition is absorbing:
            return absorbing
        if condition is neutral:
            continue
        inner: Sequence[Expr] = (condition,)
        if isinstance(condition, Junction) and condition.func == func:
            inner = condition.args
        kept.update(dict.fromkeys(inner))
    if len(kept) < 2:
        return next(iter(kept), neutral)
    return _junction(func, tuple(kept))


def negation(condition: Expr) -> Expr:
    """The opposite condition."""
    if isinstance(condition, Relation):
        return relation(NEGATED[condition.op], condition.lhs, condition.rhs)
    assert isinstance(condition, Junction)
    if condition.func in ("True", "False"):
        return truth(condition.func == "False")
    join = any_of if condition.func == "And" else all_of
    return join(map(negation, condition.args))


def substituted(expr: Expr, values: dict[Symbol, Poly], again: Callable[..., Poly]) -> Expr:
    """The expression with symbols replaced.

    again: makes a function call of its name and new arguments, simplifying it (`functions.apply`).
    """
    if values.keys().isdisjoint(expr.symbols):
        return expr
    if isinstance(expr, Poly):
        total = ZERO
        for monomial, factor in expr.terms.items():
            product = number(factor)
            for atom in monomial:
                product = product * _atom_substituted(atom, values, again)
            total = total + product
        return total
    if isinstance(expr, Relation):
        lhs, rhs = (substituted(side, values, again) for side in (expr.lhs, expr.rhs))
        assert isinstance(lhs, Poly)
        assert isinstance(rhs, Poly)
        return relation(expr.op, lhs, rhs)
    assert isinstance(expr, Junction)
    join = all_of if expr.func == "And" else any_of
    return join([substituted(a, values, again) for a in expr.args])


def _atom_substituted(atom: Atom, values: dict[Symbol, Poly], again: Callable[..., Poly]) -> Poly:
    if isinstance(atom, Symbol):
        return values.get(atom) or atom.poly
    assert isinstance(atom, Call)
    if values.keys().isdisjoint(atom.symbols):
        return atom.poly
    return again(atom.func, *[substituted(a, values, again) for a in atom.args])
