"""Modules of the face that only hand names on: a ``__getattr__`` over the modules that have them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable

Spellings = Callable[[str], Iterable[str]]


def _as_written(name: str) -> Iterable[str]:
    return (name,)


def without_underscores(name: str) -> Iterable[str]:
    """The name, and without what torch puts before private ones: ``_dispatch_``, ``_``."""
    return name, name.removeprefix("_dispatch_"), name.removeprefix("_")


def forward(module: str, *rooms: str, spellings: Spellings = _as_written) -> Callable[[str], object]:
    """A ``__getattr__`` for ``module`` that finds names in ``rooms``, and then keeps them.

    spellings: under which names to look for a name. AttributeError says what is missing.
    """

    def __getattr__(name: str) -> object:
        if not name.startswith("__"):
            for room in rooms:
                for spelling in spellings(name):
                    found = _find(room, spelling)
                    if found is not None:
                        setattr(sys.modules[module], name, found)
                        return found
        path = module.removeprefix("maquette.")
        raise AttributeError(
            f"module '{path}' ({module}) has no attribute '{name}': maquette does not have it, or "
            f"not yet"
        )

    return __getattr__


def _find(room: str, name: str) -> object | None:
    try:
        return getattr(importlib.import_module(room), name, None)
    except ModuleNotFoundError as error:
        if error.name is not None and room.startswith(error.name):
            return None  # the room is not built yet
        raise
