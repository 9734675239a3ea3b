"""Errors that a command shows as its one message, and the words for errors of user programs."""

from __future__ import annotations

import os
import traceback

_LIBRARY = os.path.dirname(os.__file__) + os.sep  # Python's own
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class CommandError(Exception):
    """A command cannot do what it was asked; the text is all that the user sees."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program_line(error: BaseException) -> str:
    """``file:line: source`` of the deepest frame of ``error`` that is the user's program."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    for frame in reversed(outside):
        of_python = frame.filename.startswith(_LIBRARY) and _INSTALLED not in frame.filename
        if not frame.filename.startswith("<") and not of_python:
            path = os.path.relpath(frame.filename)
            shown = frame.filename if path.startswith("..") else path
            return f"{shown}:{frame.lineno}: {frame.line or ''}".rstrip(": ")
    return ""


def failure(what: str, error: BaseException, module: str = "") -> CommandError:
    """One message for an error of the user's program: what, where, why."""
    lines = [f"{what}: {type(error).__name__}: {error}"]
    if module:
        lines.append(f"  in module  {module}")
    line = program_line(error)
    if line:
        lines.append(f"  at  {line}")
    return CommandError("\n".join(lines))
