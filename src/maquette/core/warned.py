"""Warnings to the program that made a call: they name its line, not one of ours.

Python shows a warning once for each line it names. `warn_once` is for what a program does many
times over: it warns once in a process, unless `torch.set_warn_always` is on.
"""

from __future__ import annotations

import os
import sys
import warnings

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Always:
    """Whether warnings are given each time."""

    on = False


_given: set[str] = set()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _ours(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _ours(filename: str) -> bool:
    return filename.startswith((_HERE, "<maquette "))


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """`warn`, the first time in this process."""
    if message not in _given or Always.on:
        _given.add(message)
        warn(message, category)


__all__ = ["Always", "warn", "warn_once"]
