"""What compiling raises: one error, before anything runs, that says what to do."""

from __future__ import annotations


class CompileError(RuntimeError):
    """A program that the engine cannot run; the program itself still runs as it stands."""


__all__ = ["CompileError"]
