"""Copy on write: storages that share memory until one of them is mutated.

`share` makes a storage that is a copy in all but memory. Until it, or the one it was made from, is
mutated, both hold the memory as read-only arrays; NumPy then refuses the mutation before anything
is changed, and `LazyCopies.leave` gives the storage memory of its own: a copy, or the memory itself
for the last that has it. So nobody who does not copy lazily pays for the question.
"""

from __future__ import annotations

import weakref

from maquette.tensor.backend import Array
from maquette.tensor.storage import UntypedStorage


class LazyCopies:
    """The storages that share one memory, and the memory, writable."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.storages: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()

    def leave(self, storage: UntypedStorage) -> None:
        """Give a storage memory of its own, to be mutated."""
        self.storages.discard(storage)
        storage.lazy_copies = None
        storage.data = self.memory.copy() if self.storages else self.memory
        storage.bytes_moved()


def share(storage: UntypedStorage) -> UntypedStorage:
    """A storage with the same bytes, which are copied when either is mutated first.

    A storage without data, or with memory that is no NumPy array of its own, is copied at once.
    """
    memory = storage.data
    if memory is None or storage.foreign or not hasattr(memory, "flags"):
        data = None if memory is None else storage.raw().copy()
        return UntypedStorage(storage.nbytes(), storage.device, data)
    copies = storage.lazy_copies
    if copies is None:
        copies = LazyCopies(storage.raw())
        _join(storage, copies)
        storage.bytes_moved()
    made = UntypedStorage(storage.nbytes(), storage.device, storage.data)
    _join(made, copies)
    return made


def _join(storage: UntypedStorage, copies: LazyCopies) -> None:
    frozen = copies.memory.view()
    frozen.flags.writeable = False
    storage.data = frozen
    storage.lazy_copies = copies
    copies.storages.add(storage)


__all__ = ["LazyCopies", "share"]
