"""Where batching rules are found: on the operator's page, its family's file read when first asked.

A rule is registered with `library.register_vmap` or `page.batching`, and stands on the operator.
The built-in families have theirs in files of their own that only a program with vmap needs, so that
importing maquette does not read them; `LATE_RULES` is how they say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import LATE_RULES
from maquette.dispatch.registry import find_packet

Rule = Callable[..., Any]


class Decomposition:
    """A rule that is a definition by other operators, run on the batched tensors themselves."""

    def __init__(self, function: Rule) -> None:
        self.function = function


class _Pointwise:
    """Says that an operator broadcasts all its tensors, though it is not tagged so."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise NotImplementedError("a marker: it is not called")


POINTWISE = _Pointwise()


def rule_of(op: OpOverload) -> Rule | Decomposition | None:
    """The batching rule of an operator, or None."""
    while LATE_RULES:
        LATE_RULES.pop()()
    facts = op.facts
    if facts.batching is not None and facts.overloads[0] is op:  # whose parameters it takes
        return facts.batching
    found = FAMILIES.get(op.name())
    return None if found is None else found(op)


FAMILIES: dict[str, Callable[[OpOverload], Rule | Decomposition]] = {}
"""By an overload's name, what makes its rule; `family` adds to it."""


def family(names: str, maker: Callable[[OpOverload], Rule | Decomposition]) -> None:
    """Give the aten overloads of these names, ``sum.dim_IntList topk``, a rule each."""
    for name in names.split():
        FAMILIES[f"aten::{name}"] = maker


def rule_for(names: str) -> Callable[[Rule], Rule]:
    """Decorate the batching rule of these overloads."""

    def register(rule: Rule) -> Rule:
        family(names, lambda op: rule)
        return rule

    return register


def decomposition_for(names: str) -> Callable[[Rule], Rule]:
    """Decorate a definition by other operators, of all parameters in order, that serves vmap."""

    def register(function: Rule) -> Rule:
        family(names, lambda op: Decomposition(function))
        return function

    return register


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
