"""How a process group is found: ``env://``, ``tcp://`` and ``file://`` as store, rank and size.

With one process there is nobody to meet: an address is read and checked, and nothing listens at it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from maquette.torch.distributed.stores import FileStore, HashStore, Store

Found = tuple[Store, int, int]


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Found]:
    """The store, the rank and the number of processes of an address; given ones come first.

    Raises RuntimeError for another kind of address, ValueError for what an address lacks.
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if rank != -1:
        given["rank"] = str(rank)
    if world_size != -1:
        given["world_size"] = str(world_size)
    return iter([_SCHEMES[parts.scheme](parts, given)])


def _of_environment(parts: SplitResult, given: dict[str, str]) -> Found:
    def said(name: str, variable: str) -> str:
        value = given.get(name) or os.environ.get(variable)
        if value is None:
            raise _lacking("env", f"environment variable {variable} expected, but not set")
        return value

    rank, size = int(said("rank", "RANK")), int(said("world_size", "WORLD_SIZE"))
    said("", "MASTER_ADDR")
    int(said("", "MASTER_PORT"))
    return HashStore(), rank, size


def _of_tcp(parts: SplitResult, given: dict[str, str]) -> Found:
    if not parts.port:
        raise _lacking("tcp", "port number missing")
    return HashStore(), *_numbers("tcp", given)


def _of_file(parts: SplitResult, given: dict[str, str]) -> Found:
    if not parts.path:
        raise _lacking("file", "path missing")
    rank, size = _numbers("file", given)
    return FileStore(parts.path, size), rank, size


def _numbers(scheme: str, given: dict[str, str]) -> tuple[int, int]:
    for name in ("rank", "world_size"):
        if name not in given:
            what = name.replace("_", " ")
            raise _lacking(scheme, f"{what} parameter missing")
    return int(given["rank"]), int(given["world_size"])


def _lacking(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


_SCHEMES: dict[str, Callable[[SplitResult, dict[str, str]], Found]] = {
    "env": _of_environment,
    "tcp": _of_tcp,
    "file": _of_file,
}
