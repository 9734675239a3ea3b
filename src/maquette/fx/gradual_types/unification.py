"""Names for unknown sizes, equalities between sizes, and the substitution that solves them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from maquette.fx.tensor_type import TensorType


class Var:
    """A name for an unknown size; two of one token are equal."""

    __slots__ = ("token",)
    _tokens = itertools.count(1)

    def __init__(self, token: Any = None) -> None:
        self.token = f"_{next(Var._tokens)}" if token is None else token

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and self.token == other.token

    def __hash__(self) -> int:
        return hash((Var, self.token))

    def __repr__(self) -> str:
        return f"~{self.token}"


def var(token: Any = None) -> Var:
    """A `Var`; without a token, one that no other has."""
    return Var(token)


def isvar(value: object) -> bool:
    """Whether the value is a `Var`."""
    return isinstance(value, Var)


class Equality:
    """Two sizes that must be the same."""

    def __init__(self, lhs: Any, rhs: Any) -> None:
        self.lhs = lhs
        self.rhs = rhs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equality) and (self.lhs, self.rhs) == (other.lhs, other.rhs)

    def __hash__(self) -> int:
        return hash((self.lhs, self.rhs))

    def __repr__(self) -> str:
        return f"{self.lhs} = {self.rhs}"


def solve(equalities: Iterable[Equality]) -> dict[Any, Any]:
    """What each unknown size must be, as few names as possible; TypeError if nothing fits.

    A left name stands for the right side. A SymPy symbol is a name, too; between a larger
    expression and anything but a name nothing is concluded.
    """
    solution: dict[Any, Any] = {}
    for equality in equalities:
        left, right = _value(equality.lhs, solution), _value(equality.rhs, solution)
        if left == right:
            continue
        if _is_name(left) and left not in _names_in(right):
            solution[left] = right
        elif _is_name(right) and right not in _names_in(left):
            solution[right] = left
        elif isinstance(left, int) and isinstance(right, int):
            raise TypeError(
                f"expected sizes that fit together, got {left} and {right} for one size "
                f"(from {equality})"
            )
    return {name: _value(name, solution) for name in solution}


def _is_name(size: Any) -> bool:
    return isinstance(size, Var) or getattr(size, "is_Symbol", False)


def _names_in(size: Any) -> Iterable[Any]:
    return getattr(size, "free_symbols", ())


def _value(size: Any, solution: Mapping[Any, Any]) -> Any:
    while _is_name(size) and size in solution:
        size = solution[size]
    return size


def substituted(kind: Any, solution: Mapping[Any, Any]) -> Any:
    """A type, or types in lists, tuples and dicts, with the solution's sizes for its names."""
    if isinstance(kind, TensorType):
        return TensorType(tuple([_value(size, solution) for size in kind.__args__]))
    return mapped(kind, lambda part: substituted(part, solution), _value(kind, solution))


def mapped(kind: Any, function: Any, otherwise: Any) -> Any:
    """``function`` of each part of a list, tuple or dict; ``otherwise`` for anything else."""
    if isinstance(kind, list | tuple):
        return type(kind)([function(part) for part in kind])
    if isinstance(kind, dict):
        return type(kind)({key: function(part) for key, part in kind.items()})
    return otherwise
