"""The errors of symbolic shapes (spec F106)."""

from __future__ import annotations


class GuardOnDataDependentSymNode(RuntimeError):
    """A program branched on a value that only data could tell. cond: the question, for SymPy."""

    def __init__(self, cond: object, *args: object) -> None:
        super().__init__(*args)
        self.cond = cond


class ConstraintViolationError(RuntimeError):
    """A size does not keep what was promised of it."""


class PendingUnbackedSymbolNotFound(RuntimeError):
    """An operator made an unbacked symbol that its results do not show."""


class NotEqualError(Exception):
    """Two shape environments do not know the same; the text lists what differs."""


class ShapeEnvGuardError(RuntimeError):
    """A guard was asked for where `error_on_new_guards` forbids new ones."""
