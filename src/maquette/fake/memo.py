"""What was converted to what, as long as both live: the memos of tensors, storages, counters."""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Generic, TypeVar
from weakref import getweakrefs, ref

T = TypeVar("T")
S = TypeVar("S")


class Entry(ref[S]):
    """A weak reference to what was made of an original, which alone holds the entry.

    key: of the memo that it belongs to. rest: the original's entry in another memo, or None.
    """

    __slots__ = ("key", "of", "rest")
    key: object
    rest: Entry[S] | None
    of: ref[Any]  # the original, where `original_of` is asked for


class Memo(Generic[T, S]):
    """Originals to what was made of them, by identity (tensors compare elementwise), both weak.

    Originals hold their entries in a slot of their own, ``_converted``, so an entry ends with its
    original, and nothing is hashed: 0.15 us a new entry, 0.35 in a dict of weak references.
    both_ways: whether `original_of` is asked for.
    """

    __slots__ = ("_alone", "_both_ways", "key")

    def __init__(self, *, both_ways: bool = False) -> None:
        self.key = object()
        """What entries hold in the place of the memo, which must not live as long as they."""
        self._alone = 0
        self._alone = len(self)  # the holders of the key that are no entries
        self._both_ways = both_ways

    def get(self, original: T) -> S | None:
        """What is remembered, if it still lives."""
        entry: Entry[S] | None = getattr(original, "_converted", None)
        while entry is not None:
            if entry.key is self.key:
                return entry()
            entry = entry.rest
        return None

    def remember(self, original: T, made: S) -> None:
        """Remember ``made`` for as long as both live."""
        there: Any = original
        entry = Entry(made)
        entry.key = self.key
        rest = getattr(there, "_converted", None)
        entry.rest = None if rest is None else others(rest, self.key)
        if self._both_ways:
            entry.of = ref(original)
        there._converted = entry

    def original_of(self, made: S) -> T | None:
        """What ``made`` was made of, if it lives."""
        for entry in getweakrefs(made):
            if isinstance(entry, Entry) and entry.key is self.key:
                original: T | None = entry.of()
                return original
        return None

    def __len__(self) -> int:
        """The number of originals that live: each has one entry, which holds the key."""
        return getrefcount(self.key) - self._alone

    def __contains__(self, original: T) -> bool:
        return self.get(original) is not None


def others(entry: Entry[S], key: object) -> Entry[S] | None:
    """The entries of an original in other memos, those whose result lives."""
    rest = None if entry.rest is None else others(entry.rest, key)
    if entry.key is key or entry() is None:
        return rest
    entry.rest = rest
    return entry
