"""`torch.profiler.itt`: marks for Intel's profiler, which is not here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


def is_available() -> bool:
    """False."""
    return False


def _absent() -> NoReturn:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg: str) -> NoReturn:
    """RuntimeError."""
    _absent()


def range_pop() -> NoReturn:
    """RuntimeError."""
    _absent()


def mark(msg: str) -> NoReturn:
    """RuntimeError."""
    _absent()


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A marked range; RuntimeError."""
    _absent()
    yield


__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]
