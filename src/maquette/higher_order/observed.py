"""What a planner is told of loops and branches that run once on tensors without data.

A loop's body runs twice on fakes: the first step, and one that stands for all later ones. An
observer is told how many those are and which storages the loop goes on carrying. Of two branches it
says which one is to be counted. Without an observer nothing of this is paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from maquette.tensor.tensor import Tensor

Step = Callable[[list[Any]], tuple[list[Any], list[Any]]]


class Observer(Protocol):
    """What counts operators and storages of a program on fakes."""

    def later_steps(self, times: int, first: Sequence[int]) -> AbstractContextManager[list[int]]:
        """A block that stands for ``times`` steps of a loop.

        first: the storages that the step before carries on; the block puts into the list those that
        it carries on itself, in the same order.
        """

    def aside(self) -> AbstractContextManager[None]:
        """A block in which nothing is counted."""

    def heavier(self, op: str, roles: Sequence[str], branches: Sequence[Callable[[], Any]]) -> int:
        """Which of some branches to count: the number of the one that costs most."""

    def unknown_count(self, op: str) -> None:
        """A loop's number of steps is not known: one step is counted."""


observers: list[Observer] = []
"""Who is told, the innermost last."""


def stepped(step: Step, state: list[Any], count: int) -> tuple[list[Any], list[list[Any]]]:
    """``state, outs = step(state)``, ``count`` times, for tensors without data.

    Gives the last state, and the outputs of the steps that ran, the last one's last: hold them for
    as long as the loop would hold all of them.
    """
    state, outs = step(state)
    if count < 2 or not observers:
        return state, [outs]
    first = _storages(state)
    with observers[-1].later_steps(count - 1, first) as carried:
        state, later = step(state)
        carried += _storages(state)
    return state, [outs, later]


def _storages(values: Sequence[Any]) -> list[int]:
    return [t._storage.id if isinstance(t, Tensor) else -1 for t in values]


__all__ = ["Observer", "observers", "stepped"]
