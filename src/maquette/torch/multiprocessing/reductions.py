"""`torch.multiprocessing.reductions`: weak references to storages. Tensors travel by pickle."""

from __future__ import annotations

import weakref

from maquette.tensor.storage import UntypedStorage
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.face.forwarding import forward


class StorageWeakRef:
    """A weak reference to a storage: equal for what shares memory. ``cdata`` is its number."""

    __slots__ = ("_ref", "cdata")

    def __init__(self, storage: UntypedStorage | TypedStorage) -> None:
        raw = storage.untyped() if isinstance(storage, TypedStorage) else storage
        self._ref = weakref.ref(raw)
        self.cdata = raw.id

    def expired(self) -> bool:
        """Whether the storage is gone."""
        return self._ref() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StorageWeakRef) and self.cdata == other.cdata)


__all__ = ["StorageWeakRef"]

__getattr__ = forward(__name__)
