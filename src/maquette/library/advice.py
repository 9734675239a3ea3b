"""Checks whose message is one that programs match on, with what else there is to say in a note.

PyTorch's message stands alone in ``str(error)``; what was given, or what to do, is shown below it
in a traceback (`BaseException.add_note`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Message = Callable[[], str]
Error = TypeVar("Error", bound=Exception)


def advised(error: Error, advice: str) -> Error:
    """The error, with ``advice`` as a note."""
    error.add_note(advice)
    return error


def check_advised(
    check: Callable[[bool, Message], None], condition: bool, message: Message, advice: Message
) -> None:
    """``check(condition, message)``, whose error carries ``advice`` as a note.

    check: one of `maquette.core.errors`; it chooses the class of the error.
    """
    try:
        check(condition, message)
    except Exception as error:
        advised(error, advice())
        raise
