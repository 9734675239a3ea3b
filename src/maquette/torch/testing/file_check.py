"""`torch.testing.FileCheck`: what a text must hold, and in which order.

Checks are noted first and run on a text then; each is looked for after what the one before found.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Span = tuple[int, int]


class FileCheck:
    """Checks on a text, in order: ``FileCheck().check("add").check_not("mul").run(text)``."""

    def __init__(self) -> None:
        self._steps: list[Callable[[_Run], None]] = []
        self._texts: list[str] = []

    def _then(self, step: Callable[[_Run], None]) -> FileCheck:
        self._steps.append(step)
        return self

    def check(self, text: str) -> FileCheck:
        """The text comes, anywhere after what was found before."""
        return self._then(lambda run: run.find(re.escape(text), text))

    def check_regex(self, pattern: str) -> FileCheck:
        """Something that matches comes, anywhere after what was found before."""
        return self._then(lambda run: run.find(pattern, pattern))

    def check_same(self, text: str) -> FileCheck:
        """The text comes on the line of what was found before."""
        return self._then(lambda run: run.find_on_line(text, 0))

    def check_next(self, text: str) -> FileCheck:
        """The text comes on the line after that."""
        return self._then(lambda run: run.find_on_line(text, 1))

    def check_not(self, text: str) -> FileCheck:
        """The text does not come before what the next check finds, or the end."""
        return self._then(lambda run: run.forbidden.append(text))

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes ``count`` times; exactly: and no more."""

        def step(run: _Run) -> None:
            for _ in range(count):
                run.find(re.escape(text), text)
            if exactly:
                run.forbidden.append(text)

        return self._then(step)

    def check_dag(self, text: str) -> FileCheck:
        """The text comes; neighbouring checks of this kind may find theirs in any order."""
        return self._then(lambda run: run.find_in_any_order(text))

    check_source_highlighted = check

    def run(self, text: object) -> None:
        """Raise RuntimeError unless all checks hold of the text, or of what an object prints as."""
        run = _Run(str(text))
        for step in self._steps:
            run.before(step)
            step(run)
        run.end()


class _Run:
    """A text and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.forbidden: list[str] = []
        self.group: Span | None = None  # of neighbouring checks in any order

    def before(self, step: Callable[[_Run], None]) -> None:
        if self.group is not None and "find_in_any_order" not in step.__code__.co_names:
            self.at, self.group = self.group[1], None

    def find(self, pattern: str, shown: str) -> None:
        found = re.compile(pattern, re.MULTILINE).search(self.text, self.at)
        if found is None:
            raise self._error(shown, "was not found")
        self._found(found.span())

    def find_on_line(self, text: str, lines: int) -> None:
        begin, end = self.at, self.text.find("\n", self.at)
        for _ in range(lines):
            begin = len(self.text) if end < 0 else end + 1
            end = self.text.find("\n", begin)
        at = self.text.find(text, begin, len(self.text) if end < 0 else end)
        if at < 0:
            raise self._error(text, "was not found on its line")
        self._found((at, at + len(text)))

    def find_in_any_order(self, text: str) -> None:
        begin, end = self.group or (self.at, self.at)
        at = self.text.find(text, begin)
        if at < 0:
            raise self._error(text, "was not found")
        self.group = begin, max(end, at + len(text))

    def end(self) -> None:
        """Check what must not come to the end of the text."""
        begin = self.at if self.group is None else self.group[1]
        self._refuse(begin, len(self.text))

    def _found(self, span: Span) -> None:
        self._refuse(self.at, span[0])
        self.at = span[1]

    def _refuse(self, begin: int, end: int) -> None:
        for text in self.forbidden:
            if text in self.text[begin:end]:
                raise self._error(text, "was found, and must not be")
        self.forbidden = []

    def _error(self, text: str, what: str) -> RuntimeError:
        return RuntimeError(
            f'Expected to find "{text}" but it {what} after position {self.at} of:\n{self.text}'
            if "not found" in what
            else f'Expected to not find "{text}" but it {what} in:\n{self.text}'
        )
