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
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maquette.core.dtype import dtype
from maquette.tensor.copying import data_is_skipped
from maquette.tensor.saving import FileError, errors_of, name_of
from maquette.tensor.storage import UntypedStorage
from maquette.torch.saving._utils import StoredElements
from maquette.torch.saving.crafted import BoundedUnpickler, short_text
from maquette.torch.saving.pickles import (
    Pickler,
    as_text,
    encoded,
    kind_of,
    reference,
    storage_class,
    unpickle,
)
from maquette.torch.saving.restoring import MapLocation, restored

Bytes = npt.NDArray[np.uint8]
_NUMBER = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_NUMEL = struct.Struct("<q")


class How(NamedTuple):
    """How a file is read: where storages go, and the unpickler that may make anything, or None."""

    map_location: MapLocation
    trusted: type[pickle.Unpickler] | None
    encoding: str


def bytes_of(storage: UntypedStorage) -> bytes | memoryview:
    """A storage's bytes; zeros for a placeholder that has none, and under `skip_data`."""
    if storage.data is None or data_is_skipped():
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


def headers(protocol: int) -> bytes:
    """What such a file begins with."""
    sizes = {"short": 2, "int": 4, "long": 4}
    facts = {
        "protocol_version": _PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": sizes,
    }
    return b"".join(pickle.dumps(header, protocol) for header in (_NUMBER, _PROTOCOL, facts))


def save(obj: object, file: IO[bytes], protocol: int, base: type[Pickler] = Pickler) -> None:
    """Write an object as PyTorch did before 1.6."""
    file.write(headers(protocol))
    pickler = _legacy(base)(file, protocol)
    pickler.dump(obj)
    keys = sorted(pickler.storages)
    pickle.dump(keys, file, protocol=protocol)
    for key in keys:
        file.write(_NUMEL.pack(pickler.sizes[key]))
        file.write(bytes_of(pickler.storages[key]))
    file.flush()


# --- reading -------------------------------------------------------------------------


def load(file: IO[bytes], how: How) -> object:
    """What such a file holds, and the file after it; FileError if it is damaged."""
    begins = file.tell()
    whole = io.BytesIO(file.read())
    name = name_of(file)
    storages = _Storages(how.map_location, name)

    nbytes = whole.getbuffer().nbytes

    def read(trusted: type[pickle.Unpickler] | None) -> object:
        return unpickle(whole, storages.load, trusted=trusted, encoding=how.encoding, nbytes=nbytes)

    def plain() -> object:
        with errors_of(file):
            return read(None)

    if plain() != _NUMBER:
        raise FileError(f"{name}: this is no checkpoint: it begins with another pickle")
    if plain() != _PROTOCOL:
        raise FileError(f"{name}: this checkpoint's protocol is not {_PROTOCOL}")
    plain()
    at = whole.tell()
    survey = _Survey(whole, how.encoding, nbytes)
    with errors_of(file):  # nothing of the file's is run here
        survey.load()
    keys = plain()
    for key in keys if isinstance(keys, list) else []:
        key = str(as_text(key))
        if key not in survey.storages:
            raise FileError(f"{name}: the file lists a storage {key} that nothing refers to")
        storages.fill(key, survey.storages[key], whole)
    ends = whole.tell()
    whole.seek(at)
    found = read(how.trusted)
    file.seek(begins + ends)
    return found


class _Stated(NamedTuple):
    """What a reference says of its storage."""

    kind: dtype
    location: str
    numel: int


class _Anything:
    """Stands for an object of a file that is only surveyed: takes the items that it is given."""

    def _ignore(self, *args: object) -> None:
        pass

    __setitem__ = append = extend = add = update = _ignore


class _Survey(BoundedUnpickler):
    """Finds the storages that a pickle refers to, and makes nothing.

    Their bytes stand behind the pickle, and how many they are stands in it; tensors are checked,
    and moved to their devices, when they are made, so the bytes have to be there before.
    """

    def __init__(self, file: IO[bytes], encoding: str, nbytes: int) -> None:
        super().__init__(file, nbytes, encoding)
        self.storages: dict[str, _Stated] = {}

    def find_class(self, module: str, name: str) -> object:
        found = encoded if (module, name) == ("_codecs", "encode") else storage_class(module, name)
        return _Anything() if found is None else found

    def persistent_load(self, pid: object) -> object:
        match reference(pid):
            case ("storage", cls, str(key) | int(key), str(location), int(numel), *_):
                stated = _Stated(kind_of(cls), location, numel)
                self.storages.setdefault(str(key), stated)
            case ("module", cls, *_):  # a module's class, which comes with its source
                return cls
        return _Anything()

    def load_reduce(self) -> None:
        """REDUCE: only bytes that were written as text are made, of which keys may be."""
        stack: list[object] = self.stack  # type: ignore[attr-defined]  # typeshed lacks it
        if stack[-2] is encoded:
            super().load_reduce()
        else:
            stack[-2:] = [_Anything()]

    def load_newobj(self) -> None:
        """NEWOBJ: nothing is made."""
        self.stack[-2:] = [_Anything()]  # type: ignore[attr-defined]  # as above

    def load_newobj_ex(self) -> None:
        """NEWOBJ_EX: nothing is made."""
        self.stack[-3:] = [_Anything()]  # type: ignore[attr-defined]  # as above

    def load_build(self) -> None:
        """BUILD: no state is kept."""
        self.stack.pop()  # type: ignore[attr-defined]  # as above

    def _instantiate(self, klass: object, args: list[object]) -> None:
        self.append(_Anything())  # type: ignore[attr-defined]  # as above

    dispatch = dict(BoundedUnpickler.dispatch)


for _name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX", "BUILD"):
    _Survey.dispatch[getattr(pickle, _name)[0]] = getattr(_Survey, f"load_{_name.lower()}")


class _Storages:
    """The storages of one file, by key."""

    def __init__(self, map_location: MapLocation, name: str) -> None:
        self.map_location = map_location
        self.name = name
        self.made: dict[str, StoredElements] = {}

    def load(self, pid: tuple[object, ...]) -> object:
        """The storage that a reference in the pickle means."""
        match pid:
            case ("module", cls, *_):
                return cls
            case ("storage", _, str(key) | int(key), _, int(), *view) if str(key) in self.made:
                made = self.made[str(key)]
            case _:
                what = short_text(pid)
                raise pickle.UnpicklingError(f"this file refers to something unknown: {what}")
        if view and view[0] is not None:
            return self._view(made, view[0])
        return made

    def _view(self, made: StoredElements, stated: object) -> StoredElements:
        """A part of a storage, as PyTorch had them before 0.4; one for each key."""
        match stated:
            # Python 2 wrote keys that are bytes where `encoding` is "bytes".
            case (str(key) | bytes(key) | int(key), int(offset), int(numel)) if (
                0 <= offset <= offset + numel <= len(made)
            ):
                part = self.made.get(f"part {key!r}")
            case _:
                raise FileError(f"{self.name}: a part {short_text(stated)} of {len(made)} elements")
        if part is None:
            size = made.dtype.itemsize
            part = self.made[f"part {key!r}"] = _part(made, offset * size, numel * size)
        return part

    def fill(self, key: str, stated: _Stated, file: IO[bytes]) -> None:
        """Read a storage, whose number of elements the file repeats before its bytes."""
        repeated = file.read(_NUMEL.size)
        if len(repeated) != _NUMEL.size or _NUMEL.unpack(repeated) != (stated.numel,):
            raise FileError(
                f"{self.name}: storage {key} does not have {stated.numel} elements, as the file "
                f"said"
            )
        expected = stated.numel * stated.kind.itemsize
        data = file.read(max(expected, 0))
        if len(data) != expected:
            raise FileError(f"{self.name}: the file ends within storage {key}")
        raw = np.frombuffer(bytearray(data), np.uint8)
        self.made[key] = restored(raw, stated.kind, stated.location, self.map_location)


def _part(made: StoredElements, begin: int, nbytes: int) -> StoredElements:
    whole = made.untyped()
    raw = None if whole.data is None else whole.raw()[begin : begin + nbytes]
    return StoredElements(UntypedStorage(nbytes, whole.device, raw), made.dtype, made.where)
