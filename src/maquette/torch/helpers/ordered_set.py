"""`torch.utils._ordered_set`: a set that keeps the order in which its members came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Reversible
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = ["OrderedSet"]


class OrderedSet(MutableSet[T], Reversible[T]):
    """A set whose members come in the order of insertion. Results of operations keep the left's."""

    __slots__ = ("_dict",)

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        self._dict: dict[T, None] = dict.fromkeys(() if iterable is None else iterable)

    def __contains__(self, elem: object) -> bool:
        return elem in self._dict

    def __iter__(self) -> Iterator[T]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"

    def __getstate__(self) -> list[T]:
        return list(self._dict)

    def __setstate__(self, state: list[T]) -> None:
        self._dict = dict.fromkeys(state)

    def add(self, elem: T) -> None:
        """Put a member at the end, unless it is there."""
        self._dict[elem] = None

    def discard(self, elem: T) -> None:
        """Take a member out, if it is there."""
        self._dict.pop(elem, None)

    def clear(self) -> None:
        """Take all members out."""
        self._dict.clear()

    def pop(self) -> T:
        """The last member, taken out; KeyError if there is none."""
        if not self._dict:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self) -> OrderedSet[T]:
        """A set with the same members."""
        return OrderedSet(self)

    def update(self, *others: Iterable[T]) -> None:
        """Add the members of others."""
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The members of this and of others."""
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The members that all others have, too."""
        kept = [_members(other) for other in others]
        return OrderedSet(elem for elem in self if all(elem in other for other in kept))

    def intersection_update(self, *others: Iterable[T]) -> None:
        """Keep the members that all others have."""
        self._dict = self.intersection(*others)._dict

    def difference(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The members that no other has."""
        result = self.copy()
        result.difference_update(*others)
        return result

    def difference_update(self, *others: Iterable[T]) -> None:
        """Take out the members of others."""
        for other in others:
            for elem in list(other):
                self.discard(elem)

    def symmetric_difference(self, other: Iterable[T]) -> OrderedSet[T]:
        """The members of exactly one of the two."""
        theirs = OrderedSet(other)
        return self.difference(theirs).union(theirs.difference(self))

    def symmetric_difference_update(self, other: Iterable[T]) -> None:
        """Become the members of exactly one of the two."""
        self._dict = self.symmetric_difference(other)._dict

    def issubset(self, other: Iterable[T]) -> bool:
        """Whether the other has all members."""
        theirs = _members(other)
        return all(elem in theirs for elem in self)

    def issuperset(self, other: Iterable[T]) -> bool:
        """Whether all the other's members are here."""
        return all(elem in self for elem in other)

    def isdisjoint(self, other: Iterable[T]) -> bool:
        """Whether no member is in both."""
        return not any(elem in self for elem in other)

    def __or__(self, other: AbstractSet[Any]) -> OrderedSet[Any]:
        return self.union(other) if isinstance(other, AbstractSet) else NotImplemented

    def __and__(self, other: AbstractSet[Any]) -> OrderedSet[T]:
        return self.intersection(other) if isinstance(other, AbstractSet) else NotImplemented

    def __sub__(self, other: AbstractSet[Any]) -> OrderedSet[T]:
        return self.difference(other) if isinstance(other, AbstractSet) else NotImplemented

    def __xor__(self, other: AbstractSet[Any]) -> OrderedSet[Any]:
        return (
            self.symmetric_difference(other) if isinstance(other, AbstractSet) else NotImplemented
        )


def _members(other: Iterable[T]) -> AbstractSet[T]:
    return other if isinstance(other, AbstractSet) else set(other)
