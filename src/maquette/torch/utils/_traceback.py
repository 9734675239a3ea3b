"""`torch.utils._traceback`: where a program is, kept without its frames' values, shown later."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import TypeAlias

_Place: TypeAlias = tuple[str, int, str]  # file, line, function


class CapturedTraceback:
    """The calls that were under way when it was taken: files and lines, read when it is shown."""

    __slots__ = ("_places",)

    def __init__(self, places: Sequence[_Place]) -> None:
        self._places = tuple(places)

    @staticmethod
    def extract(*, script: bool = False, cpp: bool = False, skip: int = 0) -> CapturedTraceback:
        """The calls of this thread, without the ``skip`` innermost ones.

        script, cpp: kept for programs that pass them; there are only Python's frames.
        """
        frame = sys._getframe(1 + skip)
        walked = traceback.walk_stack(frame)
        places = [(f.f_code.co_filename, line, f.f_code.co_name) for f, line in walked]
        return CapturedTraceback(places[::-1])

    def summary(self) -> traceback.StackSummary:
        """As `traceback` has it, the outermost call first."""
        frames = [traceback.FrameSummary(*place) for place in self._places]
        return traceback.StackSummary.from_list(frames)

    def format(self) -> list[str]:
        """A text for each call."""
        return traceback.format_list(self.summary())

    @staticmethod
    def format_all(tbs: Sequence[CapturedTraceback]) -> list[list[str]]:
        """The texts of several."""
        return [tb.format() for tb in tbs]


def format_traceback_short(tb: TracebackType | None) -> str:
    """The innermost place of a traceback: ``file:line in function``."""
    *_, (frame, line) = traceback.walk_tb(tb)
    return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
