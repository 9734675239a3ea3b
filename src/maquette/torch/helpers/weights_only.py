"""`torch._weights_only_unpickler`: the reader of pickles that makes only what is allowed."""

from __future__ import annotations

import pickle
from typing import IO, NoReturn

from maquette.torch.saving.pickles import (
    CarefulReader,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    refused_names,
    safe_globals,
)

Unpickler = CarefulReader
_add_safe_globals = add_safe_globals
_clear_safe_globals = clear_safe_globals
_get_safe_globals = get_safe_globals
_safe_globals = safe_globals


def get_globals_in_pkl(file: IO[bytes]) -> set[str]:
    """The classes and functions that a pickle names and that are not allowed."""
    return set(refused_names(file.read()))


def load(file: IO[bytes], *, encoding: str = "ASCII") -> object:
    """The object of a pickle without storages; UnpicklingError for a name that is not allowed."""

    def no_storages(pid: object) -> NoReturn:
        raise pickle.UnpicklingError(f"a storage, {pid!r}, which torch.load reads")

    return CarefulReader(file, no_storages, encoding).load()


__all__ = ["Unpickler", "get_globals_in_pkl", "load"]
