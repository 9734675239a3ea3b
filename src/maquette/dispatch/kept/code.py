"""Compiled code of generated functions, kept from one process to the next.

To write and compile a function costs 0.2 ms, and a first step of a model needs two hundred; to read
its code back costs 0.01 ms. The code lies in the user's cache folder: ``$MAQUETTE_CACHE_DIR``, else
``maquette`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. Where MAQUETTE_CACHE_DIR is empty nothing is
read or written; a folder that cannot be written to costs time alone. The file is of one
interpreter. Code is found by the text that it was compiled from, or by all that the text was
written from and a stamp of the modules that write such texts: nothing in it can be out of date.

The file is a head, an index that says where each code is, and the codes. Of a full one, of 3 MB,
a process reads the index and what it asks for: to read all of it took 5 ms of each first step.
"""

from __future__ import annotations

import atexit
import functools
import marshal
import os
import struct
import sys
import threading
import zlib
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mmap import mmap

LIMIT = 2048
"""How many codes the file holds, 2 to 4 kB each; those of the processes that wrote last stay."""
# The interpreter's number, the sizes of the file and of its index, and the index's checksum.
_HEAD = struct.Struct("<4sQQI")
_Index = dict[bytes, tuple[int, int, int]]
"""Of a source: where its code begins, counted from the end of the index; its size and checksum."""
_lock = threading.Lock()


class _Contents(NamedTuple):
    """A file as it was when it was opened, whatever has taken its place since."""

    places: _Index
    file: mmap | bytes
    begin: int

    def get(self, digest: bytes) -> bytes | None:
        """The code of a source, as `marshal` has it; None also where its bytes are damaged."""
        place = self.places.get(digest)
        if place is None:
            return None
        start, size, checksum = place
        start += self.begin
        code = self.file[start : start + size]
        return code if zlib.crc32(code) == checksum else None


_NOTHING = _Contents({}, b"", 0)


class KeptCode:
    """The codes in one file, by a digest of their source.

    locate: gives the path of the file, which need not be there; None: nothing is kept.
    """

    def __init__(self, locate: Callable[[], str | None]) -> None:
        self._locate = locate
        self._read: _Contents | None = None
        self._used: dict[bytes, bytes] = {}
        self._made: dict[bytes, bytes] = {}

    @functools.cached_property
    def path(self) -> str | None:
        """Of the file: asked when it is first needed, not at import."""
        return self._locate()

    def find(self, digest: bytes) -> CodeType | tuple[CodeType, str] | None:
        """The code of a source, if it is kept; with the source, if it was kept with it."""
        if self._read is None:
            self._read = self._contents()
        kept = self._read.get(digest)
        if kept is None:
            return None
        self._used[digest] = kept
        found: CodeType | tuple[CodeType, str] = marshal.loads(kept)
        return found

    def keep(self, digest: bytes, code: CodeType | tuple[CodeType, str]) -> None:
        """Write a code to the file when the process ends."""
        if self.path is None:
            return
        with _lock:
            if not self._made:
                atexit.register(self.write)
            self._made[digest] = marshal.dumps(code)

    def write(self) -> None:
        """Add what was made to the file, which others may have written to since it was read."""
        with _lock:
            made, self._made = self._made, {}
        if self.path is None or not made:
            return
        latest = self._used | made
        standing = self._contents()
        older = [(k, standing.get(k)) for k in standing.places if k not in latest]
        kept = [*((k, code) for k, code in older if code is not None), *latest.items()][-LIMIT:]
        own = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(own, "wb") as file:
                file.write(_file_of(kept))
            os.replace(own, self.path)  # a reader sees the one or the other
        except OSError:
            return

    def _contents(self) -> _Contents:
        """What the file holds; nothing where it is absent, another interpreter's or cut short."""
        if self.path is None:
            return _NOTHING
        from mmap import ACCESS_READ, mmap  # noqa: PLC0415  # importing maquette is at its budget

        try:
            with open(self.path, "rb") as opened:
                file = mmap(opened.fileno(), 0, access=ACCESS_READ)
        except (OSError, ValueError):  # ValueError: it is empty
            return _NOTHING
        if len(file) < _HEAD.size:
            return _NOTHING
        magic, whole, size, checksum = _HEAD.unpack_from(file)
        written = file[_HEAD.size : _HEAD.size + size]
        if (magic, whole, checksum) != (MAGIC_NUMBER, len(file), zlib.crc32(written)):
            return _NOTHING
        index: _Index = marshal.loads(written)
        return _Contents(index, file, _HEAD.size + size)


def _file_of(codes: list[tuple[bytes, bytes]]) -> bytes:
    """The bytes of a file of codes, each with its digest."""
    places: _Index = {}
    start = 0
    for digest, code in codes:
        places[digest] = start, len(code), zlib.crc32(code)
        start += len(code)
    index = marshal.dumps(places)
    whole = _HEAD.size + len(index) + start
    head = _HEAD.pack(MAGIC_NUMBER, whole, len(index), zlib.crc32(index))
    return b"".join([head, index, *(code for _, code in codes)])


def file_of_the_user() -> str | None:
    """Where this interpreter's code is kept."""
    folder = os.environ.get("MAQUETTE_CACHE_DIR")
    if folder is None:
        above = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.path.join(above, "maquette")
        if not os.path.isabs(
            folder
        ):  # a user without a home: nothing is to lie where we happen to be
            return None
    return os.path.join(folder, f"functions.{sys.implementation.cache_tag}") if folder else None


kept_code = KeptCode(file_of_the_user)
