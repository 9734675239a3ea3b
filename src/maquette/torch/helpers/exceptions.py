"""More of `torch._utils`: errors that travel between threads, class properties, imports."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from maquette.tensor.printing import printoptions


class KeyErrorMessage(str):
    """A text whose repr is itself, so that a KeyError shows its lines."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An error with its traceback as text, to be raised again elsewhere."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kept: tuple[Any, ...] = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kept[0]
        self.exc_msg = "".join(traceback.format_exception(*kept))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an error of the same class that has the traceback in its message."""
        said = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            said = KeyErrorMessage(said)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=said)
        try:
            error = self.exc_type(said)
        except Exception:  # noqa: BLE001  # a class that is made of other arguments
            raise RuntimeError(said) from None
        raise error


class classproperty:  # PyTorch's name
    """A property of a class itself."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.fget = func

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.fget(type(instance) if owner is None else owner)


def cpu_count() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_compiling() -> bool:
    """False."""
    return False


def try_import(module_name: str) -> ModuleType | None:
    """A module, imported; None if it is not there."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError:
        return None


def render_call(fn: Any, args: Any, kwargs: Any) -> str:
    """A call as text, ``torch.add(tensor([...], size=(3,)), 1)``: no elements of tensors."""
    name = importlib.import_module("maquette.torch.overrides").resolve_name(fn) or str(fn)
    with printoptions(threshold=0, edgeitems=0):
        named = [f"{key}={value!r}" for key, value in kwargs.items()]
        return f"{name}({', '.join([*map(repr, args), *named])})"
