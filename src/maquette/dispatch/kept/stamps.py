"""Stamps of the modules that write the texts of generated functions.

What is kept for a later process (`code.py`) is found by what a text is written from. That is the
same text only as long as the same modules write it, which a stamp says.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from hashlib import blake2b

_WRITERS = ("dispatch", "autograd", "fake", "library", "tensor")
"""The packages whose modules write the texts that are found by what they are written from."""
_IMPORTED_NS = time.time_ns()


@functools.cache
def stamp() -> bytes | None:
    """Changes with the modules that write texts, as compiled modules do: by their times and sizes.

    None where nobody can say which modules this process runs: they are in no folder, or were
    written to since it began.
    """
    above = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    return stamp_of([os.path.join(above, name) for name in _WRITERS], _IMPORTED_NS)


def stamp_of(folders: list[str], until_ns: int) -> bytes | None:
    """The stamp of what folders hold; None if some of it was put there after a time."""
    try:
        found = sorted(file for folder in folders for file in _files(folder))
    except OSError:
        return None
    if not found or max(changed for _, _, _, changed in found) > until_ns:
        return None
    return blake2b(repr([file[:3] for file in found]).encode(), digest_size=16).digest()


def _files(folder: str) -> Iterator[tuple[str, int, int, int]]:
    """Of each file of a package: its path, size, time of its contents, and time of any change."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            if entry.is_dir():
                yield from _files(entry.path)
            else:
                of = entry.stat()
                yield entry.path, of.st_size, of.st_mtime_ns, max(of.st_mtime_ns, of.st_ctime_ns)
