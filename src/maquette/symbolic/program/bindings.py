"""Where in an operator's result each fresh unbacked symbol is found (spec F105).

A traced graph gives a symbol its value at run time by such a path: ``size(0)`` of the result, its
``item()``. Each step of a path is a key with `get`, which takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from maquette.symbolic.errors import PendingUnbackedSymbolNotFound
from maquette.symbolic.expr import Expr, Poly, Relation, Symbol, number, relation
from maquette.symbolic.facts import symbol_alone
from maquette.symbolic.forms import sympy_of
from maquette.symbolic.functions import exact_quotient
from maquette.symbolic.numbers import SymBool, SymNumber
from maquette.symbolic.shape_env import ShapeEnv


@dataclass(frozen=True)
class SequenceKey:
    """An element of a tuple or list."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"

    def get(self, sequence: Any) -> Any:
        """The element."""
        return sequence[self.idx]


@dataclass(frozen=True)
class CallMethodKey:
    """What a method without arguments gives."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}()"

    def get(self, o: Any) -> Any:
        """The method's result."""
        return getattr(o, self.name)()


@dataclass(frozen=True)
class InnerTensorKey:
    """An inner tensor of a wrapper subclass."""

    inner_name: str

    def __str__(self) -> str:
        return f".{self.inner_name}"

    def get(self, o: Any) -> Any:
        """The inner tensor."""
        return getattr(o, self.inner_name)


@dataclass(frozen=True)
class DivideByKey:
    """A number, divided by a factor."""

    divisor: int

    def __str__(self) -> str:
        return f".__floordiv__({self.divisor})"

    def get(self, o: int) -> int:
        """The quotient."""
        return o // self.divisor


@dataclass(frozen=True)
class ConvertIntKey:
    """A bool as 0 or 1."""

    def __str__(self) -> str:
        return ".cast_symbool_to_symint_guardless()"

    def get(self, b: Any) -> Any:
        """The number."""
        return b.__sym_int__() if isinstance(b, SymBool) else int(b)


Path = tuple[Any, ...]


def compute_unbacked_bindings(
    shape_env: ShapeEnv | None,
    example_value: Any,
    old_example_value: Any = None,
    peek: bool = False,
) -> dict[Any, Path] | None:
    """The path to each symbol that was made since the last call, for SymPy; None if there is none.

    Raises PendingUnbackedSymbolNotFound for a symbol that the value does not show. With an old
    value, its symbols stay and the fresh ones become them. peek: the symbols are fresh still.
    """
    if shape_env is None or not shape_env.pending_fresh_unbacked_symbols:
        return None
    fresh = list(shape_env.pending_fresh_unbacked_symbols)
    found, missing = _taken(shape_env, example_value)
    if peek:
        shape_env.pending_fresh_unbacked_symbols.extend(fresh)
    if missing:
        names = ", ".join(s.name for s in missing)
        raise PendingUnbackedSymbolNotFound(
            f"Pending unbacked symbols {{{names}}} not in returned outputs {example_value}; the "
            f"operator must show what it made, or make it in ignore_fresh_unbacked_symbols()"
        )
    return {sympy_of(s.poly): path for s, path in found.items()}


def shown_bindings(shape_env: ShapeEnv, value: Any) -> dict[Any, Path]:
    """`compute_unbacked_bindings` of what a value shows; other symbols stay without a path."""
    found, _ = _taken(shape_env, value)
    return {sympy_of(s.poly): path for s, path in found.items()}


def _taken(shape_env: ShapeEnv, value: Any) -> tuple[dict[Symbol, Path], list[Symbol]]:
    """The paths to the symbols that were made since the last call, and those without."""
    pending = list(shape_env.pending_fresh_unbacked_symbols)
    shape_env.pending_fresh_unbacked_symbols.clear()
    found: dict[Symbol, Path] = {}
    for form, path in _numbers(value, ()):
        own, more = _bound(form)
        if own in pending and own not in found:
            found[cast(Symbol, own)] = (*path, *more)
    replaced = shape_env.facts.replacements
    return found, [s for s in pending if s not in found and s not in replaced]


def _numbers(value: Any, path: Path) -> Iterator[tuple[Expr, Path]]:
    if isinstance(value, SymNumber):
        yield value.node.current, path
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _numbers(item, (*path, SequenceKey(i)))
    elif hasattr(value, "storage_offset"):
        for name, numbers in (("size", value.shape), ("stride", value.stride())):
            for i, size in enumerate(numbers):
                yield from _numbers(size, (*path, CallMethodKey(name), SequenceKey(i)))
        yield from _numbers(value.storage_offset(), (*path, CallMethodKey("storage_offset")))


def _bound(form: Expr) -> tuple[Symbol | None, Path]:
    """The symbol that an expression gives the value of, and the steps to it."""
    if isinstance(form, Poly):
        own = symbol_alone(form)
        if own is not None:
            return own, ()
        if len(form.terms) == 1:
            ((monomial, factor),) = form.terms.items()
            rest = exact_quotient(form, number(factor))
            own = None if rest is None or len(monomial) != 1 else symbol_alone(rest)
            return own, (DivideByKey(int(factor)),)
        return None, ()
    if isinstance(form, Relation) and form.op == "==" and form.rhs.constant == 1:
        return symbol_alone(form.lhs), (ConvertIntKey(),)
    return None, ()


def rebind_unbacked(shape_env: ShapeEnv | None, n: Any, result: Any) -> None:
    """Let the symbols that running a node of a graph made again be those of the first time.

    n: a node, has ``meta["unbacked_bindings"]``, as `compute_unbacked_bindings` gives them.
    """
    bindings = n.meta.get("unbacked_bindings") or {}
    if shape_env is None:
        return
    for symbol, path in bindings.items():
        value = result
        for key in path:
            value = key.get(value)
        (old,) = shape_env.form_of(symbol).symbols
        now = shape_env.poly_of(value)
        own = symbol_alone(now)
        if own is old:
            continue
        if own is not None and own.is_unbacked:
            shape_env.rename_unbacked(own, old)
        else:
            shape_env.learn(relation("==", old.poly, now))


def resolve_unbacked_bindings(
    shape_env: ShapeEnv | None, bindings: dict[Any, Path] | None
) -> dict[Any, Path] | None:
    """The paths under the names that symbols have by now."""
    if bindings is None or shape_env is None:
        return bindings
    return {shape_env.replace(s): path for s, path in bindings.items()}
