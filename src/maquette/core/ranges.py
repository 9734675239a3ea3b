"""Labelled ranges of a program, and who wants to hear of them: profilers.

`record_function` and its operators tell the listeners of their thread, and so does backward of its
nodes; while there are none a label costs a look at an empty list.
"""

from __future__ import annotations

import threading
from typing import Protocol

__all__ = ["BACKWARD", "USER", "RangeListener", "begin_range", "end_range", "listeners"]

BACKWARD, USER = 1, 7
"""Whose a range is, in PyTorch's numbers: a node's of backward, the program's own."""


class RangeListener(Protocol):
    """What hears of ranges: ``begin`` gives a token that ``end`` gets."""

    def begin(self, name: str, args: str | None, scope: int) -> object:
        """A range begins."""

    def end(self, token: object) -> None:
        """The range of a token ends."""


class _Here(threading.local):
    def __init__(self) -> None:
        self.listeners: list[RangeListener] = []


_here = _Here()


def listeners() -> list[RangeListener]:
    """The listeners of this thread; add to it, remove from it."""
    return _here.listeners


def begin_range(
    name: str, args: str | None = None, scope: int = USER
) -> list[tuple[RangeListener, object]]:
    """Tell every listener that a range begins; what `end_range` wants."""
    return [(listener, listener.begin(name, args, scope)) for listener in _here.listeners]


def end_range(begun: list[tuple[RangeListener, object]]) -> None:
    """Tell those that heard of a range's beginning that it ends; once."""
    for listener, token in begun:
        listener.end(token)
    begun.clear()
