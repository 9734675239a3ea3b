"""`lazy_deprecated_import`: names that moved to another package, handed on with a warning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

_MESSAGE = "The `{}` package has moved to `{}`; please import from there."


def lazy_deprecated_import(
    all: list[str],
    old_module: str,
    new_module: str,
) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that takes the names ``all`` from where they went."""
    said = _MESSAGE.format(old_module, new_module)

    def getattr_dunder(name: str) -> Any:
        if name not in all:
            raise AttributeError(f"module {new_module!r} has no attribute {name!r}")
        warnings.warn(said, stacklevel=2)
        return getattr(importlib.import_module(new_module), name)

    return getattr_dunder
