"""`torch.utils._content_store`: tensors in files by name, their storages by what is in them.

Storages with the same bytes are one file. Below a folder, ``tensors/NAME`` says of a tensor which
storage it is a view of, and ``storages/HASH`` is the storage.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from typing import Any

from maquette.api import functions as mq
from maquette.core.dtype import uint8
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.torch.saving.serialization import load, save

__all__ = ["ContentStoreReader", "ContentStoreWriter", "hash_storage"]


def hash_storage(storage: UntypedStorage, *, stable_hash: bool = False) -> str:
    """SHA-1 of the bytes, in hexadecimal digits: the same in each process, so always stable."""
    content = mq.empty(0, dtype=uint8).set_(storage.cpu())
    return hashlib.sha1(content.numpy().tobytes(), usedforsecurity=False).hexdigest()


class ContentStoreWriter:
    """Writes tensors below the folder ``loc``, which one writer uses at a time."""

    def __init__(self, loc: str, stable_hash: bool = False) -> None:
        self.loc = loc
        self.stable_hash = stable_hash
        self.seen_storage_hashes: set[str] = set()

    def write_storage(self, storage: UntypedStorage) -> str:
        """Write a storage, unless one with its bytes is there; gives its hash."""
        found = hash_storage(storage, stable_hash=self.stable_hash)
        if found not in self.seen_storage_hashes:
            path = os.path.join(self.loc, "storages", found)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.exists(path):
                save(mq.empty(0, dtype=uint8).set_(storage), path)
            self.seen_storage_hashes.add(found)
        return found

    def compute_tensor_metadata(self, t: Tensor, h: str | None = None) -> tuple[Any, ...]:
        """The dtype, the storage's hash, the offset, the sizes, the strides, and the lazy bits."""
        found = hash_storage(t.untyped_storage()) if h is None else h
        bits = {name: True for name, on in (("conj", t.is_conj()), ("neg", t.is_neg())) if on}
        return t.dtype, found, t.storage_offset(), tuple(t.shape), t.stride(), bits

    def write_tensor(self, name: str, t: Tensor) -> None:
        """Write a tensor; ``name`` is a path below the folder. Gradients are not written."""
        path = os.path.join(self.loc, "tensors", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        save(self.compute_tensor_metadata(t, self.write_storage(t.untyped_storage())), path)


class ContentStoreReader:
    """Reads what a writer wrote. cache: tensors of one storage share it while one is held."""

    def __init__(self, loc: str, *, cache: bool = True) -> None:
        self.loc = loc
        self.storage_cache: weakref.WeakValueDictionary[tuple[str, str], UntypedStorage] | None
        self.storage_cache = weakref.WeakValueDictionary() if cache else None

    def read_storage(self, h: str, *, device: Any = None) -> UntypedStorage:
        """The storage of a hash."""
        key = (h, str(device))
        found = None if self.storage_cache is None else self.storage_cache.get(key)
        if found is None:
            path = os.path.join(self.loc, "storages", h)
            found = load(path, weights_only=True, map_location=device).untyped_storage()
            if self.storage_cache is not None:
                self.storage_cache[key] = found
        return found

    def read_tensor_metadata(self, name: str) -> tuple[Any, ...]:
        """What `ContentStoreWriter.compute_tensor_metadata` gave; FileNotFoundError."""
        path = os.path.join(self.loc, "tensors", name)
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        found: tuple[Any, ...] = load(path, weights_only=True)
        return found

    def read_tensor(self, name: str, *, device: Any = None) -> Tensor:
        """The tensor of a name."""
        dtype, h, offset, size, stride, bits = self.read_tensor_metadata(name)
        storage = self.read_storage(h, device=device)
        made = mq.empty(0, dtype=dtype, device=storage.device)
        made.set_(storage, offset, size, stride)
        made = made.conj() if bits.get("conj") else made
        return made._neg_view() if bits.get("neg") else made
