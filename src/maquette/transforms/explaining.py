"""Notes on errors: which transform of which function refused, and at what line of the program.

The text of an error stays the operator's; its traceback shows the note below.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_GENERATED = "<maquette "


def function_name(func: Callable[..., object]) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", None) or repr(func)


def note_place(error: Exception, api: str, func: Callable[..., object]) -> None:
    """Note on an error of ours the transform, its function, and the program's line that led to it.

    Errors that the program raised itself, and those that have such a note, stay as they are.
    """
    place: tuple[CodeType, int] | None = None
    ours = False
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        ours = code.co_filename.startswith((_PACKAGE, _GENERATED))
        if not ours:
            place = code, step.tb_lineno
        step = step.tb_next
    if not ours or any(_MARK in note for note in getattr(error, "__notes__", ())):
        return
    text = f"{_MARK}{api}({function_name(func)})"
    if place is not None:
        code, line = place
        text += f", at line {line} of {code.co_filename}, in {code.co_name}"
        source = linecache.getline(code.co_filename, line).strip()
        text += f": {source}" if source else ""
    error.add_note(text)


_MARK = "maquette: inside of "
