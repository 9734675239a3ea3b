"""Compiled code of generated functions, kept from one process to the next.

To compile a function costs 0.2 ms, and a first step of a model needs two hundred; to read its code
back costs 0.01 ms. The code lies in the user's cache folder: ``$MAQUETTE_CACHE_DIR``, else
``maquette`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. Where MAQUETTE_CACHE_DIR is empty nothing is
read or written; a folder that cannot be written to costs time alone. Code is found by the text that
it was compiled from and is of one interpreter, so nothing in the file can be out of date.
"""

from __future__ import annotations

import atexit
import functools
import marshal
import os
import sys
import threading
import zlib
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from types import CodeType

LIMIT = 2048
"""How many codes the file holds, 1.3 kB each; those of the processes that wrote last stay."""
_HEAD = len(MAGIC_NUMBER) + 4
_lock = threading.Lock()


class KeptCode:
    """The codes in one file, by a digest of their source.

    locate: gives the path of the file, which need not be there; None: nothing is kept.
    """

    def __init__(self, locate: Callable[[], str | None]) -> None:
        self._locate = locate
        self._read: dict[bytes, bytes] | None = None
        self._used: dict[bytes, bytes] = {}
        self._made: dict[bytes, bytes] = {}

    @functools.cached_property
    def path(self) -> str | None:
        """Of the file: asked when it is first needed, not at import."""
        return self._locate()

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
