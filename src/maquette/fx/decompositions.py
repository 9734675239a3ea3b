"""Operators as programs of other operators, for `make_fx` and whoever rewrites graphs.

A table maps an operator to a function that calls operators. What an operator *is* by others (its
composite kernel) is on its page and needs no rule; the others' are in `aten.decompositions`. Here
are the tables, which programs may add to, and `get_decompositions`, which picks from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from maquette.aten.decompositions import FURTHER, RULES
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import OpOverloadPacket, find_packet
from maquette.dispatch.registry import ops
from maquette.dispatch.tags import Tag

Rule = TypeVar("Rule", bound=Callable[..., Any])
Table = dict[Any, Callable[..., Any]]
Operators = OpOverload | OpOverloadPacket | Sequence[Any]

_TABLES: dict[str, Table] = {"post_autograd": {**RULES, **FURTHER}, "pre_autograd": {}, "meta": {}}
global_decomposition_table = _TABLES
decomposition_table = _TABLES["post_autograd"]
pre_autograd_decomposition_table = _TABLES["pre_autograd"]
meta_table = _TABLES["meta"]


def _overloads(operators: Operators) -> list[Any]:
    if isinstance(operators, OpOverloadPacket):
        return operators.op_overloads()
    if isinstance(operators, list | tuple | set):
        return [o for each in operators for o in _overloads(each)]
    return [operators]


def register_decomposition(
    aten_op: Operators,
    registry: Table | None = None,
    *,
    type: str = "post_autograd",
    unsafe: bool = False,
) -> Callable[[Rule], Rule]:
    """A decorator that makes a function the decomposition of operators; of all their overloads.

    registry: the table, by default the common one of its ``type`` ("post_autograd",
    "pre_autograd" or "meta"). RuntimeError for an operator that has one there.
    """
    if type not in _TABLES:
        raise AssertionError(f"type must be one of {', '.join(_TABLES)}, got {type!r}")

    def register(rule: Rule) -> Rule:
        table = _TABLES[type] if registry is None else registry
        for op in _overloads(aten_op):
            if op in table:
                raise RuntimeError(f"duplicate registrations for {op}")
            table[op] = rule
        return rule

    return register


def get_decompositions(
    aten_ops: Sequence[OpOverload | OpOverloadPacket], type: str = "post_autograd"
) -> Table:
    """The decompositions of these operators (of all overloads of a packet) that there are.

    What has no entry in the table but a composite kernel decomposes by that.
    """
    if type not in _TABLES:
        raise AssertionError(f"type must be one of {', '.join(_TABLES)}, got {type!r}")
    table = _TABLES[type]
    found: Table = {}
    for op in _overloads(list(aten_ops)):
        rule = table.get(op)
        if rule is None and isinstance(op, OpOverload) and op._can_decompose():
            rule = op.decompose
        if rule is not None:
            found[op] = rule
    return found


def remove_decompositions(decompositions: Table, aten_ops: Iterable[Any]) -> None:
    """Take operators out of a table, in place."""
    for op in _overloads(list(aten_ops)):
        decompositions.pop(op, None)


def core_aten_decompositions() -> Table:
    """The decompositions to the core operators of aten, in a table that may be changed.

    It has the rules of `aten.decompositions`, and every operator that its page defines by others
    without mutating or handing on an argument.
    """
    found: Table = {op: rule for op, rule in _TABLES["post_autograd"].items() if op not in FURTHER}
    for name in dir(ops.aten):
        packet = find_packet(f"aten::{name}")
        for op in [] if packet is None else packet.op_overloads():
            if op not in found and op._can_decompose() and _is_functional(op):
                found[op] = op.decompose
    return found


def _is_functional(op: OpOverload) -> bool:
    """Whether results are new: nothing is mutated, viewed or handed on."""
    related = [*op._schema.arguments, *op._schema.returns]
    aliasing = any(a.alias_info is not None for a in related) or op.is_view
    return not aliasing and Tag.maybe_aliasing_or_mutating not in op.tags
