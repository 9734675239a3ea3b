"""Types of tensors by their sizes, of which some may be unknown (`Dyn`)."""

from __future__ import annotations

from typing import Any

from maquette.fx.compatibility import compatibility


class _DynType:
    """The unknown size, or type."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __str__(self) -> str:
        return "Dyn"

    __repr__ = __str__


Dyn = _DynType()


@compatibility(is_backward_compatible=False)
class TensorType:
    """A tensor of these sizes, numbers or `Dyn`."""

    def __init__(self, dim: Any) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self.__class__):
            return False
        return list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        found = args[0]
        return TensorType(tuple(found) if isinstance(found, tuple | list) else (found,))


@compatibility(is_backward_compatible=False)
def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether two types can be those of one value."""
    if t1 == t2 or t1 == Dyn or t2 == Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(
            is_consistent(a, b) for a, b in zip(t1.__args__, t2.__args__)
        )
    return False


@compatibility(is_backward_compatible=False)
def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether the first type says all that the second does."""
    if t1 == t2 or t2 == Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(
            is_more_precise(a, b) for a, b in zip(t1.__args__, t2.__args__)
        )
    return False
