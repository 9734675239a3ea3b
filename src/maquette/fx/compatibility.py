"""Which public names of this package are promised to stay (`torch.fx._compatibility`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_BACK_COMPAT_OBJECTS: dict[object, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[object, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[T], T]:
    """A decorator that notes whether a function or class is promised to stay as it is."""

    def mark(thing: T) -> T:
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[thing] = None
        _MARKED_WITH_COMPATIBILITY[thing] = None
        return thing

    return mark
