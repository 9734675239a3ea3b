"""Copy on write: storages that share memory until one of them is mutated.

`share` makes a storage that is a copy in all but memory. Until it, or the one it was made from, is
mutated, both hold the memory as read-only arrays; NumPy then refuses the mutation before anything
is changed, and `LazyCopies.leave` gives the storage memory of its own: a copy, or the memory itself
for the last that has it. So nobody who does not copy lazily pays for the question.

`lend` has a storage share memory with somebody who is no storage and only reads, as an engine that
compiled programs run on. While `Lent` is there, both have the same bytes: nothing need be compared.
"""

from __future__ import annotations

import weakref

from maquette.core.meta import TensorMeta
from maquette.tensor.backend import Array
from maquette.tensor.storage import UntypedStorage


class LazyCopies:
    """The storages that share one memory, and the memory, writable."""

    __slots__ = ("memory", "storages")

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.storages: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()

    def leave(self, storage: UntypedStorage) -> None:
        """Give a storage memory of its own, to be mutated; tensors over it are the caller's."""
        self.forget(storage)
        storage.data = self.memory.copy() if self.storages else self.memory

    def join(self, storage: UntypedStorage) -> None:
        """Have a storage share the memory."""
        frozen = self.memory.view()
        frozen.flags.writeable = False
        storage.data = frozen
        storage.lazy_copies = self
        self.storages.add(storage)

    def forget(self, storage: UntypedStorage) -> None:
        """A storage has other memory now."""
        storage.lazy_copies = None
        self.storages.discard(storage)


class Lent(LazyCopies):
    """Memory that a lender reads too: whoever is to mutate it copies.

    memory: read-only. shown: what the lender has it as. meta: the tensor that it was lent to had.
    lender: who it is, in any way that it knows itself by.
    """

    __slots__ = ("lender", "meta", "shown")

    def __init__(self, memory: Array, lender: object, shown: object, meta: TensorMeta) -> None:
        self.memory = memory
        self.lender = lender
        self.shown = shown
        self.meta = meta

    def leave(self, storage: UntypedStorage) -> None:
        """Give a storage a copy, to be mutated."""
        storage.lazy_copies = None
        storage.data = self.memory.copy()

    def join(self, storage: UntypedStorage) -> None:
        """Have a storage show the memory."""
        storage.data = self.memory
        storage.lazy_copies = self

    def forget(self, storage: UntypedStorage) -> None:
        """A storage has other memory now."""
        storage.lazy_copies = None


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
        copies.join(storage)
        storage.bytes_moved()
    made = UntypedStorage(storage.nbytes(), storage.device, storage.data)
    copies.join(made)
    return made


__all__ = ["LazyCopies", "Lent", "share"]
