"""`SymNode`: an expression in an environment, and what may be asked of it.

Nodes are interned by environment and expression, so what was once computed of two numbers is found
by their identities. The numbers that users hold are in `numbers.py`; each node has one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from maquette.symbolic import functions
from maquette.symbolic.expr import (
    MAX_INT,
    Expr,
    Junction,
    Numeric,
    Poly,
    all_of,
    any_of,
    negation,
    number,
    relation,
    truth,
)
from maquette.symbolic.forms import sympy_of, text_of

if TYPE_CHECKING:
    from maquette.symbolic.numbers import SymNumber
    from maquette.symbolic.shape_env import ShapeEnv

Plain = int | float | bool
Text = str  # the class has a method of that name, as PyTorch's has


class InternKey:
    """Stands for a node in tables that must not keep its environment alive."""

    __slots__ = ()


class SymNode:
    """An expression in a `ShapeEnv`: what a `SymInt`, `SymFloat` or `SymBool` stands for.

    form: the expression as it was made. expr: as it is after replacements, as a SymPy expression.
    """

    __slots__ = (
        "__weakref__", "answer", "form", "fx_node", "key", "number", "pytype", "results",
        "shape_env", "unknown_at",
    )  # fmt: skip

    form: Expr
    shape_env: ShapeEnv
    pytype: type
    number: SymNumber
    key: InternKey
    fx_node: object
    results: dict[object, Any]
    """The environment's memory of what was computed; one dict for all its nodes."""
    answer: bool | None
    """Whether a condition holds, once that is known or guarded."""
    unknown_at: int
    """The state of knowledge in which a condition could not be told without data."""

    def __new__(
        cls,
        expr: object,
        shape_env: ShapeEnv,
        pytype: type,
        hint: Plain | None = None,
        constant: Plain | None = None,
        fx_node: object = None,
    ) -> SymNode:
        """The node of a SymPy expression or of one of ours, for `SymInt(SymNode(...))`.

        pytype: int, float or bool. hint: the value at the given sizes; AssertionError if it is
        another one than the environment knows. constant: a plain value that takes the place of the
        expression.
        """
        form = shape_env.form_of(expr if constant is None else constant)
        if pytype is bool and isinstance(form, Poly):
            form = relation("!=", form, number(0))
        node = shape_env.node(form, pytype)
        known = node.hint
        if not (hint is None or known is None or known == hint):
            raise AssertionError(f"the hint {hint} of {text_of(form)}, which is {known}")
        return node

    # --- what it is -----------------------------------------------------------------------

    @property
    def current(self) -> Expr:
        """The expression after replacements."""
        facts = self.shape_env.facts
        return facts.replace(self.form) if facts.replacements else self.form

    @property
    def expr(self) -> Any:
        """The expression after replacements, for SymPy."""
        return sympy_of(self.current)

    @property
    def _expr(self) -> Any:
        """The expression as it was made, for SymPy."""
        return sympy_of(self.form)

    @property
    def constant(self) -> Plain | None:
        """Always None: constants are plain numbers."""
        return None

    @property
    def hint(self) -> Any:
        """The value at the sizes that the program was given; None if data would tell it."""
        return self.shape_env.hint_of(self.form)

    @property
    def _hint(self) -> Any:
        return self.hint

    def has_hint(self) -> bool:
        """Whether the value at the given sizes is known."""
        return self.hint is not None

    def require_hint(self, fallback: Plain | None = None) -> Any:
        """The hint; without one the fallback, or GuardOnDataDependentSymNode."""
        hint = self.hint
        if hint is not None:
            return hint
        return fallback if fallback is not None else self.shape_env.refuse(self.form)

    guarding_hint_or_throw = require_hint

    def is_int(self) -> bool:
        """Whether it stands for an int."""
        return self.pytype is int

    def is_float(self) -> bool:
        """Whether it stands for a float."""
        return self.pytype is float

    def is_bool(self) -> bool:
        """Whether it stands for a bool."""
        return self.pytype is bool

    def is_nested_int(self) -> bool:
        """Whether it is the size of a ragged dimension: not this kind."""
        return False

    def is_symbolic(self) -> bool:
        """Whether it is no plain number: always."""
        return True

    def is_constant(self) -> bool:
        """Whether it is a plain number: never."""
        return False

    def maybe_as_int(self) -> int | None:
        """The value, if only one is left."""
        value = self._constant_value()
        return None if value is None or self.pytype is not int else int(value)

    def maybe_as_float(self) -> float | None:
        """The value, if only one is left."""
        value = self._constant_value()
        return None if value is None else float(value)

    def maybe_as_bool(self) -> bool | None:
        """The truth of a condition that has become constant."""
        form = self.current
        return form.func == "True" if isinstance(form, Junction) and not form.args else None

    def _constant_value(self) -> Numeric | None:
        form = self.current
        return form.constant if isinstance(form, Poly) else None

    def str(self) -> Text:
        """The expression after replacements, as text."""
        return text_of(self.current)

    _graph_repr = str

    def __str__(self) -> Text:
        return text_of(self.current)

    def __repr__(self) -> Text:
        hint = self.hint
        return f"SymNode({self}, shape_env={self.shape_env!r}, pytype={self.pytype}, hint={hint})"

    def __deepcopy__(self, memo: object) -> SymNode:
        return self

    def __copy__(self) -> SymNode:
        return self

    def clone(self) -> SymNode:
        """The node itself: it is immutable."""
        return self

    def with_shape_env(self, shape_env: ShapeEnv) -> SymNode:
        """The same expression in another environment."""
        return shape_env.node(self.form, self.pytype)

    # --- for core -------------------------------------------------------------------------

    def intern_key(self) -> object:
        """What stands for the number in the table of metas."""
        form = self.current
        if form.symbols or self.pytype is not int:
            return self.key
        value = self.maybe_as_int()
        return self.key if value is None else value

    def canonical(self) -> Any:
        """The number by its present expression: a plain int where that has become constant."""
        form = self.current
        if not isinstance(form, Poly) or self.pytype is not int:
            return self.number
        return self.number if form is self.form and form.symbols else self.shape_env.symint(form)

    def fresh_size(self, largest: Any) -> Any:
        """A fresh unbacked size from 0 to ``largest``."""
        env = self.shape_env
        bound = env.facts.bounds(env.poly_of(largest)).upper
        made = env.new_size(0, min(bound, MAX_INT))
        if not made.node.shape_env.guard_or_defer_runtime_assert(
            relation("<=", as_poly(made.node), env.poly_of(largest)), "slice"
        ):
            raise RuntimeError(f"a slice cannot be larger than {largest}")
        return made

    def guard_or_false(self, file: Text = "", line: int = 0) -> bool:
        """The truth: guarded if there is a hint, False if only data could tell."""
        if self.answer is not None:
            return self.answer
        return bool(self.shape_env.evaluate(self, fallback=False))

    def guard_or_true(self, file: Text = "", line: int = 0) -> bool:
        """The truth: guarded if there is a hint, True if only data could tell."""
        if self.answer is not None:
            return self.answer
        return bool(self.shape_env.evaluate(self, fallback=True))

    def statically_known_true(self, file: Text = "", line: int = 0) -> bool:
        """Whether it is known to be true; never a guard."""
        return self.shape_env.decide(self.form) is True

    def expect_true(self, file: Text = "", line: int = 0) -> bool:
        """Assert the condition: at once if it can be decided, else when the program runs."""
        if self.answer is True:
            return True
        return self.shape_env.guard_or_defer_runtime_assert(
            self.form, f"{file}:{line}" if file else ""
        )

    def guard_size_oblivious(self, file: Text = "", line: int = 0) -> bool:
        """The truth, with unbacked sizes taken for neither 0 nor 1."""
        return bool(self.shape_env.evaluate(self, oblivious=True))

    def guard_bool(self, file: Text = "", line: int = 0) -> bool:
        """The truth; leaves a guard."""
        if self.answer is not None:
            return self.answer
        return bool(self.shape_env.evaluate(self))

    def bool_(self) -> bool:
        """`guard_bool`, of no place."""
        return self.guard_bool()

    def guard_int(self, file: Text = "", line: int = 0) -> int:
        """The value; leaves an equality guard."""
        return int(self.shape_env.evaluate(self))

    def int_(self) -> int:
        """`guard_int`, of no place."""
        return self.guard_int()

    def guard_float(self, file: Text = "", line: int = 0) -> float:
        """The value; leaves an equality guard."""
        return float(self.shape_env.evaluate(self))

    def guard_value(self) -> Plain:
        """The value as its own kind; leaves a guard."""
        return self.pytype(self.shape_env.evaluate(self))  # type: ignore[no-any-return]  # a plain number

    # --- arithmetic -----------------------------------------------------------------------

    def wrap_int(self, num: int) -> SymNode:
        """A plain int as a node."""
        return self.shape_env.node(number(num), int)

    def wrap_float(self, num: float) -> SymNode:
        """A plain float as a node."""
        return self.shape_env.node(number(float(num)), float)

    def wrap_bool(self, num: bool) -> SymNode:
        """A plain bool as a node."""
        return self.shape_env.node(truth(num), bool)


def to_node(self: SymNode, num: Any) -> Any:
    """A number as a node of another one's environment; NotImplemented for what is no number."""
    node = getattr(num, "node", None)
    if node is not None:
        return node
    if isinstance(num, bool):  # before int, which it is too
        return self.wrap_bool(num)
    if isinstance(num, int):
        return self.wrap_int(num)
    return self.wrap_float(num) if isinstance(num, float) else NotImplemented


def _operation(name: Text, function: Callable[..., Any]) -> Callable[..., SymNode]:
    """A method of nodes that computes what a function of their numbers does."""

    def computed(self: SymNode, *others: Any) -> SymNode:
        operands = (getattr(other, "number", other) for other in others)
        return cast(SymNode, to_node(self, function(self.number, *operands)))

    def unary(self: SymNode) -> SymNode:
        return computed(self)

    def binary(self: SymNode, other: SymNode) -> SymNode:
        return computed(self, other)

    def rounded(self: SymNode, ndigits: int | None = None) -> SymNode:
        return computed(self) if ndigits is None else computed(self, ndigits)

    def chosen(self: SymNode, then_val: SymNode, else_val: SymNode) -> SymNode:
        return computed(self, then_val, else_val)

    if name == "round":
        return rounded
    if name == "sym_ite":
        return chosen
    return unary if name in _OF_ONE else binary


_OF_ONE: Final = frozenset(
    "neg pos abs ceil floor trunc is_integer sym_float sym_int sym_not sym_sqrt sym_cos sym_cosh "
    "sym_sin sym_sinh sym_tan sym_tanh sym_asin sym_acos sym_atan sym_log2".split()
)


def _sym(name: str) -> Callable[..., Any]:
    """The number's own `__sym_name__`."""
    return lambda a, *others: getattr(a, f"__sym_{name}__")(*others)


# What PyTorch's nodes compute, by the names of its methods; `sym_ite` is `condition.sym_ite(a, b)`.
NODE_OPERATIONS: Final[dict[Text, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "mod": operator.mod,
    "floordiv": operator.floordiv, "int_floordiv": operator.floordiv, "truediv": operator.truediv,
    "int_truediv": operator.truediv, "float_truediv": operator.truediv, "pow": operator.pow,
    "float_pow": operator.pow, "pow_by_natural": operator.pow, "lshift": operator.lshift,
    "rshift": operator.rshift, "and_": operator.and_, "or_": operator.or_,
    "sym_and": operator.and_, "sym_or": operator.or_, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "eq": operator.eq, "ne": operator.ne,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "round": round, "ceil": math.ceil,
    "floor": math.floor, "trunc": math.trunc, "is_integer": lambda a: a.is_integer(),
    **{
        f"sym_{name}": _sym(name)
        for name in (
            "float", "int", "not", "ite", "max", "min", "sqrt", "cos", "cosh", "sin", "sinh",
            "tan", "tanh", "asin", "acos", "atan", "log2",
        )
    },
}  # fmt: skip
for _name, _of_numbers in NODE_OPERATIONS.items():
    setattr(SymNode, _name, _operation(_name, _of_numbers))


def as_poly(node: SymNode) -> Poly:
    """The current expression of a number; that of a condition as 0 or 1."""
    form = node.current
    if isinstance(form, Poly):
        return form
    return functions.apply("Piecewise", number(1), form, number(0))


def _float(poly: Poly) -> Poly:
    return functions.apply("ToFloat", poly) if poly.is_int else poly


def compute(op: str, a: Poly, b: Poly, kinds: tuple[type, type]) -> tuple[Expr, type]:
    """The expression and kind of ``a op b`` for numbers of these kinds."""
    floats = float in kinds
    if op in _COMPARISONS:
        if floats:
            a, b = _float(a), _float(b)
        return relation(_COMPARISONS[op], a, b), bool
    if floats:
        return _compute_floats(op, _float(a), _float(b))
    rule = _INT_RULES[op]
    form = rule(a, b)
    return form, float if op == "truediv" else int


def _compute_floats(op: str, a: Poly, b: Poly) -> tuple[Expr, type]:
    if op == "floordiv":
        quotient = functions.apply("FloatTrueDiv", a, b)
        return functions.apply("ToFloat", functions.apply("FloorToInt", quotient)), float
    if op in _FLOAT_RULES:
        return _FLOAT_RULES[op](a, b), float
    raise TypeError(f"unsupported operand type(s) for {op}: 'SymFloat'")


_COMPARISONS: Final[dict[str, Any]] = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def _function(name: str) -> Any:
    return lambda a, b: functions.apply(name, a, b)


_INT_RULES: Final[dict[str, Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": _function("FloorDiv"),
    "mod": functions.mod,
    "truediv": _function("IntTrueDiv"),
    "pow_by_natural": _function("PowByNatural"),
    "lshift": _function("LShift"),
    "rshift": _function("RShift"),
    "and": _function("BitwiseFn_bitwise_and"),
    "or": _function("BitwiseFn_bitwise_or"),
    "xor": _function("BitwiseFn_bitwise_xor"),
    "max": _function("Max"),
    "min": _function("Min"),
}
_FLOAT_RULES: Final[dict[str, Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mod": _function("PythonMod"),
    "truediv": _function("FloatTrueDiv"),
    "float_pow": _function("FloatPow"),
    "max": _function("Max"),
    "min": _function("Min"),
}


def joined(op: str, a: Expr, b: Expr) -> Expr:
    """``a and b`` or ``a or b`` of conditions."""
    return (all_of if op == "and" else any_of)((a, b))


def opposite(a: Expr) -> Expr:
    """The opposite condition."""
    return negation(a)
