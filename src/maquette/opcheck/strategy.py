"""The derived inputs as a Hypothesis strategy, for an author's own property tests.

Hypothesis is imported when a strategy is asked for: it is a tool of developers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maquette.opcheck.deriving import Where, derived
from maquette.opcheck.operators import checked
from maquette.opcheck.recipes import Recipe, Sample, sample_of
from maquette.opcheck.shrinking import plainer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def opcheck_strategy(
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    where: Where | None = None,
    seed: int = 0,
) -> SearchStrategy[tuple[tuple[Any, ...], dict[str, Any]]]:
    """A strategy of ``(args, kwargs)`` like a call, for ``@given``; it shrinks to plainer ones.

    Only what the operator takes is drawn, and of that only what ``where(args, kwargs)`` holds for.
    ModuleNotFoundError without Hypothesis.
    """
    from hypothesis import strategies as st  # noqa: PLC0415

    target = checked(op)
    sample = sample_of(target, args, kwargs or {})
    recipes = _simplest_first(sample, seed)

    @st.composite
    def inputs(draw: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        recipe = recipes[draw(st.integers(0, len(recipes) - 1))]
        for _ in range(draw(st.integers(0, 2))):
            options = list(itertools.islice(plainer(sample, recipe), 30))
            if options:
                recipe = options[draw(st.integers(0, len(options) - 1))]
        made, named = sample.build(recipe)
        return tuple(made), named

    def taken(call: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
        if where is not None and not where(*call):
            return False
        from maquette.opcheck.copies import copied_arguments  # noqa: PLC0415

        try:
            with target.on.torch.no_grad():
                copied = copied_arguments(target.on, *call)
                target(*copied[0], **copied[1])
        except Exception:  # noqa: BLE001  # the operator refuses it
            return False
        return True

    return inputs().filter(taken)


def _simplest_first(sample: Sample, seed: int) -> list[Recipe]:
    """Derived inputs in order of size, plain ones first: to those Hypothesis shrinks."""
    found = list(itertools.islice(derived(sample, seed), 400))

    def size(recipe: Recipe) -> tuple[int, ...]:
        tensors = recipe.tensors()
        return (
            sum(len(t.shape) for t in tensors),
            sum(t.numel for t in tensors),
            sum(t.layout != "plain" for t in tensors),
            sum(t.dtype != "float32" for t in tensors),
        )

    return sorted(found, key=size)
