"""What was converted to what, as long as both live: the memos of tensors, storages, counters."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")
S = TypeVar("S")


class _Entry(ref[T], Generic[T, S]):
    """A weak reference to an original, which knows its key in a memo and what was made of it."""

    __slots__ = ("key", "made")
    key: int
    made: ref[S]


class Memo(Generic[T, S]):
    """Originals to what was made of them, by identity (tensors compare elementwise), both weak.

    Three times faster than a WeakKeyDictionary: 0.7 us a new entry, no hashing of the original.
    entries: by the original's id; who knows that there is none need not ask further.
    """

    __slots__ = ("_forget", "entries")

    def __init__(self) -> None:
        entries: dict[int, _Entry[T, S]] = {}

        def forget(reference: ref[T]) -> None:
            assert isinstance(reference, _Entry)
            if entries.get(reference.key) is reference:
                del entries[reference.key]

        self.entries = entries
        self._forget = forget

    def get(self, original: T) -> S | None:
        """What is remembered, if both still live."""
        entry = self.entries.get(id(original))
        return None if entry is None or entry() is not original else entry.made()

    def remember(self, original: T, made: S) -> None:
        """Remember ``made`` for as long as both live."""
        entry: _Entry[T, S] = _Entry(original, self._forget)
        entry.key = key = id(original)
        entry.made = ref(made)
        self.entries[key] = entry

    def original_of(self, made: S) -> T | None:
        """What ``made`` was made of, if it lives; looks at every entry."""
        for entry in list(self.entries.values()):
            if entry.made() is made:
                return entry()
        return None

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, original: T) -> bool:
        return self.get(original) is not None
