"""The shape of a block's result: nested tuples, lists and dicts of tensors and plain values.

`flat` takes a result apart, `rebuilt` puts one of the same shape together from other tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from maquette.fake.replay.values import BY_IDENTITY, PLAIN, Unreadable, is_module
from maquette.tensor.tensor import Tensor

Call = tuple[Any, Any, Any, Sequence[object]]
"""A call without its tensors: the module, args and kwargs as `stripped`, the modules in these."""


class _Slot(NamedTuple):
    """The place of a tensor, or of a module among arguments (below 0)."""

    number: int


class _Items(NamedTuple):
    """The place of a sequence or mapping: what makes it, its parts."""

    make: Callable[[list[object]], object]
    parts: list[object]


def flat(result: Any, tensors: list[Tensor]) -> Any:
    """The shape of a result, whose tensors are added to ``tensors``; else Unreadable."""

    def leaf(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors.append(value)
            return _Slot(len(tensors) - 1)
        if value.__class__ in PLAIN:
            return value
        raise Unreadable(f"a result of class {type(value).__name__}")

    return _shape(result, leaf)


def _shape(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value with ``leaf`` of what is no container in the places of that."""
    kind = value.__class__
    if kind is tuple or kind is list:
        return _Items(kind, [_shape(item, leaf) for item in value])
    if kind is dict:
        names = list(value)
        parts = [_shape(item, leaf) for item in value.values()]
        return _Items(lambda items: dict(zip(names, items, strict=True)), parts)
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return _Items(kind._make, [_shape(item, leaf) for item in value])
    return leaf(value)


def rebuilt(shape: Any, tensors: Mapping[int, Any] | Sequence[Any]) -> Any:
    """A result of the shape, with other tensors."""
    kind = shape.__class__
    if kind is _Slot:
        return tensors[shape.number]
    if kind is _Items:
        return shape.make([rebuilt(part, tensors) for part in shape.parts])
    return shape


def stripped(value: Any, index: dict[int, int], modules: list[object]) -> Any:
    """A call's argument with the number of each tensor, by identity, in its place.

    Modules are added to ``modules`` and have the numbers -1, -2, ... there. Unreadable for what may
    hold tensors where nobody looks.
    """

    def leaf(value: Any) -> Any:
        if isinstance(value, Tensor):
            return _Slot(index[id(value)])
        if value.__class__ in PLAIN or isinstance(value, BY_IDENTITY):
            return value
        if is_module(value):
            modules.append(value)
            return _Slot(-len(modules))
        raise Unreadable(f"an argument of class {type(value).__name__}")

    return _shape(value, leaf)


def slots(shape: Any) -> list[int]:
    """The numbers of the tensors in a shape."""
    if shape.__class__ is _Slot:
        return [shape.number] if shape.number >= 0 else []
    if shape.__class__ is _Items:
        return [n for part in shape.parts for n in slots(part)]
    return []
