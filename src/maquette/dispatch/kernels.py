"""Kernels as the dispatcher holds them: what was registered, for which key, by whom.

A kernel in a resolved table is called as ``fn(ks, *params)``: the effective key set, then every
schema parameter positionally, defaults filled in. What is *registered* is a `Kernel`, which knows
how to build that callable for an operator. Key resolution is in `operator.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload

Boxed = Callable[..., object]
Factory = Callable[["OpOverload", int], "Boxed | None"]


def caller_place() -> str:
    """``file:line`` of the nearest frame outside the package: who registered."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "maquette" in frame.f_globals.get("__name__", ""):
        if not frame.f_globals["__name__"].startswith("maquette"):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Kernel:
    """One registration: a factory of the callable that a table will hold.

    ``only_with_grad`` marks a kernel that has nothing to do unless some argument requires grad in
    grad mode; resolution passes over it otherwise, so that a call without grad pays for no autograd.
    """

    __slots__ = ("factory", "only_with_grad", "place", "python", "speaks_operators")

    def __init__(
        self,
        factory: Factory,
        *,
        python: Callable[..., object] | None = None,
        only_with_grad: bool = False,
        speaks_operators: bool = False,
        place: str = "",
    ) -> None:
        self.factory = factory
        self.python = python
        self.only_with_grad = only_with_grad
        self.speaks_operators = speaks_operators
        self.place = place


def _fall_through(op: OpOverload, ks: int) -> None:
    return None


FALLTHROUGH = Kernel(_fall_through)


def fallthrough_kernel(*args: object, **kwargs: object) -> object:
    """Register this at a key to make dispatch skip the key for an operator (D52)."""
    raise NotImplementedError(
        "fallthrough_kernel is a marker: register it at a dispatch key, do not call it"
    )
