"""Pure functions of gradual types: which are one type, what broadcasting makes of two.

A type is `Dyn`, a `TensorType` of sizes, or a Python class such as `int`. A size is a number,
`Dyn`, or a name for an unknown number (a `Var`, a SymPy expression).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.fx.tensor_type import Dyn, TensorType, is_consistent

NUMBERS = (bool, int, float, complex)


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """``t`` as a tensor of ``n`` dimensions; all are unknown if ``t`` is `Dyn`."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if isinstance(t, TensorType) and len(t.__args__) == n:
        return t
    raise TypeError(f"expected a tensor of {n} dimensions, got the type {t}")


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """The type that says what both say; TypeError if they contradict each other."""
    if type1 == Dyn:
        return type2
    if type2 == Dyn or type1 == type2:
        return type1
    if not is_consistent(type1, type2):
        raise TypeError(f"expected two types that one value can have, got {type1} and {type2}")
    sizes = zip(type1.__args__, type2.__args__)
    return TensorType(tuple([b if a == Dyn else a for a, b in sizes]))


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Both types after each was expanded to the other's sizes; TypeError for two numbers' types.

    Sizes of 1 are replaced. Whether the two agree then is for `is_consistent` to say.
    """
    if t1 == Dyn or t2 == Dyn:
        return t1, t2
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        raise TypeError(f"expected the types of two tensors to broadcast, got {t1} and {t2}")
    rank = max(len(t1.__args__), len(t2.__args__))
    first, second = _padded(t1.__args__, rank), _padded(t2.__args__, rank)
    return _expanded(first, second), _expanded(second, first)


def _padded(sizes: Sequence[Any], rank: int) -> tuple[Any, ...]:
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def _expanded(sizes: Sequence[Any], other: Sequence[Any]) -> TensorType:
    return TensorType(tuple([b if a == 1 else a for a, b in zip(sizes, other)]))


def type_of_sum(t1: Any, t2: Any) -> Any:
    """The type of an elementwise result, after broadcasting; TypeError where sizes disagree.

    A size is `Dyn` where one operand's is: with 4 it gives 4, but PyTorch's checker says `Dyn`.
    """
    if t1 in NUMBERS and t2 in NUMBERS:
        return type(t1(1) + t2(1))
    if t1 in NUMBERS:
        return t2
    if t2 in NUMBERS:
        return t1
    first, second = broadcast_types(t1, t2)
    if not is_consistent(first, second):
        raise TypeError(f"expected operands that broadcast, got {t1} and {t2}")
    if first == Dyn or second == Dyn:
        return Dyn
    sizes = zip(first.__args__, second.__args__)
    return TensorType(tuple([Dyn if a == Dyn else b for a, b in sizes]))
