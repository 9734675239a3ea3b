"""`torch.save` and `torch.load`: files that PyTorch writes and reads, too.

A file is a zip archive: a pickle, and beside it the bytes of each storage in a record of its own
(`records.py`; the names that things have in the pickle: `pickles.py`). Loading makes, unless told
otherwise (``weights_only=False``), only tensors, plain containers and what `add_safe_globals`
allows, and so runs no code of the file's. Files of before PyTorch 1.6 (`legacy_files.py`) and
safetensors files (`maquette.tensor.saving`) are read as well.
"""

from __future__ import annotations

import enum
import hashlib
import io
import os
import pickle
import struct
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from mmap import MAP_PRIVATE, MAP_SHARED
from types import FrameType
from typing import IO, Any, cast

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.tensor.copying import data_is_skipped, skip_data
from maquette.tensor.saving import (
    EmptyFileError,
    File,
    FileError,
    errors_of,
    load_with_metadata,
    name_of,
)
from maquette.torch.saving import legacy_files
from maquette.torch.saving._utils import StoredElements, _get_layout
from maquette.torch.saving.archives import (
    _open_file_like,
    _open_zipfile_reader,
    _open_zipfile_writer,
    folder_for,
)
from maquette.torch.saving.crafted import short_text
from maquette.torch.saving.locations import (
    SourceChangeWarning,
    StorageType,
    check_module_version_greater_or_equal,
    default_restore_location,
    location_tag,
    normalize_storage_type,
    register_package,
    validate_cuda_device,
)
from maquette.torch.saving.opening import opened_for_reading, opened_for_writing
from maquette.torch.saving.pickles import (
    Pickler,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    kind_of,
    pickler_of,
    refused_names,
    safe_globals,
    unpickle,
)
from maquette.torch.saving.records import Reader as ArchiveReader
from maquette.torch.saving.records import Writer as ArchiveWriter
from maquette.torch.saving.records import checksums
from maquette.torch.saving.restoring import (
    MapLocation,
    callers_errors,
    check_map_location,
    restored,
)

MAP_LOCATION = MapLocation  # PyTorch's name
DEFAULT_PROTOCOL = 2
_VERSION = b"3\n"


class LoadEndianness(enum.Enum):
    """How bytes are ordered in files that do not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


# --- writing -------------------------------------------------------------------------

_discarding: list[bool] = []


@contextmanager
def saves_discarded() -> Iterator[None]:
    """In the block `save` writes nothing: of a script that is planned, no file is touched."""
    _discarding.append(True)
    try:
        yield
    finally:
        _discarding.pop()


def save(
    obj: object,
    f: File,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object: tensors, modules, state dicts, whatever can be pickled.

    f: a path, or a file open for writing bytes. Tensors that share a storage share it again when
    they are loaded. Classes of ours stand in the file under PyTorch's names, so PyTorch loads it;
    other classes must be importable where it is loaded. pickle_module: one whose ``Pickler`` is
    written in Python, for what the standard library does not pickle. Raises what pickling raises,
    TypeError for a fake tensor, RuntimeError for storages that are read as several dtypes.
    """
    if _discarding:
        return
    pickler = pickler_of(pickle_module.Pickler)
    with opened_for_writing(f) as file:
        if _use_new_zipfile_serialization:
            _save(obj, file, pickler, pickle_protocol, says_order=not _disable_byteorder_record)
        else:
            legacy_files.save(obj, file, pickle_protocol, pickler)


def _save(
    obj: object, file: IO[bytes], made_by: type[Pickler], protocol: int, *, says_order: bool
) -> None:
    data = io.BytesIO()
    pickler = made_by(data, protocol)
    pickler.dump(obj)
    archive = ArchiveWriter(file, folder_for(file))
    archive.write("data.pkl", data.getvalue())
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", b"64")
    if says_order:
        archive.write("byteorder", sys.byteorder.encode())
    for key, storage in pickler.storages.items():
        if data_is_skipped():
            archive.set_aside(f"data/{key}", storage.nbytes())
        else:
            archive.write(f"data/{key}", legacy_files.bytes_of(storage))
    archive.write("version", _VERSION)
    digest = hashlib.sha256(data.getvalue()).digest()
    archive.write(".data/serialization_id", str(int.from_bytes(digest[:16])).zfill(40).encode())
    archive.close()


# What goes to the unpickler of a trusted file, as PyTorch has it; of these encoding is heeded.
_LOAD_OPTIONS = frozenset(("encoding", "errors", "fix_imports", "buffers"))
_FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
_TRUTHS = ("1", "y", "yes", "true")

# --- reading -------------------------------------------------------------------------


def load(
    f: File,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """What `save` wrote, what PyTorch's ``save`` wrote, or a safetensors file's dict of tensors.

    map_location: a device for all storages, a dict of devices by the device saved, or a function
    of a storage and that device's name. weights_only: True, the default, makes only tensors, plain
    values and `safe_globals`; False makes anything, running code of the file's, so it is for files
    that you trust, as is the ``Unpickler`` of a pickle_module. mmap: whether storages of a file
    given by its path are mapped, not read. The environment may decide for all calls:
    TORCH_FORCE_WEIGHTS_ONLY_LOAD, and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD where weights_only is None.

    Raises FileError, a RuntimeError and a ValueError, for a file that is damaged or crafted, and
    PickleFileError, a FileError and a ``pickle.UnpicklingError``, for one that wants what is not
    allowed; both name the file.
    Errors of a function that was given as map_location stay as they are. TypeError for a
    map_location of another kind, AttributeError for a file that cannot be read from a place,
    RuntimeError for tensors of devices that are not here.
    """
    check_map_location(map_location)
    unknown = sorted(pickle_load_args.keys() - _LOAD_OPTIONS)
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument '{unknown[0]}'")
    weights_only = _forced(weights_only)
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            "Can not safely load weights when explicit pickle_module is specified: leave out "
            "weights_only=True if you trust the file"
        )
    trusted: type[pickle.Unpickler] | None = None
    if weights_only is False or pickle_module is not None:
        trusted = (pickle_module or pickle).Unpickler
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("load(): mmap=True needs the path of a file, not a file that is open")
    encoding = pickle_load_args.get("encoding", "utf-8")
    with opened_for_reading(f) as file, callers_errors():
        begins = file.read(1)
        file.seek(-len(begins), os.SEEK_CUR)
        if not begins:
            raise EmptyFileError(f"{name_of(file)}: Ran out of input: this file is empty")
        if _is_zipfile(file):
            return _load_zip(_from_here(file), map_location, trusted, bool(mmap), encoding)
        if _is_tar(file):
            raise FileError(
                f"{name_of(file)}: a tar archive, as PyTorch wrote until 0.1.12; it is not read "
                f"here: load it with PyTorch (weights_only=False) and save it again"
            )
        if begins == b"\x80":
            if mmap:
                raise FileError(
                    f"{name_of(file)}: mmap can only be used with files saved with "
                    f"`torch.save(_use_new_zipfile_serialization=True), this one is older"
                )
            with named_errors(file, trusted is not None):
                return legacy_files.load(file, legacy_files.How(map_location, trusted, encoding))
        place = cast("str | device | Mapping[str, str] | None", map_location)
        return load_with_metadata(file, None if callable(place) else place)[0]


def _forced(weights_only: bool | None) -> bool | None:
    """``weights_only`` as the environment has it; RuntimeError where it says both."""
    always, never = (os.environ.get(name, "").lower() in _TRUTHS for name in _FORCED)
    if always and never:
        raise RuntimeError(f"load(): {' and '.join(_FORCED)} are both set; unset one")
    if always:
        return True
    return False if never and weights_only is None else weights_only


class PickleFileError(FileError, pickle.UnpicklingError):
    """A file whose pickle cannot be read, or wants what is not allowed."""


class CutFileError(PickleFileError, EOFError):
    """A file whose pickle ends before it is whole."""


def _from_here(file: IO[bytes]) -> IO[bytes]:
    # An archive that begins in the middle of a file: offsets in it count from its beginning.
    return file if file.tell() == 0 else io.BytesIO(file.read())


@contextmanager
def named_errors(file: IO[bytes], anything: bool) -> Iterator[None]:
    """Let errors of reading a pickle be of one class, which names the file.

    anything: whether the pickle may run code, whose errors stay as they are.
    """
    try:
        if anything:
            yield
        else:
            with errors_of(file):
                yield
    except pickle.UnpicklingError as error:
        hint = "" if anything else "Weights only load failed. "
        raise PickleFileError(f"{name_of(file)}: {hint}{error}") from None
    except FileError as error:
        name = name_of(file)
        raise error if name in str(error) else type(error)(f"{name}: {error}") from None
    except (EOFError, IndexError, UnicodeDecodeError, struct.error) as error:
        if not _is_the_readers(error):
            raise
        raise CutFileError(f"{name_of(file)}: it is damaged, or ends early: {error}") from None
    except Exception as error:  # errors of the code that the file runs stay as they are
        if type(error) in (RuntimeError, ValueError) and not _ran_other_code(error):
            raise FileError(f"{name_of(file)}: it cannot be read: {error}") from error
        error.add_note(f"while reading {name_of(file)}")
        raise


def _is_the_readers(error: BaseException) -> bool:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    name = "" if last is None else str(last.tb_frame.f_globals.get("__name__"))
    return name == "pickle" or name.startswith("maquette.torch.saving.")


def _ran_other_code(error: BaseException) -> bool:
    """Whether an error came of functions that the file calls, and not of ours alone."""
    return not all(_is_ours(frame) for frame, _ in traceback.walk_tb(error.__traceback__))


def _is_ours(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    generated = frame.f_code.co_filename.startswith("<maquette")
    return generated or module == "pickle" or module.partition(".")[0] == "maquette"


def _is_tar(file: IO[bytes]) -> bool:
    begin = file.read(262)
    file.seek(-len(begin), os.SEEK_CUR)
    return begin[257:] == b"ustar"


def _load_zip(
    file: IO[bytes],
    map_location: MapLocation,
    trusted: type[pickle.Unpickler] | None,
    mapped: bool,
    encoding: str,
) -> object:
    archive = ArchiveReader(file)
    if archive.holds("constants.pkl"):
        raise FileError(f"{archive.name}: this is a TorchScript program, which is not read here")
    storages = _Storages(archive, map_location, mapped)
    data = io.BytesIO(archive.read("data.pkl").tobytes())
    with named_errors(file, trusted is not None):
        return unpickle(
            data, storages.load, trusted=trusted, encoding=encoding, nbytes=archive.nbytes
        )


class _Storages:
    """The storages of one archive, each read once, when it is first asked for."""

    def __init__(self, archive: ArchiveReader, map_location: MapLocation, mapped: bool) -> None:
        self.archive = archive
        self.map_location = map_location
        self.mapped = mapped
        self.order = _assumed_order()
        if archive.holds("byteorder"):
            self.order = archive.read("byteorder").tobytes().decode(errors="replace")
        if self.order not in ("little", "big"):
            raise FileError(f"{archive.name}: Unknown endianness type: {self.order!r}")
        self.made: dict[str, StoredElements] = {}

    def load(self, pid: tuple[object, ...]) -> StoredElements:
        """The storage that a reference in the pickle means."""
        match pid:
            case ("storage", cls, str(key), str(location), int(numel)):
                kind = kind_of(cls)
            case _:
                what = short_text(pid)
                raise pickle.UnpicklingError(f"this file refers to something unknown: {what}")
        if key not in self.made:
            self.made[key] = self._read(key, kind, numel, location)
        return self.made[key]

    def _read(self, key: str, kind: dtype, numel: int, location: str) -> StoredElements:
        expected = numel * kind.itemsize
        record = f"data/{key}"
        if self.mapped and self.order == sys.byteorder:
            raw = self.archive.mapped(record, expected, shared=_mmap_flags[0] == MAP_SHARED)
        else:
            raw = self.archive.read(record, expected)
        if self.order != sys.byteorder:
            raw = legacy_files.swapped(raw, kind)
        return restored(raw, kind, location, self.map_location)


# --- settings ------------------------------------------------------------------------

_endianness: list[LoadEndianness | None] = [None]
_mmap_flags = [MAP_PRIVATE]


def _assumed_order() -> str:
    if _endianness[0] is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if _endianness[0] is LoadEndianness.BIG else "little"


def get_default_mmap_options() -> int:
    """Whether ``load(mmap=True)`` maps files as ``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``."""
    return _mmap_flags[0]


class set_default_mmap_options:  # PyTorch's name
    """Set what `get_default_mmap_options` says; as a block, for that long.

    Raises ValueError for other flags than ``mmap.MAP_PRIVATE`` and ``mmap.MAP_SHARED``.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.prev, _mmap_flags[0] = _mmap_flags[0], flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _mmap_flags[0] = self.prev


def _is_zipfile(f: IO[bytes]) -> bool:
    """Whether an archive begins where a file is read next; it is read on from there."""
    here = f.tell()
    begins = f.read(4)
    f.seek(here)
    return begins == b"PK\x03\x04"


def get_unsafe_globals_in_checkpoint(f: File) -> list[str]:
    """The names in a checkpoint that `load` refuses with ``weights_only``; nothing of it is run.

    Raises ValueError for a file that is no zip archive.
    """
    with opened_for_reading(f) as file:
        if not _is_zipfile(file):
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a "
                "torchscript checkpoint or another file"
            )
        data = ArchiveReader(_from_here(file)).read("data.pkl")
        return refused_names(bytes(data))


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes assumed of files that do not say it; None: little."""
    return _endianness[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set what `get_default_load_endianness` says; TypeError for another type."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness[0] = endianness


def get_crc32_options() -> bool:
    """Whether `save` writes checksums of records, and `load` looks at them."""
    return checksums[0]


def set_crc32_options(compute_crc32: bool) -> None:
    """Set what `get_crc32_options` says.

    Without checksums, records that were changed in a file by hand are read, as in PyTorch, which
    never looks at them.
    """
    checksums[0] = compute_crc32


__all__ = [
    "SourceChangeWarning",
    "StorageType",
    "check_module_version_greater_or_equal",
    "default_restore_location",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "validate_cuda_device",
    "EmptyFileError",
    "FileError",
    "LoadEndianness",
    "_get_layout",
    "_open_file_like",
    "_open_zipfile_reader",
    "_open_zipfile_writer",
    "add_safe_globals",
    "clear_safe_globals",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]
