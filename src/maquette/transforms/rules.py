"""Where batching rules are found: on the operator's page, which says one of four things.

A rule, with `page.batching` or `library.register_vmap`; a form that makes the rule from the schema,
as one serves a whole family (`aten/common/batching_forms.py`); that it broadcasts; or, with
`page.batching_decomposition`, a definition by other operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import find_packet

Rule = Callable[..., Any]


class BatchingForm:
    """Makes the batching rules of a family of operators, each from the operator itself."""

    def __init__(self, make: Callable[[OpOverload], Rule]) -> None:
        self.make = make


class Decomposition:
    """A rule that is a definition by other operators, run on the batched tensors themselves."""

    def __init__(self, function: Rule) -> None:
        self.function = function


class _Broadcasts:
    """Says that an operator broadcasts all its tensors, though it is not tagged so."""


BROADCASTS = _Broadcasts()
Batching = Rule | BatchingForm | Decomposition | _Broadcasts
"""What a page says about vmap."""


def rule_of(op: OpOverload) -> Rule | Decomposition | _Broadcasts | None:
    """The batching rule of an operator, or None."""
    facts = op.facts
    said = facts.batching
    if said is None or facts.overloads[0] is not op:  # whose parameters it takes
        return None
    return said.make(op) if isinstance(said, BatchingForm) else said


class _Operators:
    """aten's operators as functions, by name, found when first used."""

    def __getattr__(self, name: str) -> Any:  # as the operators' schemas say
        packet = None if name.startswith("__") else find_packet(f"aten::{name}")
        if packet is None:
            raise AttributeError(f"there is no operator aten::{name}")
        setattr(self, name, packet)
        return packet


operators = _Operators()
"""``operators.stack(tensors)``: what rules call."""
