"""What authors of operators put in their own tests: every property as a test of its own.

@pytest.mark.parametrize("check", opchecks(my_op, [(torch.ones(2, 3),)]))
def test_my_op(check):
    check()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maquette.opcheck.deriving import Where
from maquette.opcheck.operators import CheckedOperator, checked
from maquette.opcheck.running import Limits, chosen, examine
from maquette.opcheck.samples import Call, as_call, samples_of
from maquette.opcheck.utilities import UTILITIES, quietly

__all__ = ["OpCheck", "opchecks"]


class OpCheck:
    """One property, or one of PyTorch's utilities, of an operator at one sample; call it to check.

    AssertionError with the smallest input that shows a failure; under pytest, a property that says
    nothing of the operator is skipped.
    """

    def __init__(self, op: CheckedOperator, name: str, number: int, call: Call, more: Any) -> None:
        self.op = op
        self.name = name
        self.number = number
        self.call = call
        self._more = more

    @property
    def __name__(self) -> str:  # pytest's id of a parameter
        number = f"-{self.number}" if self.number else ""
        return f"{self.op.name}-{self.name}{number}"

    def __repr__(self) -> str:
        return f"<opcheck {self.__name__}>"

    def __call__(self) -> None:
        args, kwargs = self.call
        if self.name in UTILITIES:
            with quietly():
                UTILITIES[self.name](self.op, args, kwargs)
            return
        where, limits = self._more
        report = examine(self.op, args, kwargs, properties=[self.name], where=where, limits=limits)
        if not report.ok:
            raise AssertionError(str(report))
        if report.skipped:
            _skip(report.skipped[self.name])


def _skip(why: str) -> None:
    import sys  # noqa: PLC0415

    pytest = sys.modules.get("pytest")
    if pytest is not None:
        pytest.skip(why)


def opchecks(
    op: Any,
    samples: Iterable[Any] | None = None,
    *,
    properties: str | Sequence[str] = "ALL",
    test_utils: Sequence[str] = (),
    where: Where | None = None,
    seed: int = 0,
    max_inputs: int = 100,
    deadline: float = 2.0,
) -> list[OpCheck]:
    """One check per sample and property, for ``@pytest.mark.parametrize``.

    op: as for `opcheck`. samples: calls, each a tuple of arguments or a pair of a tuple and a
    dict; by default those registered, or made from the schema. test_utils: PyTorch's utilities to
    run too. The others as for `opcheck`.
    """
    target = checked(op)
    calls = samples_of(target) if samples is None else [as_call(s) for s in samples]
    limits = Limits(max_inputs, deadline, seed)
    names = [*test_utils, *[p.id for p in chosen(properties)]]
    return [
        OpCheck(target, name, number, call, (where, limits))
        for number, call in enumerate(calls)
        for name in names
    ]
