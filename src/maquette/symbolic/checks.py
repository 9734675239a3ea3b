"""Questions about numbers that may be symbolic, and promises about them.

``check`` holds a condition true, ``guard_or_false`` asks without failing, ``statically_known_true``
asks without a guard, ``sym_*`` are functions of plain and symbolic numbers alike (spec F115-F139).
Each takes plain numbers, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar, cast

from maquette.core.symbols import OFFERS
from maquette.symbolic.expr import FALSE, TRUE, Expr, Poly, Symbol, relation
from maquette.symbolic.forms import expr_of, sympy_of
from maquette.symbolic.node import SymNode
from maquette.symbolic.numbers import SymBool, SymFloat, SymInt, SymNumber
from maquette.symbolic.ranges import INFINITY, ValueRange

Bool = Any  # a bool or a SymBool
Number = Any  # a number, or a symbolic one
Message = Callable[[], str] | None
F = TypeVar("F", bound=Callable[..., Any])


# --- checks -----------------------------------------------------------------------------------


def check_with(error: type[Exception], cond: Bool, message: Message) -> None:
    """`check` with an error class of one's own."""
    if cond.__class__ is not bool and not isinstance(cond, SymBool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if message is not None and not callable(message):
        raise TypeError(f"message must be a callable, got {type(message).__name__}")
    if cond is True or (cond is not False and expect_true(cond)):
        return
    if message is None:
        raise error(
            "Expected cond to be True, but got False. (Could this error message be improved? "
            "Give one: a function without arguments that returns it.)"
        )
    raise error(str(message()))


def check(cond: Bool, message: Message = None) -> None:
    """Hold a condition true: RuntimeError if it is known to be false, else assumed (F135, F136)."""
    check_with(RuntimeError, cond, message)


def check_index(cond: Bool, message: Message = None) -> None:
    """`check` that raises IndexError."""
    check_with(IndexError, cond, message)


def check_type(cond: Bool, message: Message = None) -> None:
    """`check` that raises TypeError."""
    check_with(TypeError, cond, message)


def check_value(cond: Bool, message: Message = None) -> None:
    """`check` that raises ValueError."""
    check_with(ValueError, cond, message)


def check_not_implemented(cond: Bool, message: Message = None) -> None:
    """`check` that raises NotImplementedError."""
    check_with(NotImplementedError, cond, message)


def check_tensor_all(cond: Any, message: Message = None) -> None:
    """`check` that all elements of a bool tensor are true; TypeError for anything else."""
    check_tensor_all_with(RuntimeError, cond, message)


def check_tensor_all_with(error: type[Exception], cond: Any, message: Message = None) -> None:
    """`check_tensor_all` with an error class of one's own."""
    if not hasattr(cond, "dtype"):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    check_with(error, cond._is_all_true().item(), message)


def check_is_size(i: Number, message: Message = None, *, max: Number = None) -> None:
    """Hold an int to be a size, 0 to ``max``; unbacked ones become size-like (F139)."""
    check(i >= 0, message)
    if max is not None:
        check(i <= max, message)
    if isinstance(i, SymInt):
        i.node.shape_env.mark_size(i.node.current)


def expect_true(a: Bool, skip: int = 0) -> bool:
    """Whether a condition holds; one that cannot be decided is asserted, and assumed."""
    if isinstance(a, SymBool):
        return a.node.expect_true()
    assert isinstance(a, bool), f"expected a bool or SymBool, got {a!r}"
    return a


# --- questions --------------------------------------------------------------------------------


def guard_bool(a: Bool) -> bool:
    """The truth, with a guard."""
    return a.node.guard_bool() if isinstance(a, SymBool) else _exactly(a, bool)


def guard_int(a: Number) -> int:
    """The value of an int, with a guard."""
    return a.node.guard_int() if isinstance(a, SymInt) else _exactly(a, int)


def guard_float(a: Number) -> float:
    """The value of a float, with a guard."""
    return a.node.guard_float() if isinstance(a, SymFloat) else _exactly(a, float)


def _exactly(a: Any, kind: type) -> Any:
    assert type(a) is kind, f"expected a {kind.__name__}, got {a!r}"
    return a


def guard_scalar(a: Number) -> Any:
    """The value of a number of any kind, with a guard."""
    return a.node.guard_value() if isinstance(a, SymNumber) else a


def guard_or_false(a: Bool) -> bool:
    """The truth, with a guard where there is a hint; False where only data could tell (F131)."""
    return a.node.guard_or_false() if isinstance(a, SymBool) else _exactly(a, bool)


def guard_or_true(a: Bool) -> bool:
    """The truth, with a guard where there is a hint; True where only data could tell (F131)."""
    return a.node.guard_or_true() if isinstance(a, SymBool) else _exactly(a, bool)


def guard_size_oblivious(expr: Bool) -> bool:
    """The truth, taking size-like unbacked numbers for neither 0 nor 1 (F132)."""
    return expr.node.guard_size_oblivious() if isinstance(expr, SymBool) else _exactly(expr, bool)


def statically_known_true(x: Bool) -> bool:
    """Whether a condition is known to be true; never a guard, False where it is not known."""
    if isinstance(x, SymBool):
        return x.node.statically_known_true()
    return bool(_exactly(x, bool))


def statically_known_false(x: Bool) -> bool:
    """Whether a condition is known to be false; never a guard, False where it is not known."""
    if isinstance(x, SymBool):
        return x.node.shape_env.decide(x.node.form) is False
    return not _exactly(x, bool)


def has_static_value(a: Number) -> bool:
    """Whether one value alone is left, without a guard."""
    if not isinstance(a, SymNumber):
        return True
    env, form = a.node.shape_env, a.node.current
    if isinstance(form, Poly):
        return env.facts.bounds(form).is_singleton()
    return env.decide(form) is not None


def is_concrete_int(a: Number) -> bool:
    """Whether an int is a plain one, or has become constant."""
    return _is_concrete(a, int)


def is_concrete_float(a: Number) -> bool:
    """Whether a float is a plain one, or has become constant."""
    return _is_concrete(a, float)


def is_concrete_bool(a: Bool) -> bool:
    """Whether a condition is a plain bool, or has become constant."""
    return _is_concrete(a, bool)


def _is_concrete(a: Any, kind: type) -> bool:
    if isinstance(a, SymNumber):
        assert a.node.pytype is kind, f"expected a {kind.__name__}, got {a!r}"
        form = a.node.current
        return form in (TRUE, FALSE) if kind is bool else form.constant is not None  # type: ignore[attr-defined]  # a number
    return bool(_exactly(a, kind) == a)


def is_symbolic(val: Number) -> bool:
    """Whether a number is symbolic."""
    return isinstance(val, SymNumber)


def has_guarding_hint(a: Number) -> bool:
    """Whether a number is plain, or has a hint."""
    return not isinstance(a, SymNumber) or a.node.has_hint()


has_hint = has_guarding_hint


def guarding_hint_or_throw(a: Number, *, allow_none: bool = False) -> Any:
    """The hint of a number; GuardOnDataDependentSymNode where there is none (F133)."""
    if not isinstance(a, SymNumber):
        return a
    return a.node.hint if allow_none else a.node.require_hint()


hint_int = guarding_hint_or_throw


def optimization_hint(a: Number, fallback: int | None = None) -> int:
    """A value to optimise for; ``fallback`` stands for every unbacked symbol (F133)."""
    if not isinstance(a, SymNumber):
        return int(a)
    return a.node.shape_env.optimization_hint(a.node.current, fallback)


# --- symbols ----------------------------------------------------------------------------------


def _forms(value: Any) -> Iterable[Expr]:
    if isinstance(value, SymNumber):
        yield value.node.current
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from _forms(item)
    elif isinstance(value, dict):
        yield from _forms(tuple(value.values()))
    elif isinstance(value, Expr):
        yield value
    elif hasattr(value, "free_symbols"):
        yield expr_of(value, lambda name: None)
    elif hasattr(value, "storage_offset"):
        yield from _forms((tuple(value.shape), tuple(value.stride()), value.storage_offset()))


def _symbols(value: Any) -> set[Symbol]:
    found: set[Symbol] = set()
    for form in _forms(value):
        found |= form.symbols
    return found


def free_symbols(val: Any) -> set[Any]:
    """The symbols in numbers, tensors and lists of them, for SymPy."""
    return {sympy_of(s.poly) for s in _symbols(val)}


def free_unbacked_symbols(x: Any) -> set[Any]:
    """The unbacked symbols in numbers, tensors and lists of them, for SymPy."""
    return {sympy_of(s.poly) for s in _symbols(x) if s.is_unbacked}


def has_free_symbols(val: Any) -> bool:
    """Whether there is a symbol."""
    return bool(_symbols(val))


def has_free_unbacked_symbols(x: Any) -> bool:
    """Whether there is an unbacked symbol."""
    return any(s.is_unbacked for s in _symbols(x))


def has_symbolic_sizes_strides(elem: Any) -> bool:
    """Whether a size, a stride or the offset of a tensor is symbolic."""
    numbers = (*elem.shape, *elem.stride(), elem.storage_offset())
    return any(isinstance(n, SymNumber) for n in numbers)


class SymIntEqByExpr:
    """A number that compares and hashes by its expression (F120)."""

    def __init__(self, val: Number) -> None:
        self.val = val

    def _key(self) -> object:
        return self.val.node.current if isinstance(self.val, SymNumber) else self.val

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, SymIntEqByExpr)
        return self._key() is other._key() or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return repr(self.val)


# --- ranges -----------------------------------------------------------------------------------


def constrain_range(a: Number, *, min: int | None, max: int | None = None) -> None:
    """Narrow the range of an unbacked int, without an assertion (F139).

    ValueError if max is below min, or a plain int is outside.
    """
    lower = -INFINITY if min is None else min
    upper = INFINITY if max is None else max
    if upper < lower:
        raise ValueError(f"expected max to be no less than min, got min={min} and max={max}")
    if not isinstance(a, SymInt):
        if not lower <= a <= upper:
            raise ValueError(f"Invalid value {a} for range [{min}:{max}]")
        return
    env, form = a.node.shape_env, a.node.current
    assert isinstance(form, Poly)
    if form.constant is not None:
        if not lower <= form.constant <= upper:
            raise ValueError(f"Invalid value {a} for range [{min}:{max}]")
        return
    env.facts.narrow_by(form, ValueRange(lower, upper))
    for own in form.symbols:
        env._settle(own)


def constrain_unify(a: Number, b: Number) -> None:
    """Hold two ints equal, without an assertion (F139)."""
    one = a if isinstance(a, SymInt) else b
    if not isinstance(one, SymInt):
        assert a == b, f"{a} and {b} are not equal"
        return
    env = one.node.shape_env
    equal = relation("==", env.poly_of(a), env.poly_of(b))
    if equal is not TRUE:
        env.learn(equal)


def sym_constrain_range(size: Number, min: int | None = None, max: int | None = None) -> None:
    """Hold an int in a range; RuntimeError for a plain one outside."""
    if isinstance(size, SymInt):
        if min is not None:
            check(size >= min)
        if max is not None:
            check(size <= max)
        return
    lower = -(2**63) if min is None else min
    upper = 2**63 - 1 if max is None else max
    if not lower <= size <= upper:
        raise RuntimeError(f"Invalid value range for {size} between [{lower}, {upper}].")


def sym_constrain_range_for_size(
    size: Number, min: int | None = None, max: int | None = None
) -> None:
    """`sym_constrain_range` of a size, which is 0 or more."""
    if max is not None and max <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {max}"
        )
    sym_constrain_range(size, min or 0, max)
    if isinstance(size, SymInt):
        size.node.shape_env.mark_size(size.node.current)


# --- functions --------------------------------------------------------------------------------


def _asking(function: F) -> F:
    """The function, offered to ``__torch_function__``: in traces its arguments are no numbers."""

    @functools.wraps(function)
    def public(*args: object, **kwargs: object) -> object:
        offer = OFFERS[0]
        if offer is None:
            return function(*args, **kwargs)
        return offer(public, function, args, kwargs)

    return cast(F, public)


@_asking
def sym_not(a: Bool) -> Bool:
    """The opposite condition, without a guard."""
    return a.__sym_not__() if isinstance(a, SymBool) else not a


def sym_and(x: Bool, *others: Bool) -> Bool:
    """All conditions, without a guard."""
    for other in others:
        x = x & other
    return x


def sym_or(x: Bool, *others: Bool) -> Bool:
    """Any of the conditions, without a guard."""
    for other in others:
        x = x | other
    return x


def sym_eq(x: Any, y: Any) -> Bool:
    """Whether numbers, or lists of them, are equal, without a guard (F119)."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        if len(x) != len(y):
            return False
        return sym_and(True, *(sym_eq(a, b) for a, b in zip(x, y, strict=True)))
    if isinstance(x, (int, SymInt, bool, SymBool, float, SymFloat)):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} and {type(y)}")


@_asking
def sym_ite(b: Bool, t: Any, f: Any) -> Any:
    """``t if b else f``, without a guard; both of one Python type (AssertionError)."""
    kinds = [_kind(value) for value in (t, f)]
    assert isinstance(b, (bool, SymBool)), f"the condition is a bool, got {b!r}"
    assert kinds[0] is kinds[1], f"sym_ite takes values of one type, got {t!r} and {f!r}"
    return b.__sym_ite__(t, f) if isinstance(b, SymBool) else (t if b else f)


def _kind(value: Any) -> type:
    return value.node.pytype if isinstance(value, SymNumber) else type(value)


@_asking
def sym_max(a: Number, b: Number) -> Number:
    """The larger number, without a guard; a float if either is one (F119)."""
    return _extreme(a, b, "__sym_max__", max)


@_asking
def sym_min(a: Number, b: Number) -> Number:
    """The smaller number, without a guard; a float if either is one (F119)."""
    return _extreme(a, b, "__sym_min__", min)


def _extreme(a: Number, b: Number, method: str, plain: Callable[..., Number]) -> Number:
    if isinstance(a, (SymInt, SymFloat)):
        return getattr(a, method)(b)
    if isinstance(b, (SymInt, SymFloat)):
        return getattr(b, method)(a)
    found = plain(a, b)
    return float(found) if float in (type(a), type(b)) else found


@_asking
def sym_float(a: Number) -> Number:
    """The number as a float, without a guard."""
    if isinstance(a, SymNumber):
        return a.__sym_float__()  # type: ignore[attr-defined]  # all three kinds have it
    return float(a)


@_asking
def sym_int(a: Number) -> Number:
    """The number without its fraction, without a guard."""
    if isinstance(a, SymNumber):
        return a.__sym_int__()  # type: ignore[attr-defined]  # all three kinds have it
    return math.trunc(a)


@_asking
def sym_sum(*args: Number | Sequence[Number]) -> Number:
    """The sum of ints, at once: of a list of them, or of the arguments."""
    total: Number = 0
    listed = len(args) == 1 and isinstance(args[0], list | tuple)
    for a in cast("Sequence[Number]", args[0] if listed else args):
        total = total + a
    return total


def sym_fresh_size(expr: SymNode) -> NoReturn:
    """Only operators make fresh sizes: `torch.library.get_ctx().new_dynamic_size()`."""
    raise NotImplementedError("sym_fresh_size: use torch.library.get_ctx().new_dynamic_size()")


def _unary(name: str) -> Callable[[Number], Number]:
    plain: Callable[[float], float] = getattr(math, name)

    def function(a: Number) -> Number:
        if isinstance(a, (SymInt, SymFloat)):
            return getattr(a, f"__sym_{name}__")()
        return plain(a)

    function.__name__ = function.__qualname__ = f"sym_{name}"
    function.__doc__ = f"`math.{name}` of a plain or symbolic number, without a guard."
    return _asking(function)


sym_sqrt, sym_log2, sym_exp, sym_log = map(_unary, ("sqrt", "log2", "exp", "log"))
sym_sin, sym_cos, sym_tan, sym_asin, sym_acos, sym_atan, sym_sinh, sym_cosh, sym_tanh = map(
    _unary, ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
)
