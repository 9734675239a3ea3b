"""What a planner is told of loops and branches that run once on tensors without data.

A loop's body runs three times on fakes: the first step, one that stands for all in the middle, and
the last, which backward treats otherwise. An observer is told how many steps the middle one stands
for and which storages the loop goes on carrying. Of two branches it says which one is counted.
Without an observer the body runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from maquette.autograd.function import Function
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

Step = Callable[[list[Any], int], tuple[list[Any], list[Any]]]
"""A step of a loop: of the state and of which of the steps that run this is, from 0 on."""


class Observer(Protocol):
    """What counts operators and storages of a program on fakes."""

    def middle_steps(self, times: int, first: Sequence[int]) -> AbstractContextManager[list[int]]:
        """A block that stands for ``times`` steps of a loop.

        first: the storages that the step before carries on; the block puts into the list those that
        it carries on itself, in the same order.
        """

    def stands_for(self, storage: int, times: int) -> None:
        """A storage that the middle steps' backward made is there for each of them."""

    def aside(self) -> AbstractContextManager[None]:
        """A block in which nothing is counted."""

    def heavier(self, op: str, roles: Sequence[str], branches: Sequence[Callable[[], Any]]) -> int:
        """Which of some branches to count: the number of the one that costs most."""

    def unknown_count(self, op: str) -> None:
        """A loop's number of steps is not known: one step is counted."""


observers: list[Observer] = []
"""Who is told, the innermost last."""


def stepped(step: Step, state: list[Any], count: int) -> tuple[list[Any], list[list[Any]]]:
    """``state, outs = step(state, number)``, ``count`` times, for tensors without data.

    Gives the last state, and the outputs of the steps that ran, the last one's last: hold them for
    as long as the loop would hold all of them.
    """
    state, outs = step(state, 0)
    held = [outs]
    if count < 2 or not observers:
        return state, held
    if count > 2:
        first = _storages(state)
        with observers[-1].middle_steps(count - 2, first) as carried:
            state, outs = step(state, 1)
            carried += _storages(state)
        held.append(outs)
    state, outs = step(state, len(held))
    return state, [*held, outs]


def rows_of(x: Tensor, count: int) -> Sequence[Tensor]:
    """The slices along the first dimension for the steps that `stepped` runs."""
    if not observers:
        return [operators.select(x, 0, 0)]
    if count <= 3:  # each step runs
        return operators.unbind(x, 0)
    return cast("tuple[Tensor, ...]", _Rows.apply(x, (0, 1, count - 1)))


def stacked(held: Sequence[Tensor], count: int) -> Tensor:
    """The outputs of all steps along a new first dimension, of those of the steps that ran."""
    if not observers:
        return _all_alike(held[-1], count)
    if count <= 3:
        return operators.stack(list(held))
    return cast(Tensor, _Stacked.apply(count, *held))


def _all_alike(row: Tensor, count: int) -> Tensor:
    return operators.expand(row, [count, *row.shape]).contiguous()


class _Rows(Function):
    """Some slices along the first dimension that stand for all: the gradient is theirs, stacked.

    A custom function, as slices taken one by one would each have a gradient as large as the whole.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, at: tuple[int, ...]) -> tuple[Tensor, ...]:  # type: ignore[override]
        return tuple([operators.select(x.detach(), 0, i) for i in at])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.count, ctx.at = inputs[0].shape[0], inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        if observers:
            observers[-1].stands_for(grads[1]._storage.id, ctx.count - 2)
        return stacked(grads, ctx.count), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, at: None) -> Any:  # type: ignore[override]
        return rows_of(tangent, ctx.count)


class _Stacked(Function):
    """The outputs of all steps, of some that stand for all: each gets the gradient of its slice."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *rows: Tensor) -> Tensor:  # type: ignore[override]
        return _all_alike(rows[-1], count)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.count = inputs[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return None, *rows_of(grad, ctx.count)

    @staticmethod
    def jvp(ctx: Any, count: None, *tangents: Tensor) -> Tensor:  # type: ignore[override]
        return stacked(tangents, ctx.count)


def _storages(values: Sequence[Any]) -> list[int]:
    return [t._storage.id if isinstance(t, Tensor) else -1 for t in values]


__all__ = ["Observer", "observers", "rows_of", "stacked", "stepped"]
