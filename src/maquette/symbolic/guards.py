"""What an environment holds true: guards, runtime assertions, and where they come from.

A guard is a condition that was decided by a hint: what was traced holds only where it is true.
A runtime assertion is one that nobody could decide yet. Turning guards into Python over a program's
inputs is `program/producing.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from maquette.symbolic.expr import Expr
from maquette.symbolic.forms import expr_of, sympy_of, text_of

_HOME = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True)
class SLoc:
    """The line that asked. framework_loc: the innermost line outside this package."""

    framework_loc: object
    maybe_user_loc: str | None = None

    def __str__(self) -> str:
        if self.maybe_user_loc is not None:
            return self.maybe_user_loc
        return f"({self.framework_loc})" if self.framework_loc else ""


@dataclass(frozen=True)
class _Line:
    """A line of a program; its text is made when somebody reads it."""

    filename: str
    lineno: int
    name: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno} in {self.name}"


def user_line() -> SLoc:
    """The innermost line of the calling program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return SLoc(None)
    return SLoc(_Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def _is_ours(filename: str) -> bool:
    return filename.startswith((_HOME, "<maquette"))


class ShapeGuard:
    """A condition that a traced program rests on, with the line that asked."""

    __slots__ = ("_expr", "_form", "size_oblivious", "sloc")

    def __init__(self, expr: Any, sloc: SLoc, size_oblivious: bool = False) -> None:
        self._form = expr if isinstance(expr, Expr) else None
        self._expr = None if isinstance(expr, Expr) else expr
        self.sloc = sloc
        self.size_oblivious = size_oblivious

    @property
    def form(self) -> Expr:
        """The condition."""
        if self._form is None:
            self._form = expr_of(self._expr, lambda name: None)
        return self._form

    @property
    def expr(self) -> Any:
        """The condition, for SymPy."""
        return sympy_of(self.form) if self._expr is None else self._expr

    @property
    def text(self) -> str:
        """The condition as text."""
        return text_of(self.form) if self._expr is None else str(self._expr)

    def __iter__(self) -> Iterator[Any]:
        """The condition, its line, and whether sizes were neither 0 nor 1: PyTorch's tuple."""
        return iter((self.expr, self.sloc, self.size_oblivious))

    def __getitem__(self, position: int) -> Any:
        return tuple(self)[position]

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return (
            f"ShapeGuard(expr={self.text}, sloc={self.sloc!r}, "
            f"size_oblivious={self.size_oblivious})"
        )


class RuntimeAssert:
    """A condition that the program must check when it runs."""

    __slots__ = ("form", "msg", "stack")

    def __init__(self, expr: Expr, msg: str, stack: SLoc) -> None:
        self.form, self.msg, self.stack = expr, msg, stack

    @property
    def expr(self) -> Any:
        """The condition, for SymPy."""
        return sympy_of(self.form)

    def __repr__(self) -> str:
        return f"RuntimeAssert(expr={text_of(self.form)}, msg={self.msg!r})"
