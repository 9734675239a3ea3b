"""`torch.jit`: there is no script compiler; what is marked for it stays Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.torch.forwarding import forward

F = TypeVar("F")
Final = object


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def script(obj: F, *args: object, **kwargs: object) -> F:
    """``obj`` itself: Python runs it."""
    return obj


def script_if_tracing(fn: F) -> F:
    """``fn`` itself."""
    return fn


def export(fn: F) -> F:
    """``fn`` itself."""
    return fn


def ignore(drop: F | bool = False, **kwargs: object) -> F | Callable[[F], F]:
    """The function itself; as ``@ignore`` or ``@ignore(drop=True)``."""
    return (lambda fn: fn) if isinstance(drop, bool) else drop


def unused(fn: F) -> F:
    """``fn`` itself."""
    return fn


__getattr__ = forward(__name__)
