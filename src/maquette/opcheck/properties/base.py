"""What a property is: a name, what it applies to, and a check of one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maquette.opcheck.operators import CheckedOperator
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial


@dataclass
class Problem:
    """What an input showed: expected, got; which of the author's functions, which line."""

    expected: str
    got: str
    part: str = "kernel"
    line: str = ""
    error: BaseException | None = None


class Property:
    """One statement about every input of an operator.

    ``id`` is stable and names it in reports; ``spec`` the requirement; ``hint`` how failing it is
    mended. A property that is ``dear`` sees only the first ``limit`` inputs that suit it. One of
    ``any_class`` sees integers in place of the sample's floats too.
    """

    id = ""
    spec = ""
    hint = ""
    dear = False
    limit = 200
    any_class = False

    def why_not(self, sample: Sample) -> str:
        """Why this does not apply to the operator; "" where it does."""
        return ""

    def suits(self, trial: Trial) -> bool:
        """Whether the input says anything of the property."""
        return trial.accepted

    def rank(self, trial: Trial) -> int:
        """Which of the inputs a dear property sees first: those of the least rank."""
        return 0

    def check(self, trial: Trial) -> Problem | None:
        """What is wrong at one input, or None."""
        return None

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        """What only all inputs together show, with the input to tell it by."""
        return None

    def __repr__(self) -> str:
        return f"<property {self.id}>"


class OfValues(Property):
    """A property of operators whose results have certain values."""

    def why_not(self, sample: Sample) -> str:
        if sample.op.random:
            return "its results are random"
        return "its results have no certain values" if without_values(sample.op) else ""


def without_values(op: CheckedOperator) -> bool:
    """Whether an operator's results have no values that anybody is promised."""
    name = op.name.partition("::")[2]
    return op.builtin and name.startswith(("empty", "new_empty", "resize", "_empty", "_resize"))


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).splitlines() or [""])[0][:300]
