"""Files to save to and to load from: paths, open files, and what only looks like a file.

Archives are written and read by the standard library, which wants files that say where they are.
Objects that people pass lack some of a file's methods; they are written at once, or read through
those that they have.
"""

from __future__ import annotations

import io
import mmap
import os
import reprlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast
from weakref import WeakKeyDictionary

from maquette.tensor.saving import File, FileError

_PLACED = ("seek", "tell", "seekable")


# The files, by device and number, that tensors of this process are mapped from.
_mapped: WeakKeyDictionary[mmap.mmap, tuple[int, int]] = WeakKeyDictionary()


def _identity(path: str | os.PathLike[str]) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def note_mapped(memory: mmap.mmap, path: str | os.PathLike[str]) -> None:
    """Remember that a file is mapped, as long as its memory is in use."""
    _mapped[memory] = _identity(path)


def leave_mapped(path: str | os.PathLike[str]) -> None:
    """Before a path is written to: a file of that name that is mapped keeps its bytes, nameless.

    Were it cut and written anew, tensors mapped from it would change, or their memory be gone.
    """
    if _mapped and os.path.isfile(path) and _identity(path) in set(_mapped.values()):
        with suppress(OSError):  # of a folder that is not ours
            os.unlink(os.path.realpath(path))


class NoFolderError(RuntimeError, FileNotFoundError):
    """A file to write has no folder to stand in: PyTorch raises the first, old files the second."""


@contextmanager
def opened_for_writing(f: File) -> Iterator[IO[bytes]]:
    """A file to write bytes to, flushed at the end; AttributeError for what has no ``write``."""
    if isinstance(f, str | os.PathLike):
        folder = os.path.dirname(os.path.abspath(f))
        if not os.path.isdir(folder):
            raise NoFolderError(f"save(): Parent directory {folder} does not exist. Make it first")
        leave_mapped(f)
        with open(f, "wb") as file:
            yield file
    elif not hasattr(f, "write"):
        raise AttributeError(f"save(): expected a path or a file with a 'write' method, got {f!r}")
    else:
        if all(hasattr(f, name) for name in _PLACED):
            yield f
        else:
            whole = io.BytesIO()
            yield whole
            f.write(whole.getvalue())
        if hasattr(f, "flush"):  # not of everything that can be written to
            f.flush()


@contextmanager
def opened_for_reading(f: File) -> Iterator[IO[bytes]]:
    """A file to read bytes from; AttributeError for what cannot be read from a place.

    FileError for a path of a pipe, which would be waited for.
    """
    if isinstance(f, str | os.PathLike):
        if stat.S_ISFIFO(os.stat(f).st_mode):
            raise FileError(
                f"{os.fspath(f)!r}: this is a pipe; expected a file, or its bytes in an io.BytesIO"
            )
        with open(f, "rb") as file:
            yield file
        return
    if not hasattr(f, "read"):
        raise AttributeError(
            f"load(): expected a path or a file with a 'read' method, got {reprlib.repr(f)}"
        )
    if isinstance(f, io.TextIOBase):
        raise TypeError(f"load(): expected a file open for reading bytes, got one for text, {f!r}")
    try:
        f.seek(f.tell())
    except (AttributeError, io.UnsupportedOperation) as error:
        raise AttributeError(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            "data into a buffer like io.BytesIO and try to load from it instead."
        ) from None
    yield f if hasattr(f, "seekable") else cast("IO[bytes]", _Adapted(f))


class _Adapted(io.RawIOBase):
    """A file of an object that has ``read`` or ``readinto``, ``seek`` and ``tell``."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if hasattr(self._file, "readinto"):
            return cast(int, self._file.readinto(buffer))
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return cast(int, self._file.tell())
