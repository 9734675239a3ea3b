"""`save` and `load`: dicts of tensors as safetensors files, with what that format leaves out.

The file is a JSON header (dtype, shape, byte range of every name) and the values, row-major,
without gaps, so any safetensors reader sees each tensor whole. What it cannot say - strides,
aliases, requires_grad, parameters, complex types - stands in ``__metadata__`` and is restored by
`load` (T56, T57). Loading reads numbers and names; it never runs code.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from maquette.core.device import cpu, device
from maquette.core.dtype import all_dtypes, complex64, complex128, dtype
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.tensor.arrays import array_over
from maquette.tensor.copying import check_can_save, rebuild_storage, rebuild_tensor
from maquette.tensor.parameter import Parameter
from maquette.tensor.printing import array_of
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

Array = npt.NDArray[np.generic]
Path = str | os.PathLike[str]
File = Path | IO[bytes]
Place = str | device | Mapping[str, str] | None
Facts = dict[str, object]


class FileError(RuntimeError, ValueError):
    """A file that is not what it says it is, damaged or crafted; the text names the file."""


class EmptyFileError(FileError, EOFError):
    """A file without a single byte."""


def name_of(file: IO[bytes]) -> str:
    """What errors call a file: its path, if it has one."""
    name = getattr(file, "name", None)
    return repr(name) if isinstance(name, str) else "this file"


_METADATA = "__metadata__"
_OURS = "maquette"
_LENGTH = struct.Struct("<Q")
_LARGEST_HEADER = 100_000_000  # the format's own limit

# The format's names of dtypes. Those it lacks are kept as the nearest that it has, and their own
# name stands in the metadata: complex numbers as pairs.
_FORMAT_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
}
_BY_NAME = {kind.name: kind for kind in all_dtypes}
# These names came later (safetensors 0.6): they are read, and not written for older readers.
_LATER_NAMES = {
    "C64": "complex64",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_DTYPES = {name: kind for kind in all_dtypes if (name := _FORMAT_NAMES.get(kind.name))}
_DTYPES.update({name: _BY_NAME[kind] for name, kind in _LATER_NAMES.items()})
_PAIRS = {complex64: "F32", complex128: "F64"}


# --- writing -------------------------------------------------------------------------


def save(obj: Mapping[str, Tensor], f: File, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a flat dict of names to tensors as a safetensors file (T57).

    f: a path, or a file open for writing bytes. metadata: strings to keep beside it. Raises
    TypeError for keys that are no strings and values that are no tensors, sparse or fake ones too.
    """
    entries = _entries(obj)
    header = _header(obj, entries, dict(metadata or {}))
    with _opened(f, "wb") as file:
        write_header(file, header)
        for entry in entries:
            write_values(entry.tensor, file)


def can_name(kind: dtype) -> bool:
    """Whether files call a dtype by a name that every reader knows."""
    return kind.name in _FORMAT_NAMES


def write_header(file: IO[bytes], header: bytes) -> None:
    """Begin a file with a header of `header_of`."""
    file.write(_LENGTH.pack(len(header)))
    file.write(header)


class _Entry(NamedTuple):
    name: str
    tensor: Tensor


def _entries(obj: Mapping[str, Tensor]) -> list[_Entry]:
    if not isinstance(obj, Mapping):
        raise TypeError(
            f"save() writes a dict of names to tensors, got {type(obj).__name__}; of a module, "
            f"save its state_dict()"
        )
    for key, value in obj.items():
        check_entry(key, value)
    # Wide elements first, so that each begins where its dtype may.
    entries = [_Entry(name, tensor) for name, tensor in obj.items()]
    return sorted(entries, key=lambda entry: -entry.tensor.meta.itemsize)


def check_entry(key: object, value: object) -> None:
    """TypeError for what cannot be written: names that are no strings, and what is no tensor."""
    if not isinstance(key, str) or key == _METADATA:
        raise TypeError(f"save(): names are strings (not '{_METADATA}'), got {key!r}")
    if not isinstance(value, Tensor):
        raise TypeError(
            f"save(): the value of '{key}' must be a tensor, got {type(value).__name__}: a flat "
            f"dict of names to tensors can be saved, and nothing else"
        )
    if type(value) not in (Tensor, Parameter) and value.fake_mode is None:
        raise TypeError(
            f"save(): '{key}' is a {type(value).__name__}, a class that loading could not know; "
            f"save a plain tensor"
        )
    check_can_save(value)
    if value.meta.layout is not strided or value.meta.dtype.name == "complex32":
        raise TypeError(f"save(): '{key}' is {value.meta}, which the format cannot hold")
    if value.fake_mode is None and value._mq_data is None:
        raise TypeError(f"save(): '{key}' is {value.meta}, which has no data")


def _header(names: Iterable[str], entries: list[_Entry], strings: dict[str, str]) -> bytes:
    ours = _what_the_format_lacks(entries)
    if ours:
        strings[_OURS] = json.dumps(ours, separators=(",", ":"))
    return header_of(names, [(name, tensor.meta) for name, tensor in entries], strings)


def header_of(
    names: Iterable[str], metas: Iterable[tuple[str, TensorMeta]], strings: dict[str, str]
) -> bytes:
    """What stands before the values of ``metas`` in a file, without its length; ``strings`` too."""
    table: dict[str, object] = {_METADATA: strings} if strings else {}
    table.update(dict.fromkeys(names))  # in the caller's order, which is not that of the values
    at = 0
    for name, meta in metas:
        end = at + meta.numel * meta.itemsize
        kind, shape = _as_written(meta)
        table[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(table, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def _as_written(meta: TensorMeta) -> tuple[str, list[int]]:
    shape = list(meta.shape)
    if meta.dtype in _PAIRS:
        return _PAIRS[meta.dtype], [*shape, 2]
    return _FORMAT_NAMES.get(meta.dtype.name, "U8"), shape


def _what_the_format_lacks(entries: list[_Entry]) -> dict[str, Facts]:
    """The facts to restore by name; only those that are not what a plain reader would make."""
    storages: dict[int, list[str]] = {}
    for name, tensor in entries:
        storages.setdefault(id(tensor._storage), []).append(name)
    numbers = {key: i for i, key in enumerate(storages)}
    found = {}
    for name, tensor in entries:
        key = id(tensor._storage)
        facts = _facts(tensor, shared=len(storages[key]) > 1)
        if "storage" in facts:
            facts["storage"] = numbers[key]
        if facts:
            found[name] = facts
    return found


def _facts(tensor: Tensor, *, shared: bool) -> Facts:
    meta = tensor.meta
    facts: Facts = {}
    plain = tensor._storage.nbytes() == meta.numel * meta.itemsize and meta.is_contiguous
    if not (tensor.is_conj() or tensor.is_neg()) and (shared or not plain):
        facts["storage"] = 0
        facts["nbytes"] = tensor._storage.nbytes()
        facts["strides"] = list(meta.strides)
        facts["offset"] = meta.offset
    if meta.dtype.name not in _FORMAT_NAMES:
        facts["dtype"] = meta.dtype.name
    if meta.device is not cpu:
        facts["device"] = str(meta.device)
    if tensor.requires_grad:
        facts["requires_grad"] = True
    if isinstance(tensor, Parameter):
        facts["parameter"] = True
    return facts


def write_values(tensor: Tensor, file: IO[bytes]) -> None:
    """Write the elements of a tensor, in order; zeros for those of a fake one."""
    array = array_of(tensor)
    if array is None:  # a placeholder for a fake
        array = np.zeros(tensor.meta.numel * tensor.meta.itemsize, np.uint8)
    file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


@contextmanager
def _opened(f: File, mode: str) -> Iterator[IO[bytes]]:
    if isinstance(f, str | os.PathLike):
        with open(f, mode) as file:
            yield cast(IO[bytes], file)
    else:
        yield f


# --- reading -------------------------------------------------------------------------


def load(f: File, map_location: Place = None) -> dict[str, Tensor]:
    """The dict of tensors that a safetensors file holds, `save`'s or another program's.

    map_location: the device for all tensors, or a dict of devices by the device saved; by default
    each goes where it was. Under a `FakeTensorMode` they are fakes. Raises ValueError for a file
    that is not well formed.
    """
    return load_with_metadata(f, map_location)[0]


# What reading a file that is damaged or crafted may raise.
DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, IndexError, KeyError,
    MemoryError, RecursionError, RuntimeError, TypeError, UnicodeError, ValueError, struct.error,
)  # fmt: skip


_MOST_TOLD = 1000  # characters of an error: a crafted file makes its text as long as it likes


@contextmanager
def errors_of(file: IO[bytes]) -> Iterator[None]:
    """Let all that goes wrong in the block be a FileError that names the file."""
    try:
        yield
    except FileError as error:
        name = name_of(file)
        raise error if str(error).startswith(name) else FileError(f"{name}: {error}") from None
    except DAMAGE as error:
        raise FileError(
            f"{name_of(file)}: it is damaged, or no checkpoint: {type(error).__name__}: "
            f"{str(error)[:_MOST_TOLD]}"
        ) from error


def load_with_metadata(
    f: File, map_location: Place = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """`load`, and the strings that the file keeps beside the tensors."""
    with _opened(f, "rb") as file, errors_of(file):
        rows, strings = read_table(file)
        ours = _ours(strings)
        loaded = _Loaded(ours, sum(row.end - row.begin for row in rows))
        at = 0
        for row in sorted(rows, key=lambda row: (row.begin, row.end)):
            if row.begin != at:
                what = "overlap those of another tensor" if row.begin < at else "begin after a gap"
                raise FileError(f"the values of '{row.name}' {what}")
            _check_length(file, row.end - row.begin)
            loaded.add(row, read_bytes(file, row.end - row.begin))
            at = row.end
        if file.read(1):
            raise FileError("there are bytes after the last tensor's values")
        tensors = {}
        for row in rows:
            where = place_of(str(ours.get(row.name, {}).get("device", "cpu")), map_location)
            made = loaded.tensors[row.name]
            tensors[row.name] = made if where is cpu else made.to(where)
    return tensors, strings


class Row(NamedTuple):
    """A line of the header; ``begin`` and ``end`` count from the end of the header."""

    name: str
    kind: dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def read_table(file: IO[bytes]) -> tuple[list[Row], dict[str, str]]:
    """What a file says of its tensors, and its strings; what comes next in it are the values."""
    table = _read_header(file)
    strings = _strings(table.pop(_METADATA, {}))
    return list(_rows(table)), strings


def _read_header(file: IO[bytes]) -> dict[str, object]:
    prefix = file.read(_LENGTH.size)
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else _LARGEST_HEADER + 1
    if length > _LARGEST_HEADER:
        raise FileError("it is no safetensors file: it does not begin with a header's length")
    try:
        table = json.loads(
            file.read(length), object_pairs_hook=_each_once, parse_int=_of_few_digits
        )
    except (ValueError, RecursionError) as error:
        raise FileError(f"it is no safetensors file: its header is no JSON ({error})") from None
    if not isinstance(table, dict):
        raise FileError("it is no safetensors file: its header is no JSON object")
    return table


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"'{name}' stands in it twice")
        table[name] = value
    return table


_MOST_DIGITS = 20  # of 64 bits
_MOST_DIMENSIONS = 64  # of an array
_short = reprlib.Repr().repr  # of what may be as long as the header


def _of_few_digits(text: str) -> int:
    # Reading a number takes the square of its length.
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _whole(number: object) -> int:
    if type(number) is not int or not 0 <= number < 1 << 63:  # nor a bool
        raise TypeError("expected a whole number")
    return number


def _rows(table: Mapping[str, object]) -> Iterator[Row]:
    for name, entry in table.items():
        try:
            assert isinstance(entry, dict)
            kind = _DTYPES[entry["dtype"]]
            shape = tuple([_whole(n) for n in entry["shape"]])
            begin, end = map(_whole, entry["data_offsets"])
            assert len(shape) <= _MOST_DIMENSIONS
        except (AssertionError, KeyError, TypeError, ValueError):
            raise FileError(
                f"the entry of {_short(name)} is not understood: {_short(entry)}"
            ) from None
        if end - begin != math.prod(shape) * kind.itemsize:
            raise FileError(f"the entry of {_short(name)} contradicts itself: {_short(entry)}")
        yield Row(name, kind, shape, begin, end)


def _strings(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, dict):
        raise FileError(f"{_METADATA} must hold strings by name, got {_short(metadata)}")
    if not all(isinstance(text, str) for text in metadata.values()):
        raise FileError(f"{_METADATA} must hold strings, got {_short(metadata)}")
    return metadata


def _ours(strings: Mapping[str, str]) -> dict[str, Facts]:
    found = json.loads(strings.get(_OURS, "{}"))
    return found if isinstance(found, dict) else {}


# Bytes of storages of which a file holds views: so many, and so many for each byte of the file.
_UNSEEN, _UNSEEN_TIMES = 1 << 28, 64
_PART = 1 << 26  # bytes of a file that are read at a time


def _check_length(file: IO[bytes], nbytes: int) -> None:
    """FileError if the file ends before ``nbytes`` more, so that no memory is taken for them."""
    if nbytes <= _PART or not file.seekable():
        return
    at = file.tell()
    left = file.seek(0, os.SEEK_END) - at
    file.seek(at)
    if left < nbytes:
        raise FileError(f"the file ends early: {nbytes} bytes of values expected, {left} found")


def read_bytes(file: IO[bytes], nbytes: int) -> npt.NDArray[np.uint8]:
    """The next bytes of a file, in memory of their own: a storage is read straight into place."""
    values = np.empty(nbytes, np.uint8)
    done = 0
    while done < nbytes:
        part = file.read(min(nbytes - done, _PART))
        if not part:
            raise FileError(f"the file ends early: {nbytes} bytes of values expected, {done} found")
        values[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    return values


class _Loaded:
    """The tensors of one file, made one by one; those that shared a storage share one again.

    A storage that is much larger than what the file holds of it is not made again: its tensors
    get memory of their own, with equal values, and a small file cannot take much.
    """

    def __init__(self, ours: dict[str, Facts], nbytes: int) -> None:
        self.ours = ours
        self.left = _UNSEEN + _UNSEEN_TIMES * nbytes
        self.storages: dict[int, UntypedStorage] = {}
        self.tensors: dict[str, Tensor] = {}

    def add(self, row: Row, raw: npt.NDArray[np.uint8]) -> None:
        """Make the tensor of one row, on cpu; ``raw`` becomes its storage where it has its own."""
        facts = self.ours.get(row.name, {})
        kind, shape = row.kind, row.shape
        if "dtype" in facts:
            kind = _BY_NAME[str(facts["dtype"])]
            shape = shape[:-1] if kind in _PAIRS else shape
        meta = TensorMeta.of(kind, shape)
        storage = self._storage(facts) if "storage" in facts else None
        if storage is not None:
            meta = meta.view(shape, _ints(facts["strides"]), _int(facts["offset"]))
            array_over(storage, meta)[...] = raw.view(kind.numpy).reshape(shape)
        else:
            storage = rebuild_storage(raw.nbytes, cpu, raw, False)
        cls = Parameter if facts.get("parameter") else Tensor
        self.tensors[row.name] = rebuild_tensor(
            cls, storage, meta, bool(facts.get("requires_grad"))
        )

    def _storage(self, facts: Facts) -> UntypedStorage | None:
        number, nbytes = _int(facts["storage"]), _int(facts["nbytes"])
        if number not in self.storages:
            if nbytes > self.left:
                return None
            self.left -= nbytes
            self.storages[number] = UntypedStorage(nbytes, cpu, np.zeros(nbytes, np.uint8))
        return self.storages[number]


def _int(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise FileError(f"expected a size in the file's metadata, got {_short(value)}")
    return value


def _ints(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise FileError(f"expected sizes in the file's metadata, got {_short(value)}")
    return tuple([_int(v) for v in value])


def place_of(saved: str, map_location: Place) -> device:
    """Where a tensor goes that was on the device ``saved``."""
    wanted: object = saved
    if isinstance(map_location, Mapping):
        wanted = map_location.get(saved, saved)
    elif map_location is not None:
        wanted = map_location
    return wanted if isinstance(wanted, device) else device(str(wanted))
