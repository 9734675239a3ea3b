"""The forms of an operator, and how a call of one is made a call of its functional twin.

``add_`` and ``add.out`` compute what ``add`` does and differ in where the result goes. Everything
here is read off the schemas, so it holds for a user's operators too: the twin has the same name
without the trailing ``_`` (or followed by ``_functional``) and the same arguments. A page may name
the twin itself, and says why where there is none. `FunctionalCall` is what functionalization, vmap
and opcheck need: it maps parameters to the twin's and the twin's results back.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from maquette.dispatch.schemas.schema import AliasInfo, Argument

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload


class Form(enum.Enum):
    """How an overload gives its results."""

    FUNCTIONAL = "functional"
    VIEW = "view"
    IN_PLACE = "in place"
    OUT = "out"
    MUTABLE = "mutable"  # it mutates arguments and returns other results too


def form_of(op: OpOverload) -> Form:
    """The form of an overload, by its schema and name."""
    arguments = op._schema.arguments
    if not any(a.is_write for a in arguments):
        return Form.VIEW if op.is_view else Form.FUNCTIONAL
    if any(a.is_out for a in arguments):
        return Form.OUT
    return Form.IN_PLACE if op._opname.endswith("_") else Form.MUTABLE


# --- what results are ------------------------------------------------------------------------


class Return(NamedTuple):
    """What one return is: "fresh", or a "view" of an argument, or the "written" argument itself.

    ``source`` is the position of that argument; -1 for fresh results.
    """

    kind: str
    source: int


def returns_of(op: OpOverload) -> list[Return]:
    """What each return of an overload is, by the alias annotations of its schema."""
    arguments = op._schema.arguments
    found: list[Return] = []
    for r in op._schema.returns:
        info = r.alias_info
        if info is None:
            # An alias inside a list return stands on its element.
            found.append(Return("fresh", -1))
            continue
        source = next(
            (i for i, a in enumerate(arguments) if a.alias_info and _overlap(a.alias_info, info)),
            -1,
        )
        found.append(Return("written" if info.is_write else "view", source))
    return found


def _overlap(argument: AliasInfo, result: AliasInfo) -> bool:
    return bool(_sets(argument) & _sets(result)) or "*" in argument.after_set


def _sets(info: AliasInfo) -> set[str]:
    names = set(info.before_set)
    for inner in info.contained:
        if inner is not None:
            names |= _sets(inner)
    return names


# --- the functional twin's schema ---------------------------------------------------------


def functional_text(op: OpOverload, name: str) -> str:
    """The schema text of the functional twin of an in-place or mutable overload.

    name: the twin's, qualified and without overload. Results that are mutated arguments become new
    tensors; arguments that are mutated and not returned follow them as ``<name>_out``.
    """
    schema = op._schema
    arguments = re.sub(r"\([a-z]!\)", "", op._schema_text.partition("(")[2].rpartition("->")[0])
    kinds = returns_of(op)
    returned = {r.source for r in kinds if r.kind == "written"}
    results = [r.type.written for r in schema.returns]
    results += [
        f"{a.type.written} {a.name}_out"
        for i, a in enumerate(schema.arguments)
        if a.is_write and i not in returned
    ]
    overload = "" if op._overloadname == "default" else f".{op._overloadname}"
    listed = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"{name}{overload}({arguments.strip()} -> {listed}"


# --- the functional twin ---------------------------------------------------------------------

_OPTIONS = ("dtype", "layout", "device", "pin_memory")


class FunctionalCall(NamedTuple):
    """How a call of a form that mutates arguments is made a call of its functional twin.

    ``arguments``: for each parameter of the twin the position of the form's, or -1 for an option
    (dtype, layout, device, pin_memory) that the mutated tensor has.
    ``mutated``: positions of the arguments that the form mutates.
    ``values``: for each of those, which of the twin's results is its new value.
    ``returns``: for each of the form's returns, which of the twin's results it is; a return that is
    a mutated argument is that argument itself.
    """

    twin: OpOverload
    arguments: tuple[int, ...]
    mutated: tuple[int, ...]
    values: tuple[int, ...]
    returns: tuple[Return, ...]

    def parameters(self, params: Sequence[object]) -> tuple[object, ...]:
        """The twin's canonical parameters, of the form's."""
        target = params[self.mutated[0]]
        given = self.twin._schema.arguments
        return tuple(
            [
                params[at] if at >= 0 else _option(given[n].name, target)
                for n, at in enumerate(self.arguments)
            ]
        )

    def new_values(self, result: object) -> list[tuple[int, object]]:
        """The position of each mutated argument with its new value, of what the twin gave."""
        results = self.results(result)
        return [(at, results[n]) for at, n in zip(self.mutated, self.values, strict=True)]

    def results(self, result: object) -> tuple[object, ...]:
        """What the twin gave as a tuple, one element for each of its returns."""
        return (result,) if len(self.twin._schema.returns) == 1 else tuple(result)  # type: ignore[arg-type]  # several


def _option(name: str, target: object) -> object:
    return False if name == "pin_memory" else getattr(target, name)


def functional_call(op: OpOverload) -> FunctionalCall | None:
    """How to call the functional twin in place of ``op``; None where there is none.

    Only for forms that mutate arguments: functional overloads and views are their own twins.
    """
    arguments = op._schema.arguments
    mutated = tuple([i for i, a in enumerate(arguments) if a.is_write])
    if not mutated:
        return None
    kept = [i for i, a in enumerate(arguments) if not a.is_out]
    for twin in _candidates(op):
        mapping = _mapping([arguments[i] for i in kept], twin._schema.arguments)
        if mapping is None:
            continue
        values = _values(op, mutated, len(twin._schema.returns))
        if values is not None:
            positions = tuple([kept[i] if i >= 0 else -1 for i in mapping])
            return FunctionalCall(twin, positions, mutated, values, tuple(returns_of(op)))
    return None


def _candidates(op: OpOverload) -> list[OpOverload]:
    """The overloads that may be the twin of ``op``: the one its page names, then by name."""
    if op.functional_link is not None:
        return [op.functional_link]
    from maquette.dispatch.packet import find_packet  # noqa: PLC0415  # it imports operators

    own = [o for o in op.facts.overloads if o is not op]
    name = op.name().partition(".")[0]
    bare = name.removesuffix("_")
    packets = [find_packet(n) for n in dict.fromkeys((bare, f"{bare}_functional"))]
    named = [o for packet in packets if packet is not None for o in packet.op_overloads()]
    found = dict.fromkeys([*own, *named])
    return [o for o in found if not o._schema.is_mutable]


def _mapping(mine: Sequence[Argument], twins: Sequence[Argument]) -> list[int] | None:
    """For each parameter of the twin the position of mine; -1 for options of the result.

    Parameters agree by name and type, or by type alone where all stand in the same order.
    """
    types = [a.type.written for a in mine]
    if types == [a.type.written for a in twins]:
        return list(range(len(mine)))
    position = {a.name: i for i, a in enumerate(mine)}
    found: list[int] = []
    for a in twins:
        at = position.get(a.name, -1)
        if at < 0 and not (a.kwarg_only and a.name in _OPTIONS):
            return None
        if at >= 0 and types[at] != a.type.written:
            return None
        found.append(at)
    return found if len(position) == sum(at >= 0 for at in found) else None


def _values(op: OpOverload, mutated: Sequence[int], count: int) -> tuple[int, ...] | None:
    """Which of the twin's ``count`` results is the new value of each mutated argument.

    The twin returns what the form returns; arguments that are mutated and not returned follow.
    """
    returns = returns_of(op)
    further = len(returns)
    found: list[int] = []
    for at in mutated:
        number = next((n for n, r in enumerate(returns) if r == ("written", at)), -1)
        if number < 0:
            number, further = further, further + 1
        found.append(number)
    return tuple(found) if further == count else None
