"""Kernels as the dispatcher holds them: what was registered, and how it becomes a callable.

A kernel in a resolved table is called as ``fn(ks, *params)``: the effective key set, then every
schema parameter positionally, defaults filled in. The one idea: what is *registered* is a factory
of that callable, so a kernel can be fitted to the operator and the key set it will serve. Which
kernel serves a key is decided in `resolution.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload

Boxed = Callable[..., object]
"""``fn(ks, *params)``."""
Factory = Callable[["OpOverload", int], "Boxed | None"]
"""Makes the callable for an operator and an effective key set; None: skip this key."""


def caller_place(level: int = 1) -> str:
    """``file:line`` of the nearest frame that is no machinery: a user's, or an operator's page.

    level: 2 is that frame's caller, and so on.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    for _ in range(level - 1):
        frame = frame.f_back or frame
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_machinery(module: str) -> bool:
    return module.startswith(("maquette.dispatch.", "maquette.library", "maquette.torch"))


class Kernel:
    """One registration: a factory of the callable that a table will hold.

    ``only_with_grad`` marks a kernel that has nothing to do unless some argument requires grad in
    grad mode; resolution passes over it otherwise, so that a call without grad pays for no
    autograd. ``python`` is the user's function where there is one; ``speaks_operators`` says that
    it is made of operator calls, which fakes and other namespaces may run; ``of_arrays`` that it
    takes arrays and is never handed a tensor or an object; ``place`` is where it was registered.
    """

    __slots__ = ("factory", "of_arrays", "only_with_grad", "place", "python", "speaks_operators")

    def __init__(
        self,
        factory: Factory,
        *,
        python: Callable[..., object] | None = None,
        only_with_grad: bool = False,
        speaks_operators: bool = False,
        place: str = "",
        of_arrays: bool = False,
    ) -> None:
        self.factory = factory
        self.python = python
        self.only_with_grad = only_with_grad
        self.speaks_operators = speaks_operators
        self.place = place
        self.of_arrays = of_arrays


def fall_through(op: OpOverload, ks: int) -> None:
    """The factory that makes dispatch skip its key."""
    return None


def fallthrough_kernel(*args: object, **kwargs: object) -> object:
    """Register this at a key to make dispatch skip the key for an operator (D52)."""
    raise NotImplementedError(
        "fallthrough_kernel is a marker: register it at a dispatch key, do not call it"
    )
