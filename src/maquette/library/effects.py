"""Effects of operators: what an operator does beside its results, which keeps its calls in order.

An operator with a script object among its arguments has the effect ORDERED unless somebody says
otherwise here. Tracers thread a token through the calls of one effect
(`maquette.higher_order.effects`).
"""

from __future__ import annotations

import enum
import re

from maquette.dispatch.base import OperatorBase
from maquette.dispatch.higher_order import REGISTERED
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import find_packet


class EffectType(enum.Enum):
    """The kinds of effects."""

    ORDERED = "Ordered"


_EFFECTS: dict[str, EffectType | None] = {}
_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.[A-Za-z_]\w*)?|[A-Za-z_]\w*")


class EffectHandle:
    """What `register_effectful_op` gives; ``destroy()`` restores what was said before."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._known = key in _EFFECTS
        self._before = _EFFECTS.get(key)

    def destroy(self) -> None:
        """Have the operator its former effect again."""
        if self._known:
            _EFFECTS[self._key] = self._before
        else:
            _EFFECTS.pop(self._key, None)


def register_effectful_op(op: OperatorBase | str, effect: EffectType | None) -> EffectHandle:
    """Say which effect an operator has; None for none.

    op: an overload, its name ``ns::op.overload``, or a higher-order operator. ValueError for what
    is no name of an operator.
    """
    key = _key_of(op)
    handle = EffectHandle(key)
    _EFFECTS[key] = effect
    return handle


def get_effect(op: OperatorBase | str) -> EffectType | None:
    """The effect of an operator; None for none, and for a name that nothing has.

    ValueError for what is no name of an operator.
    """
    key = _key_of(op)
    if key in _EFFECTS:
        return _EFFECTS[key]
    found = op if isinstance(op, OperatorBase) else _operator(key)
    return EffectType.ORDERED if isinstance(found, OpOverload) and takes_objects(found) else None


def is_impure(op: OperatorBase, *, random: bool = True) -> bool:
    """Whether an operator does more than compute its results: writes, has an effect, or draws.

    One without results is called for nothing else (PyTorch names a few and drops the others).
    random: whether drawing seeded random numbers counts.
    """
    if isinstance(op, OpOverload):
        if op._schema.is_mutable or not op._schema.returns or op.facts.side_effect:
            return True
        if get_effect(op) is not None:
            return True
    return random and bool(getattr(op, "_nondeterministic_seeded", False))


def takes_objects(op: OpOverload) -> bool:
    """Whether an overload has a script object, an optional one or a list of them as argument.

    Objects of opaque types are no script objects.
    """
    return any(a.type.base.written.startswith("__torch__.") for a in op._schema.arguments)


def _key_of(op: object) -> str:
    if isinstance(op, OperatorBase):
        return op.name().removesuffix(".default")
    if isinstance(op, str) and _NAME.fullmatch(op):
        return op.removesuffix(".default")
    raise ValueError(f"expected an operator, or its name as 'namespace::name.overload', got {op!r}")


def _operator(key: str) -> object:
    if "::" not in key:
        return REGISTERED.get(key)
    name, _, overload = key.partition(".")
    packet = find_packet(name)
    if packet is None or (overload or "default") not in packet._overloads:
        return None
    return getattr(packet, overload or "default")


__all__ = [
    "EffectHandle",
    "EffectType",
    "get_effect",
    "is_impure",
    "register_effectful_op",
    "takes_objects",
]
