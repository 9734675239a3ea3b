"""The zip archives that checkpoints are: records by name, aligned, none longer than it says.

What the records hold is not known here: `serialization.py` says which there are. An archive may be
crafted: a record is read only up to the length that the reader expects of it, and one that was
compressed out of proportion is refused before it is unpacked.
"""

from __future__ import annotations

import copy
import mmap
import os
import zipfile
import zlib
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from maquette.tensor.saving import FileError, name_of, read_bytes
from maquette.torch.saving.opening import note_mapped

Bytes = npt.NDArray[np.uint8]
_ALIGNMENT = 64
_FIXED = 30  # bytes of a record's header before its name
_FILLER = b"FB"  # the tag of the header field that aligns the bytes after it
_MOST_UNPACKED = 100  # times its compressed length; only above `_SMALL`
_SMALL = 1 << 20


# What `set_crc32_options` sets: whether checksums are written, and looked at.
checksums = [True]

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, EOFError, MemoryError,
    RuntimeError,
)  # fmt: skip


class Writer:
    """An archive being written; all its records stand in one folder."""

    def __init__(self, file: IO[bytes], folder: str) -> None:
        self.archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.folder = folder

    def set_aside(self, name: str, nbytes: int) -> None:
        """Add a record of zeros, to be filled in the file: it says no checksum."""
        self.write(name, bytes(nbytes))
        self.archive.filelist[-1].CRC = 0

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Add a record whose bytes begin at a multiple of 64 in the file."""
        info = zipfile.ZipInfo(f"{self.folder}/{name}")
        size = len(data) if isinstance(data, bytes) else data.nbytes
        large = size >= zipfile.ZIP64_LIMIT // 2
        at = self.archive.fp.tell()  # type: ignore[union-attr]  # it is open
        begins = at + _FIXED + len(info.filename.encode()) + 4 + (20 if large else 0)
        filler = -begins % _ALIGNMENT
        info.extra = _FILLER + filler.to_bytes(2, "little") + b"Z" * filler
        info.header_offset, info.external_attr = at, 0o600 << 16
        info.file_size = info.compress_size = size
        info.CRC = zlib.crc32(data) if checksums[0] else 0
        self._write_record(info, data, large)

    def _write_record(self, info: zipfile.ZipInfo, data: bytes | memoryview, large: bool) -> None:
        # All is known before, so nothing is gone back for, as zipfile's own writer does: a file
        # that packs what it is given cannot go back.
        archive = self.archive
        file = cast("IO[bytes]", archive.fp)
        file.write(info.FileHeader(large))
        file.write(data)
        archive.filelist.append(info)
        archive.NameToInfo[info.filename] = info
        archive.start_dir = file.tell()

    def close(self) -> None:
        """Write the directory."""
        self.archive.close()


def _two_lengths(raw: bytes) -> tuple[int, int]:
    return int.from_bytes(raw[:2], "little"), int.from_bytes(raw[2:], "little")


class Reader:
    """An archive being read; FileError, with the file's name, for all that is wrong with it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.name = name_of(file)
        self.nbytes = file.seek(0, os.SEEK_END)
        try:
            self.archive = zipfile.ZipFile(file)
        except _DAMAGE as error:
            raise FileError(f"{self.name}: this zip archive cannot be read: {error}") from None
        self._check_records()
        self.folder = self.find_folder()

    def _check_records(self) -> None:
        """FileError unless each record has a name and bytes of its own, before the directory."""
        records = sorted(self.archive.infolist(), key=lambda info: info.header_offset)
        if len(self.archive.NameToInfo) != len(records):
            raise FileError(f"{self.name}: two records of this zip archive have one name")
        free = 0
        for info in records:
            if info.header_offset < free:
                raise FileError(f"{self.name}: the record '{info.filename}' overlaps another")
            free = info.header_offset + _FIXED + len(info.filename) + info.compress_size
            if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
                raise FileError(f"{self.name}: the record '{info.filename}' has two lengths")
        if free > self.archive.start_dir:
            raise FileError(f"{self.name}: a record reaches beyond the records' part of the file")
        unpacked = sum(info.file_size for info in records)
        if unpacked > _SMALL + _MOST_UNPACKED * self.nbytes:
            raise FileError(
                f"{self.name}: the records would unpack to {unpacked} bytes, of {self.nbytes} in "
                f"the file; no checkpoint is packed so"
            )

    def find_folder(self) -> str:
        """The folder of the records, with a slash: that of the first one, as in PyTorch."""
        first = next(iter(self.archive.namelist()), "")
        folder = first[: first.find("/") + 1]
        if not folder or f"{folder}data.pkl" not in self.archive.NameToInfo:
            raise FileError(f"{self.name}: this zip is no checkpoint: it has no data.pkl")
        return folder

    def read(self, name: str, expected: int | None = None) -> Bytes:
        """A record's bytes, in memory of their own; expected: how many the file says it has."""
        info = self._info(name, expected)
        if info.file_size > _SMALL and info.file_size > _MOST_UNPACKED * info.compress_size:
            raise FileError(
                f"{self.name}: the record '{name}' would unpack {info.compress_size} bytes to "
                f"{info.file_size}; no checkpoint is packed so"
            )
        try:
            with self._opened(info) as record:
                return read_bytes(record, info.file_size)
        except _DAMAGE as error:
            raise FileError(f"{self.name}: the record '{name}' is damaged: {error}") from None

    def mapped(self, name: str, expected: int, *, shared: bool = False) -> Bytes:
        """A record as memory mapped from the file; writing to it writes there only if shared."""
        info = self._info(name, expected)
        path = getattr(self.file, "name", None)
        if info.compress_type != zipfile.ZIP_STORED or not isinstance(path, str | os.PathLike):
            return self.read(name, expected)
        begins = self.begin_of(name)
        if begins + expected > self.archive.start_dir:
            raise FileError(f"{self.name}: the record '{name}' reaches beyond the records")
        if expected == 0:
            return np.empty(0, np.uint8)
        if shared and info.CRC:
            self._forget_checksum(info, path)
        mapped = np.memmap(
            path, np.uint8, mode="r+" if shared else "c", offset=begins, shape=(expected,)
        )
        note_mapped(cast("mmap.mmap", mapped.base), path)
        return mapped.view(np.ndarray)

    def _forget_checksum(self, info: zipfile.ZipInfo, path: str | os.PathLike[str]) -> None:
        """Let the file say no checksum of a record that programs may write to."""
        with open(path, "r+b") as file:
            at = self.archive.start_dir
            for other in self.archive.filelist:
                file.seek(at + 28)
                lengths = int.from_bytes(file.read(2), "little"), *_two_lengths(file.read(4))
                if other is info:
                    file.seek(at + 16)
                    file.write(bytes(4))
                at += 46 + sum(lengths)
            file.seek(info.header_offset + 14)
            file.write(bytes(4))
        info.CRC = 0

    def begin_of(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
        info = self._info(name)
        try:
            self._opened(info).close()  # which looks at the record's header
        except _DAMAGE as error:
            raise FileError(f"{self.name}: the record '{name}' is damaged: {error}") from None
        self.file.seek(info.header_offset + 26)
        return info.header_offset + _FIXED + sum(_two_lengths(self.file.read(4)))

    def holds(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return f"{self.folder}{name}" in self.archive.NameToInfo

    def _opened(self, info: zipfile.ZipInfo) -> IO[bytes]:
        if info.CRC == 0 or not checksums[0]:
            # 0: not computed, as in files that were written after set_crc32_options(False).
            info = copy.copy(info)
            info.CRC = None  # type: ignore[assignment]  # which zipfile takes as none to look at
        return self.archive.open(info)

    def _info(self, name: str, expected: int | None = None) -> zipfile.ZipInfo:
        try:
            info = self.archive.getinfo(f"{self.folder}{name}")
        except KeyError:
            raise FileError(f"{self.name}: there is no record '{name}'") from None
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(
                f"{self.name}: the record '{name}' is packed by method {info.compress_type}; "
                f"checkpoints are stored, or packed by DEFLATE"
            )
        if expected is not None and info.file_size != expected:
            raise FileError(
                f"{self.name}: the record '{name}' has {info.file_size} bytes, where the file "
                f"says that it has {expected}"
            )
        return info
