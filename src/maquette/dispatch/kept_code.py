"""Compiled code of generated functions, kept from one process to the next beside our bytecode.

To compile a function costs 0.3 ms, and a first step of a model needs a few hundred; to read its
code back costs 0.01 ms. The file lies where Python keeps the bytecode of this module, by the same
rules: it is of one interpreter, nothing is written under ``-B`` or PYTHONDONTWRITEBYTECODE, and a
folder that cannot be written to costs no more than time. Code is found by the text that it was
compiled from, so nothing in the file can be out of date.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
import threading
import zlib
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType

LIMIT = 4096
"""How many codes the file holds, 1.5 kB each; those of the processes that wrote last stay."""
_HEAD = len(MAGIC_NUMBER) + 4
_lock = threading.Lock()


class KeptCode:
    """The codes in one file, by a digest of their source.

    path: of the file, which need not be there; None: nothing is kept.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._read: dict[bytes, bytes] | None = None
        self._used: dict[bytes, bytes] = {}
        self._made: dict[bytes, bytes] = {}

    def find(self, digest: bytes) -> CodeType | None:
        """The code of a source, if it is kept."""
        if self._read is None:
            self._read = self._contents()
        kept = self._read.get(digest)
        if kept is None:
            return None
        self._used[digest] = kept
        code = marshal.loads(kept)
        assert isinstance(code, CodeType)
        return code

    def keep(self, digest: bytes, code: CodeType) -> None:
        """Write a code to the file when the process ends."""
        if self.path is None or sys.dont_write_bytecode:
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
        kept = {k: v for k, v in self._contents().items() if k not in latest} | latest
        body = marshal.dumps(dict(list(kept.items())[-LIMIT:]))
        own = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(own, "wb") as file:
                file.write(MAGIC_NUMBER + zlib.crc32(body).to_bytes(4, "little") + body)
            os.replace(own, self.path)  # a reader sees the one or the other
        except OSError:
            return

    def _contents(self) -> dict[bytes, bytes]:
        """What the file holds; nothing where it is absent, another interpreter's or cut short."""
        if self.path is None:
            return {}
        try:
            with open(self.path, "rb") as file:
                head, body = file.read(_HEAD), file.read()
        except OSError:
            return {}
        if head != MAGIC_NUMBER + zlib.crc32(body).to_bytes(4, "little"):
            return {}
        found: dict[bytes, bytes] = marshal.loads(body)
        return found


def _path() -> str | None:
    try:
        return cache_from_source(__file__).removesuffix(".pyc") + ".functions"
    except NotImplementedError:  # an interpreter that keeps no bytecode
        return None


kept_code = KeptCode(_path())
