"""What wrappers over one memory share: the value of its base, and the writes not yet put into it.

A view is known by its steps: the operators that lead from the base to it. A write to a view is kept
as (steps, new value) until somebody looks. Then the new value is carried back through the inverse
of each step and the base has a new value; every wrapper that notices an older generation computes
its value from the base again. Inverses stand on the pages of the views (`OperatorFacts.inverse`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import find_packet
from maquette.tensor.keys import CONJUGATE, NEGATIVE
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

Params = tuple[Any, ...]
Call = Callable[[OpOverload, Params], object]
_new = object.__new__
LAZY = CONJUGATE | NEGATIVE


class ViewStep(NamedTuple):
    """One view operator on the way from a base to a view.

    params: canonical ones without the tensor, which comes first. part: which result of several,
    else -1. seen: the meta of what is viewed, as the program knows it. copies: whether to call the
    operator's ``_copy`` form, which shares nothing.
    """

    op: OpOverload
    params: Params
    part: int
    seen: TensorMeta
    copies: bool

    def forward(self, value: Tensor, call: Call) -> Tensor:
        """The view of a value of what is viewed; ``call`` runs an operator on the level below."""
        return self.pick(self.apply(value, call))

    def apply(self, value: Tensor, call: Call) -> Any:
        """All that the operator gives."""
        op = copy_form(self.op) if self.copies else self.op
        return call(op, (value, *self.placed(value)))

    def pick(self, result: Any) -> Tensor:
        """The part of the operator's result that this step is about."""
        found: Tensor = result if self.part < 0 else result[self.part]
        return found

    def backward(self, value: Tensor, new: Tensor) -> Tensor:
        """``value``, of what is viewed, with ``new`` where the view looks."""
        inverse = self.op.facts.inverse
        if inverse is None:
            raise RuntimeError(
                f"functionalize: {self.op} was used to view a tensor that is then mutated, and its "
                f"page has no inverse that puts the new values back. Register one with "
                f"page.inverse, or mutate a clone()"
            )
        views = copying if self.copies else operators
        found: Tensor = inverse(views, value, new, self.part, *self.placed(value))  # type: ignore[assignment]  # a rule's
        return found

    def placed(self, value: Tensor) -> Params:
        """The parameters, with the place in memory that `as_strided` names found in ``value``."""
        if self.op._opname != "as_strided":
            return self.params
        size, stride, offset = self.params
        start = self.seen.offset if offset is None else offset
        return size, stride, start - self.seen.offset + value.meta.offset


class Update(NamedTuple):
    """A write that the base does not have yet: ``new`` is the value of the view of these steps."""

    steps: tuple[ViewStep, ...]
    new: Tensor


class FunctionalStorage(UntypedStorage):
    """The memory of a program as functionalization sees it: a value, and what was written since."""

    # Class attributes over which instances put their own: most storages have none of these.
    data = None
    foreign = False
    _id = 0
    updates: list[Update] | tuple[()] = ()
    generation = 0
    frozen = False
    lazy = 0  # the conjugate and negative bits of the base, as the program sees it
    mutations = 0
    hidden_mutations = 0

    __slots__ = ("base", "meta")

    base: Tensor
    meta: TensorMeta

    @property
    def device(self) -> device:  # type: ignore[override]  # nobody sets it
        return self.meta.device

    def add(self, steps: tuple[ViewStep, ...], new: Tensor) -> None:
        """Note a write; RuntimeError where the storage is frozen."""
        if self.frozen:
            raise RuntimeError("cannot mutate tensors with frozen storage")
        if steps or self.updates:
            self.updates = [*self.updates, Update(steps, new)]
        else:
            self.base = new  # all of the memory: nothing is left to be done
        self.generation += 1
        self.mutations += 1

    def apply(self, call: Call) -> None:
        """Put every write into the base; called on the level below."""
        for steps, new in self.updates:
            base = laid_out_as(written(self.base, steps, new, call), self.meta)
            copied = bool(steps) and steps[0].copies  # then there are no bits
            self.base = base if copied else with_bits(base, self.lazy)
        self.updates = ()


def storage_of(base: Tensor, meta: TensorMeta) -> FunctionalStorage:
    """The memory of a base; nothing is allocated for it, so no observer hears of it."""
    storage = _new(FunctionalStorage)
    storage._nbytes = meta.storage_bytes if base._storage is None else base._storage._nbytes
    storage.base = base
    storage.meta = meta
    if base._keys & LAZY:
        storage.lazy = base._keys & LAZY
    return storage


def written(base: Tensor, steps: tuple[ViewStep, ...], new: Tensor, call: Call) -> Tensor:
    """The value of a base once ``new`` is the value of its view of these steps."""
    values = [base]
    for step in steps[:-1]:
        values.append(step.forward(values[-1], call))
    for step, value in zip(reversed(steps), reversed(values), strict=True) if steps else ():
        new = step.backward(value, new)
    return new


def seen_from(base: Tensor, steps: tuple[ViewStep, ...], call: Call) -> Tensor:
    """The view of these steps of a base."""
    for step in steps:
        base = step.forward(base, call)
    return base


def copy_form(view: OpOverload) -> OpOverload:
    """The form of a view operator that shares nothing; itself where there is none."""
    known = _COPIES.get(view)
    found = None if known is None else known()
    if found is None or not found.alive:
        found = _find_copy_form(view)
        _COPIES[view] = weakref.ref(found)
    return found


# Weak on both sides: the form may be the operator itself, which would keep itself.
_COPIES: weakref.WeakKeyDictionary[OpOverload, weakref.ref[OpOverload]] = (
    weakref.WeakKeyDictionary()
)


def _find_copy_form(view: OpOverload) -> OpOverload:
    packet = find_packet(view.name().partition(".")[0] + "_copy")
    if packet is None or view._overloadname not in packet._overloads:
        return view
    found: OpOverload = getattr(packet, view._overloadname)
    return found


class _Copying:
    """aten's operators as functions; a view operator is its copying form."""

    def __getattr__(self, name: str) -> Any:  # as the operators' schemas say
        packet = None if name.startswith("__") else find_packet(f"aten::{name}_copy")
        return getattr(operators, name) if packet is None else packet


copying = _Copying()


def with_bits(new: Tensor, lazy: int) -> Tensor:
    """``new`` with these conjugate and negative bits: views of it look for them."""
    if new._keys & LAZY == lazy:
        return new
    made: Tensor = operators.clone(new)
    if lazy & CONJUGATE:
        made = operators._conj(operators._conj_physical(made))
    return operators._neg_view(operators.neg(made)) if lazy & NEGATIVE else made


def laid_out_as(new: Tensor, meta: TensorMeta) -> Tensor:
    """``new`` with the strides of ``meta``, so that views of the memory find what they look for."""
    mine = new.meta
    if mine.strides == meta.strides or mine.shape != meta.shape:
        return new
    if all(s == 1 or a == b for s, a, b in zip(mine.shape, mine.strides, meta.strides)):
        return new
    empty = operators.new_empty_strided(new, meta.shape, meta.strides)
    made: Tensor = operators.copy(empty, new)
    return made
