"""The bytes of one storage as a file of before PyTorch 1.6, which plain pickles have inside.

`legacy_files` writes and reads any such file. A tensor's pickle has one for its storage, so here
is what that file always says, without the passes that files of many objects need.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Final

import numpy as np

from maquette.tensor.storage import UntypedStorage
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.saving import legacy_files
from maquette.torch.saving._utils import StoredElements
from maquette.torch.saving.forms import TYPED
from maquette.torch.saving.locations import location_tag
from maquette.torch.saving.pickles import kind_of, storage_class
from maquette.torch.saving.restoring import restored

_PROTOCOL: Final = 2
_KEY: Final = "0"
_NUMEL: Final = struct.Struct("<q")
_HEADERS: Final = legacy_files.headers(_PROTOCOL)
_OF_A_REFERENCE: Final = 6


def bytes_of(storage: TypedStorage) -> bytes:
    """The file that holds a storage."""
    kind = TYPED.get(storage.dtype)
    if kind is None:  # PyTorch has no class for it, and writes bytes
        file = io.BytesIO()
        legacy_files.save(storage, file, _PROTOCOL)
        return file.getvalue()
    untyped, numel = storage.untyped(), storage.size()
    reference = ("storage", kind, _KEY, location_tag(untyped), numel, None)
    # A reference, and the end, in the place of the end.
    found = pickle.dumps(reference, _PROTOCOL)[:-1] + pickle.BINPERSID + pickle.STOP
    keys = pickle.dumps([_KEY], _PROTOCOL)
    return b"".join([_HEADERS, found, keys, _NUMEL.pack(numel), legacy_files.bytes_of(untyped)])


class _Lone(pickle.Unpickler):
    """Reads a reference to a storage, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        found = storage_class(module, name)
        if found is None:
            raise pickle.UnpicklingError(name)
        return found

    def persistent_load(self, pid: object) -> object:
        return pid


def storage_in(data: bytes) -> StoredElements | UntypedStorage | None:
    """The storage that such a file holds; None for a file that says more, or is damaged.

    PyTorch writes bytes of no dtype, and cannot read them.
    """
    if not data.startswith(_HEADERS):
        return None
    file = io.BytesIO(data)
    file.seek(len(_HEADERS))
    try:
        reference = _Lone(file).load()
        keys = _Lone(file).load()
    except pickle.UnpicklingError:
        return None
    if type(reference) is not tuple or len(reference) != _OF_A_REFERENCE:
        return None
    what, cls, key, location, numel, view = reference
    if what != "storage" or view is not None or keys != [key] or type(location) is not str:
        return None
    kind, begins = kind_of(cls), file.tell() + _NUMEL.size
    raw = np.frombuffer(data, np.uint8, offset=begins) if begins <= len(data) else None
    if raw is None or raw.nbytes != numel * kind.itemsize:
        return None
    found = restored(raw.copy(), kind, location, None)
    alone = cls is UntypedStorage and found.where is found.device
    return found.untyped() if alone else found
