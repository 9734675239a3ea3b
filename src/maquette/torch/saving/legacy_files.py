"""Files of before PyTorch 1.6: several pickles one after another, then the storages' bytes.

The pickles are a magic number, a protocol's number, facts of the machine, the object, and the keys
of its storages; each storage follows as its number of elements and its bytes, in the order of the
keys. Zip archives, which came after them, are `serialization.py`'s.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maquette.core.device import cpu, device
from maquette.core.dtype import dtype
from maquette.tensor.copying import rebuild_storage
from maquette.tensor.saving import FileError, name_of
from maquette.tensor.storage import UntypedStorage
from maquette.torch.saving._utils import StoredElements
from maquette.torch.saving.pickles import Pickler, kind_of, unpickle

Bytes = npt.NDArray[np.uint8]
_NUMBER = 0x1950A86A20F9469CFC6C
MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the first pickle of such a file
_PROTOCOL = 1001
_NUMEL = struct.Struct("<q")


class Places(NamedTuple):
    """How a file is read: where storages go, and the unpickler that may make anything, or None."""

    place: Callable[[str], device]
    trusted: type[pickle.Unpickler] | None


def bytes_of(storage: UntypedStorage) -> bytes | memoryview:
    """A storage's bytes; zeros for a placeholder that has none."""
    if storage.data is None:
        return bytes(storage.nbytes())
    raw = storage.raw()
    fetch = getattr(raw, "get", None)  # of an accelerator's array
    return np.ascontiguousarray(raw if fetch is None else fetch()).data


def swapped(raw: Bytes, kind: dtype) -> Bytes:
    """The elements of ``kind`` with their bytes in the other order."""
    unit = kind.itemsize // 2 if kind.name.startswith("complex") else kind.itemsize
    return raw if unit == 1 else raw.view(f"u{unit}").byteswap().view(np.uint8)


# --- writing -------------------------------------------------------------------------


def _legacy(base: type[Pickler]) -> type[Any]:
    class LegacyPickler(base):  # type: ignore[misc, valid-type]  # chosen by the caller
        """References of old have a sixth part, for storages that are views: there are none."""

        def persistent_id(self, obj: object) -> object:
            found = super().persistent_id(obj)
            if not isinstance(found, tuple):
                return found
            self.sizes[str(found[2])] = found[4]
            return (*found, None)

        def __init__(self, file: IO[bytes], protocol: int) -> None:
            super().__init__(file, protocol)
            self.sizes: dict[str, int] = {}

    return LegacyPickler


def save(obj: object, file: IO[bytes], protocol: int, base: type[Pickler] = Pickler) -> None:
    """Write an object as PyTorch did before 1.6."""
    sizes = {"short": 2, "int": 4, "long": 4}
    facts = {
        "protocol_version": _PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": sizes,
    }
    for header in (_NUMBER, _PROTOCOL, facts):
        pickle.dump(header, file, protocol=protocol)
    pickler = _legacy(base)(file, protocol)
    pickler.dump(obj)
    keys = sorted(pickler.storages)
    pickle.dump(keys, file, protocol=protocol)
    for key in keys:
        file.write(_NUMEL.pack(pickler.sizes[key]))
        file.write(bytes_of(pickler.storages[key]))
    file.flush()


# --- reading -------------------------------------------------------------------------


def load(file: IO[bytes], places: Places, encoding: str) -> object:
    """What such a file holds; FileError if it is damaged."""
    # The bytes of storages follow their pickles, so all is read before the tensors are given.
    whole = io.BytesIO(file.read())
    storages = _Storages(places, name_of(file), len(whole.getbuffer()))

    def read() -> object:
        return unpickle(whole, storages.load, trusted=places.trusted, encoding=encoding)

    if read() != _NUMBER:
        raise FileError(f"{name_of(file)}: this is no checkpoint: it begins with another pickle")
    if read() != _PROTOCOL:
        raise FileError(f"{name_of(file)}: this checkpoint's protocol is not {_PROTOCOL}")
    read()
    found = read()
    keys = read()
    for key in keys if isinstance(keys, list) else []:
        storages.fill(key.decode("ascii") if isinstance(key, bytes) else str(key), whole)
    return found


class _Storages:
    """The storages of one file: made when the pickle names them, filled when their bytes come."""

    def __init__(self, places: Places, name: str, length: int) -> None:
        self.places = places
        self.name = name
        self.length = length  # of the file, in bytes
        self.made: dict[str, StoredElements] = {}

    def load(self, pid: tuple[object, ...]) -> object:
        """The storage that a reference in the pickle means."""
        match pid:
            case ("module", cls, *_):
                return cls
            case ("storage", cls, key, location, int(numel), *view):
                kind = kind_of(cls)
            case _:
                raise pickle.UnpicklingError(f"this file refers to something unknown: {pid!r}")
        made = self.made.get(str(key))
        if made is None:
            if not 0 <= numel * kind.itemsize <= self.length:
                raise FileError(
                    f"{self.name}: storage {key} would have {numel} elements, more than the file"
                )
            raw = np.zeros(numel * kind.itemsize, np.uint8)
            storage = rebuild_storage(raw.nbytes, cpu, raw, False)
            where = self.places.place(str(location))
            if where is not cpu and where.type != "meta":
                # Tensors would be moved now, before their bytes are read.
                raise NotImplementedError(
                    f"{self.name}: tensors of a file of before PyTorch 1.6 are loaded on cpu, not "
                    f"on {where}: give map_location='cpu' and move them then"
                )
            made = self.made[str(key)] = StoredElements(storage, kind, where)
        if view and view[0] is not None:
            return self._view(made, view[0])
        return made

    def _view(self, made: StoredElements, stated: object) -> StoredElements:
        """A part of a storage, as PyTorch had them before 0.4; one for each key."""
        match stated:
            case (key, int(offset), int(numel)) if 0 <= offset <= offset + numel <= len(made):
                part = self.made.get(f"part {key}")
            case _:
                raise FileError(f"{self.name}: a part {stated!r} of {len(made)} elements")
        if part is None:
            size = made.dtype.itemsize
            raw = made.untyped().raw()[offset * size : (offset + numel) * size]
            storage = rebuild_storage(raw.nbytes, cpu, raw, False)
            part = self.made[f"part {key}"] = StoredElements(storage, made.dtype, made.where)
        return part

    def fill(self, key: str, file: IO[bytes]) -> None:
        """Read the bytes of a storage, whose number of elements the file repeats."""
        made = self.made.get(key)
        if made is None:
            raise FileError(f"{self.name}: the file lists a storage {key} that nothing refers to")
        expected = made.untyped().nbytes()
        (numel,) = _NUMEL.unpack(file.read(_NUMEL.size))
        if numel * made.dtype.itemsize != expected:
            raise FileError(
                f"{self.name}: storage {key} has {numel} elements, where the file said {len(made)}"
            )
        data = file.read(expected)
        if len(data) != expected:
            raise FileError(f"{self.name}: the file ends within storage {key}")
        made.untyped().raw()[:] = np.frombuffer(data, np.uint8)
