"""Zip archives of records, under the names by which programs reach below `torch.save`.

`records.py` reads and writes them; here are its classes as ``torch._C`` and ``torch.serialization``
have them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import IO

from maquette.api.creation import from_numpy
from maquette.core.dtype import dtype, uint8
from maquette.tensor.saving import File, FileError
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.torch.saving.legacy_files import bytes_of
from maquette.torch.saving.opening import opened_for_reading, opened_for_writing
from maquette.torch.saving.records import Reader, Writer

_VERSION = b"3\n"


def folder_for(file: File) -> str:
    """The folder of an archive's records: called after the file, ``archive`` where it has no name.

    A file given by its name or one that is open.
    """
    name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    known = isinstance(name, str | os.PathLike)
    stem = os.path.splitext(os.path.basename(name))[0] if known else ""  # type: ignore[arg-type]
    return stem if isinstance(stem, str) and stem.isascii() and stem else "archive"


class PyTorchFileWriter:
    """Writes records to an archive: a path, or a file open for writing bytes."""

    def __init__(self, file: File) -> None:
        self._open = ExitStack()
        self._writer = Writer(self._open.enter_context(opened_for_writing(file)), folder_for(file))
        self._names: set[str] = set()

    def archive_name(self) -> str:
        """The folder of the records."""
        return self._writer.folder

    def write_record(self, name: str, data: bytes | str | UntypedStorage, size: int) -> None:
        """Add a record: the first bytes of ``data``. TypeError for an address of memory."""
        if isinstance(data, int):
            raise TypeError("write_record takes bytes or a storage, not an address")
        given = data.encode() if isinstance(data, str) else data
        raw = bytes_of(given) if isinstance(given, UntypedStorage) else given
        self._names.add(name)
        self._writer.write(name, raw[:size])

    def write_record_metadata(self, name: str, size: int) -> None:
        """Set aside the bytes of a record: zeros."""
        self._names.add(name)
        self._writer.set_aside(name, size)

    def write_end_of_file(self) -> None:
        """Write the version and the directory; nothing can be added then."""
        if ".format_version" not in self._names:
            self._writer.write(".format_version", b"1")
        if "version" not in self._names:
            self._writer.write("version", _VERSION)
        self._writer.close()
        self._open.close()


class _AnyReader(Reader):
    """Reads an archive whatever its records are."""

    def find_folder(self) -> str:
        names = self.archive.namelist()
        if not names or "/" not in names[0]:
            raise FileError(f"{self.name}: the records of this zip are in no folder")
        return names[0].partition("/")[0] + "/"


class PyTorchFileReader:
    """Reads the records of an archive: a path, or a file open for reading bytes.

    FileError for a file that is none, and for a record that it has not.
    """

    def __init__(self, file: File) -> None:
        self._open = ExitStack()
        try:
            self._reader = _AnyReader(self._open.enter_context(opened_for_reading(file)))
        except BaseException:
            self._open.close()
            raise

    def close(self) -> None:
        """Close a file that was given by its path."""
        self._open.close()

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return self._reader.holds(name)

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        folder = self._reader.folder
        return [n.removeprefix(folder) for n in self._reader.archive.namelist()]

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._reader.read(name).tobytes()

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
        return self._reader.begin_of(name)

    def get_storage_from_record(
        self, name: str, numel: int, kind: dtype | type[UntypedStorage]
    ) -> Tensor:
        """A record as a tensor of so many elements, bytes for ``UntypedStorage``."""
        element = kind if isinstance(kind, dtype) else uint8
        raw = self._reader.read(name, numel * element.itemsize)
        found: Tensor = from_numpy(raw).view(element)
        return found

    def get_record_header_offset(self, name: str) -> int:
        """Where in the file a record begins, its header included."""
        return self._reader.archive.getinfo(f"{self._reader.folder}{name}").header_offset

    def version(self) -> int:
        """The number of the format."""
        return int(self.get_record("version"))

    def serialization_id(self) -> str:
        """What tells this file from others; "" where it does not say."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


@contextmanager
def _open_zipfile_writer(name_or_buffer: File) -> Iterator[PyTorchFileWriter]:
    """An archive to be written in a block."""
    writer = PyTorchFileWriter(name_or_buffer)
    yield writer
    writer.write_end_of_file()


@contextmanager
def _open_zipfile_reader(name_or_buffer: File) -> Iterator[PyTorchFileReader]:
    """An archive to be read in a block."""
    reader = PyTorchFileReader(name_or_buffer)
    try:
        yield reader
    finally:
        reader.close()


def _open_file_like(name_or_buffer: File, mode: str) -> AbstractContextManager[IO[bytes]]:
    """A file for a block, by its path or as it is; RuntimeError for a mode with neither r nor w."""
    if "w" in mode:
        return opened_for_writing(name_or_buffer)
    if "r" not in mode:
        raise RuntimeError(f"Expected 'r' or 'w' in mode but got {mode}")
    return opened_for_reading(name_or_buffer)


__all__ = [
    "PyTorchFileReader",
    "PyTorchFileWriter",
    "_open_file_like",
    "_open_zipfile_reader",
    "_open_zipfile_writer",
    "folder_for",
]
