"""`SymInt`, `SymFloat`, `SymBool`: the numbers that stand for sizes and values not fixed yet.

They act like Python's numbers and leave no guard until their value is needed: `bool()` of a
comparison, `int()`, indexing. Every operator asks its environment's memory first, by the identities
of the operands' nodes. What the results are is in `node.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from maquette.symbolic import functions
from maquette.symbolic.expr import TRUE, Expr, Poly, number, relation, truth
from maquette.symbolic.node import SymNode, as_poly, compute, joined, opposite

if TYPE_CHECKING:
    from maquette.symbolic.shape_env import ShapeEnv

Operand: TypeAlias = Any


class SymNumber:
    """What the three kinds share: a node, a text, and that copies are the number itself."""

    __slots__ = ("__weakref__", "node")

    node: SymNode

    def __init__(self, node: SymNode) -> None:
        self.node = node

    def __repr__(self) -> str:
        return self.node.str()

    def __str__(self) -> str:
        return self.node.str()

    def __format__(self, spec: str) -> str:
        return self.node.str() if not spec else format(self._value(), spec)

    def _value(self) -> Operand:
        return self.node.guard_value()

    def __deepcopy__(self, memo: object) -> SymNumber:
        return self

    def __copy__(self) -> SymNumber:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} belongs to a ShapeEnv and cannot be pickled")

    def _sympy_(self) -> Operand:
        return self.node.expr


def _operand(value: object, env: ShapeEnv) -> tuple[Poly, type] | None:
    """The expression and kind of an operand; None for what is no real number."""
    if isinstance(value, SymNumber):
        if value.node.shape_env is not env:
            raise RuntimeError(
                f"symbolic numbers of two shape environments were mixed: {value} is not of "
                f"{env!r}; make all inputs fake in one mode"
            )
        return as_poly(value.node), value.node.pytype
    if isinstance(value, int):
        return number(int(value)), int
    if isinstance(value, float):
        return number(float(value)), float
    item = getattr(value, "__index__", None)
    if item is not None and hasattr(value, "dtype") and not hasattr(value, "_keys"):
        return number(int(item())), int  # a NumPy integer
    return None


def _result(env: ShapeEnv, form: Expr, kind: type) -> Operand:
    return env.node(form, kind).number


def _binary(op: str, *, swapped: bool = False) -> Callable[[Operand, Operand], Operand]:
    """The operator method; ``swapped`` for the reflected one."""
    mark = ("r" + op) if swapped else op

    def method(self: SymNumber, other: Operand) -> Operand:
        node = self.node
        kind = other.__class__
        if kind is int:
            key: object = (mark, node, other)
        elif kind is SymInt or kind is SymFloat:
            key = (mark, node, other.node)
        elif kind is float:
            key = (mark, node, other, float)  # 2.0 is 2 to a dict
        else:
            return slow(self, other)
        found = node.results.get(key)
        if found is None:
            found = slow(self, other)
            if found is not NotImplemented:
                node.results[key] = found
        return found

    def slow(self: SymNumber, other: Operand) -> Operand:
        node = self.node
        env = node.shape_env
        right = _operand(other, env)
        if right is None:
            return NotImplemented
        left = as_poly(node), node.pytype
        if swapped:
            left, right = right, left
        if op == "pow":
            return _power(env, left, right)
        form, kind = compute(op, left[0], right[0], (left[1], right[1]))
        return _result(env, form, kind)

    method.__name__ = f"__{'r' if swapped else ''}{op}__"
    return method


def _power(env: ShapeEnv, base: tuple[Poly, type], exponent: tuple[Poly, type]) -> Operand:
    """A power: of integers with an exponent from 0 on an integer, else a float (F115)."""
    if float not in (base[1], exponent[1]):
        natural = relation(">=", exponent[0], number(0))
        if bool(_result(env, natural, bool)):
            form, kind = compute("pow_by_natural", base[0], exponent[0], (int, int))
            return _result(env, form, kind)
    elif base[1] is float:
        positive = _result(env, relation(">=", base[0], number(0.0)), bool)
        if not positive.node.expect_true():
            raise RuntimeError(f"a negative SymFloat has no real power, got {base[0]}")
    form, kind = compute("float_pow", base[0], exponent[0], (float, float))
    return _result(env, form, kind)


def _compared(op: str) -> Callable[[Operand, Operand], Operand]:
    ordinary = _binary(op)

    def method(self: SymNumber, other: Operand) -> Operand:
        result = ordinary(self, other)
        if result is NotImplemented:
            return {"eq": False, "ne": True}[op]
        return result

    method.__name__ = f"__{op}__"
    return method


def _unary(func: str, kind: type | None = None) -> Callable[[Operand], Operand]:
    """A function of one number; kind: of the result, else the number's own."""

    def method(self: SymNumber) -> Operand:
        node = self.node
        key = (func, node)
        found = node.results.get(key)
        if found is None:
            form = functions.apply(func, as_poly(node))
            found = node.results[key] = _result(node.shape_env, form, kind or node.pytype)
        return found

    method.__name__ = func
    return method


class _Real(SymNumber):
    """Arithmetic that ints and floats share."""

    __slots__ = ()

    __add__ = _binary("add")
    __radd__ = _binary("add", swapped=True)
    __sub__ = _binary("sub")
    __rsub__ = _binary("sub", swapped=True)
    __mul__ = _binary("mul")
    __rmul__ = _binary("mul", swapped=True)
    __floordiv__ = _binary("floordiv")
    __rfloordiv__ = _binary("floordiv", swapped=True)
    __mod__ = _binary("mod")
    __rmod__ = _binary("mod", swapped=True)
    __truediv__ = _binary("truediv")
    __rtruediv__ = _binary("truediv", swapped=True)
    __pow__ = _binary("pow")
    __rpow__ = _binary("pow", swapped=True)
    __eq__ = _compared("eq")
    __ne__ = _compared("ne")
    __lt__ = _binary("lt")
    __le__ = _binary("le")
    __gt__ = _binary("gt")
    __ge__ = _binary("ge")
    __sym_max__ = _binary("max")
    __sym_min__ = _binary("min")
    __abs__ = _unary("Abs")
    __hash__ = None  # type: ignore[assignment]  # F118

    def __neg__(self) -> Operand:
        return 0 - self

    def __pos__(self) -> Operand:
        return self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        return int(self._value())

    def __float__(self) -> float:
        return float(self._value())

    def __complex__(self) -> complex:
        return complex(self._value())

    def conjugate(self) -> Operand:
        """The number itself: it is real."""
        return self

    @property
    def real(self) -> Operand:
        """The number itself."""
        return self

    @property
    def imag(self) -> int:
        """0."""
        return 0


def _opaque(name: str) -> Callable[[Operand], Operand]:
    def method(self: SymNumber) -> Operand:
        env = self.node.shape_env
        argument = functions.apply("ToFloat", as_poly(self.node))
        return _result(env, functions.apply(f"OpaqueUnaryFn_{name}", argument), float)

    method.__name__ = f"__sym_{name}__"
    return method


UNARY_FUNCTIONS = (
    "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log",
    "log2", "asinh",
)  # fmt: skip
for _name in UNARY_FUNCTIONS:
    setattr(_Real, f"__sym_{_name}__", _opaque(_name))


class SymInt(_Real):
    """An int whose value is not fixed: it acts like an int, and has no hash (F115, F118)."""

    __slots__ = ()

    __lshift__ = _binary("lshift")
    __rlshift__ = _binary("lshift", swapped=True)
    __rshift__ = _binary("rshift")
    __rrshift__ = _binary("rshift", swapped=True)
    __and__ = _binary("and")
    __rand__ = _binary("and", swapped=True)
    __or__ = _binary("or")
    __ror__ = _binary("or", swapped=True)
    __xor__ = _binary("xor")
    __rxor__ = _binary("xor", swapped=True)
    __sym_float__ = _unary("ToFloat", float)

    def __index__(self) -> int:
        return self.node.guard_int()

    def __hash__(self) -> int:  # type: ignore[override]  # F118 says what is hashable
        raise TypeError("unhashable type: non-nested SymInt")

    def __sym_int__(self) -> SymInt:
        return self

    def __round__(self, ndigits: int | None = None) -> SymInt:
        return self

    def __trunc__(self) -> SymInt:
        return self

    def __floor__(self) -> SymInt:
        return self

    def __ceil__(self) -> SymInt:
        return self

    @property
    def numerator(self) -> SymInt:
        """The number itself."""
        return self

    @property
    def denominator(self) -> int:
        """1."""
        return 1

    def has_hint(self) -> bool:
        """Whether the value at the given sizes is known."""
        return self.node.has_hint()

    def bit_length(self) -> int:
        """The bits of the value; leaves a guard."""
        return self.node.guard_int().bit_length()

    def as_integer_ratio(self) -> tuple[SymInt, int]:
        """Itself and 1."""
        return self, 1

    def __sizeof__(self) -> int:
        return object.__sizeof__(self)


class SymFloat(_Real):
    """A float whose value is not fixed."""

    __slots__ = ()

    __sym_int__ = __trunc__ = _unary("TruncToInt", int)
    __floor__ = _unary("FloorToInt", int)
    __ceil__ = _unary("CeilToInt", int)

    def __sym_float__(self) -> SymFloat:
        return self

    def __round__(self, ndigits: int | None = None) -> Operand:
        env = self.node.shape_env
        if ndigits is None:
            return _result(env, functions.apply("RoundToInt", as_poly(self.node)), int)
        rounded = functions.apply("RoundDecimal", as_poly(self.node), number(ndigits))
        return _result(env, rounded, float)

    def __hash__(self) -> int:  # type: ignore[override]  # F118 says what is hashable
        return hash(self.node.guard_float())

    def is_integer(self) -> Operand:
        """Whether there is no fraction."""
        env = self.node.shape_env
        form = as_poly(self.node)
        whole = functions.apply("ToFloat", functions.apply("FloorToInt", form))
        return _result(env, relation("==", whole, form), bool)

    def as_integer_ratio(self) -> tuple[int, int]:
        """The ratio of the value; leaves a guard."""
        return self.node.guard_float().as_integer_ratio()

    def has_hint(self) -> bool:
        """Whether the value is known."""
        return self.node.has_hint()

    def hex(self) -> str:
        """The value in hexadecimal; leaves a guard."""
        return self.node.guard_float().hex()


class SymBool(SymNumber):
    """A condition that is not decided yet; `bool()` decides it, with a guard."""

    __slots__ = ()

    def __bool__(self) -> bool:
        answer = self.node.answer
        return self.node.guard_bool() if answer is None else answer

    def __int__(self) -> int:
        return int(bool(self))

    __index__ = __int__

    def __float__(self) -> float:
        return float(bool(self))

    def __hash__(self) -> int:
        return hash(bool(self))

    def _join(self, op: str, other: Operand) -> Operand:
        if isinstance(other, SymBool):
            if other.node.shape_env is not self.node.shape_env:
                _operand(other, self.node.shape_env)
            right = other.node.current
        elif isinstance(other, bool):
            right = truth(other)
        else:
            return NotImplemented
        form = joined(op, self.node.current, right)
        return _result(self.node.shape_env, form, bool)

    def __and__(self, other: Operand) -> Operand:
        return self._join("and", other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Operand:
        return self._join("or", other)

    __ror__ = __or__

    def __invert__(self) -> Operand:
        return self.__sym_not__()

    def __sym_not__(self) -> SymBool:
        negated: SymBool = _result(self.node.shape_env, opposite(self.node.current), bool)
        self.node.results[("not", self.node)] = negated
        return negated

    def __sym_int__(self) -> SymInt:
        converted: SymInt = _result(self.node.shape_env, as_poly(self.node), int)
        return converted

    def __sym_float__(self) -> SymFloat:
        form = functions.apply("ToFloat", as_poly(self.node))
        converted: SymFloat = _result(self.node.shape_env, form, float)
        return converted

    def __sym_ite__(self, then: Operand, otherwise: Operand) -> Operand:
        env = self.node.shape_env
        condition = self.node.current
        if isinstance(then, (SymBool, bool)):
            yes, no = (_condition(v) for v in (then, otherwise))
            kept, other = joined("and", condition, yes), joined("and", opposite(condition), no)
            form = joined("or", kept, other)
            return _result(env, form, bool)
        sides = [_operand(v, env) for v in (then, otherwise)]
        first, second = sides
        assert first is not None
        assert second is not None
        form = functions.apply("Piecewise", first[0], condition, second[0])
        chosen = _result(env, form, first[1])
        key = ("ite", self.node, *(getattr(v, "node", v) for v in (then, otherwise)))
        self.node.results[key] = chosen
        return chosen

    def __eq__(self, other: object) -> Operand:
        return self._same(other, "==")

    def __ne__(self, other: object) -> Operand:
        return self._same(other, "!=")

    def _same(self, other: object, op: str) -> Operand:
        if isinstance(other, (SymBool, bool)):
            mine, theirs = self.node.current, _condition(other)
            if mine is theirs:
                return op == "=="
            if theirs is TRUE or (isinstance(other, bool) and not other):
                keep = (theirs is TRUE) == (op == "==")
                return self if keep else self.__sym_not__()
            right = as_poly(other.node) if isinstance(other, SymBool) else number(int(other))
            compared = relation("==" if op == "==" else "!=", as_poly(self.node), right)
            return _result(self.node.shape_env, compared, bool)
        if isinstance(other, (int, float, _Real)):
            return bool(self) == other if op == "==" else bool(self) != other
        return op == "!="

    def __add__(self, other: Operand) -> Operand:
        return int(self) + other

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Operand:
        return int(self) - other

    def __rsub__(self, other: Operand) -> Operand:
        return other - int(self)

    def __mul__(self, other: Operand) -> Operand:
        return int(self) * other

    __rmul__ = __mul__


def _condition(value: SymBool | bool) -> Expr:
    return value.node.current if isinstance(value, SymBool) else truth(value)


KINDS: dict[type, type[SymNumber]] = {int: SymInt, float: SymFloat, bool: SymBool}
