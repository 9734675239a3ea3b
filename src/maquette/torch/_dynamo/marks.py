"""What programs say to PyTorch's compiler of Python: it is not here, so most of it is nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.tensor.tensor import Tensor

F = TypeVar("F")


def mark_static_address(t: Tensor, guard: bool = True) -> None:
    """Nothing: no graph is captured that would hold an address."""


def graph_break(msg: str = "") -> None:
    """Nothing: there is no graph to break."""


def disallow_in_graph(fn: F) -> F:
    """``fn`` itself."""
    return fn


def forbid_in_graph(fn: F) -> F:
    """``fn`` itself."""
    return fn


def nonstrict_trace(traceable_fn: F) -> F:
    """The function itself."""
    return traceable_fn


def run(fn: F) -> F:
    """``fn`` itself."""
    return fn


def is_dynamo_supported() -> bool:
    """False: Python runs programs."""
    return False


def optimize(backend: object = None, **options: object) -> Callable[[F], F]:
    """A decorator that changes nothing."""
    return lambda fn: fn
