"""`torch.compiler`: nothing is compiled, so every mark on a function leaves it as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.torch.forwarding import forward
from maquette.torch.settings import compile

F = TypeVar("F", bound=Callable[..., object])


def is_compiling() -> bool:
    """False."""
    return False


def is_dynamo_compiling() -> bool:
    """False."""
    return False


def is_exporting() -> bool:
    """False."""
    return False


def disable(fn: F | None = None, recursive: bool = True, *, reason: str | None = None) -> object:
    """``fn`` itself, or a decorator that changes nothing."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: F) -> F:
    """``fn`` itself."""
    return fn


def assume_constant_result(fn: F) -> F:
    """``fn`` itself."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing."""


def reset() -> None:
    """Nothing: there is nothing compiled."""


__all__ = ["compile"]
__getattr__ = forward(__name__)
