"""`torch.utils.swap_tensors`: two tensors exchange all that they are but their identity."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any, cast

from maquette.autograd.node import AccumulateGrad, Grad
from maquette.core.errors import check
from maquette.tensor.tensor import Tensor


class _Poisoned(AccumulateGrad):
    """The end of a path that led to a tensor which is another one now."""

    __slots__ = ()

    def apply(self, grads: list[Grad]) -> list[Grad]:
        raise RuntimeError(
            "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor "
            "that it gave gradients to was swapped after it was recorded."
        )


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange values, class, attributes and history of two tensors, wherever they are referred to.

    Raises RuntimeError where weak references to one exist, or the classes have different slots.
    """
    for name, t in (("t1", t1), ("t2", t2)):
        check(
            not weakref.getweakrefs(t) and not _has_fake(t),
            lambda name=name: f"Cannot swap {name} because it has weakref associated with it",
        )
    slots = _slots(t1)
    check(
        set(slots) == set(_slots(t2)),
        lambda: "Cannot swap t1 and t2 if they have different slots",
    )
    for t in (t1, t2):
        _poison(t)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for slot in slots:
        _swap(slot, t1, t2)


def _slots(t: Tensor) -> list[str]:
    """The names of all slots of its class; a function of the standard library lists them."""
    return cast("list[str]", copyreg._slotnames(type(t)))  # type: ignore[attr-defined]  # private


def _has_fake(t: Tensor) -> bool:
    """Whether a mode remembers a fake of it."""
    entry: Any = getattr(t, "_converted", None)
    while entry is not None:
        if entry() is not None:
            return True
        entry = entry.rest
    return False


def _poison(t: Tensor) -> None:
    leaf = t._ag
    node = None if leaf is None or leaf.accumulator is None else leaf.accumulator()
    if node is not None:
        node.__class__ = _Poisoned


_NOTHING = object()


def _swap(slot: str, t1: Any, t2: Any) -> None:
    a, b = getattr(t1, slot, _NOTHING), getattr(t2, slot, _NOTHING)
    for t, value in ((t1, b), (t2, a)):
        if value is not _NOTHING:
            setattr(t, slot, value)
        elif getattr(t, slot, _NOTHING) is not _NOTHING:
            delattr(t, slot)
