"""The tensor that stands for another in a functionalized program.

It has the meta that the program expects and a value, a tensor of the level below, which nobody
mutates: a write exchanges it. Wrappers that share memory share a `FunctionalStorage`. `owner` says
whose they are: of the key Functionalize, or of one level of the transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard, cast

from maquette.core.meta import TensorMeta
from maquette.core.pytree import tree_map_only
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.tensor.keys import ADINPLACE, CONJUGATE, NEGATIVE
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.storage import (
    LAZY,
    FunctionalStorage,
    ViewStep,
    laid_out_as,
    seen_from,
    storage_of,
    with_bits,
)
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import Wrapper

FUNCTIONALIZE = K.functionality_bits(DispatchKey.Functionalize)
_SHOWN = K.BACKENDS | K.AUTOGRAD | ADINPLACE
_new = object.__new__


class Owner(Protocol):
    """Who functionalizes: what wrappers are its own, and how operators run below it.

    ``copies`` says whether views become copies; ``bits`` are the keys that its wrappers have;
    ``continued`` are owners that wait, whose wrappers it takes for their values.
    """

    number: int
    live: bool
    wrapper_bits: int

    @property
    def continued(self) -> Sequence[object]: ...

    @property
    def copies(self) -> bool: ...

    def beneath(self) -> AbstractContextManager[object]: ...

    def call(self, op: OpOverload, values: Sequence[object]) -> object: ...


class FunctionalWrapper(Wrapper, has_handlers=False):
    """A tensor of a functionalized program; its value changes, and is never mutated."""

    # Class attributes over which instances put their own: most wrappers have few of these.
    _steps: tuple[ViewStep, ...] = ()
    _generation: int = 0
    _lazy: int = 0  # the conjugate and negative bits, which dispatch sees on the value only
    _metadata_changed: bool = False
    _storage_changed: bool = False
    _storage: FunctionalStorage

    __slots__ = ()

    def _alias(self) -> FunctionalWrapper:
        other = view_wrapper(self, self._value, self.meta, _alias_step(self))
        other._vc = self._version_counter()
        return other

    def __repr__(self) -> str:
        return f"_to_functional_tensor({self._value!r})"

    def is_conj(self) -> bool:
        return bool(self._lazy & CONJUGATE)

    def is_neg(self) -> bool:
        return bool(self._lazy & NEGATIVE)

    def owner(self) -> Owner:
        """Who made it."""
        return cast(Owner, self._interpreter)

    def sync(self) -> Tensor:
        """Bring the value up to date with all writes to its memory; gives the value."""
        storage = self._storage
        if self._generation != storage.generation:
            owner = self.owner()
            if storage.updates:
                with owner.beneath():
                    storage.apply(owner.call)
            self._value = seen_from(storage.base, self._steps, owner.call)
            self._generation = storage.generation
        return self._value

    def tolist(self) -> object:
        """The numbers, as nested lists."""
        value = self.sync()
        with self.owner().beneath():
            return value.tolist()

    def replace(self, new: Tensor) -> None:
        """Take another value, in the dtype of this tensor; the memory does not know of it yet."""
        if new.meta.dtype is not self.meta.dtype:
            with self.owner().beneath():
                new = operators._to_copy(new, dtype=self.meta.dtype, layout=self.meta.layout)
        if new.meta.shape != self.meta.shape:  # an out= form has given it another size
            self.meta = new.meta
            if not self._steps:
                self._storage.meta = new.meta
                self._storage._nbytes = max(self._storage._nbytes, new.meta.storage_bytes)
        elif new.meta.strides != self.meta.strides and not self._steps:
            with self.owner().beneath():
                new = laid_out_as(new, self.meta)
        if self._lazy and not self._steps and new._keys & LAZY != self._lazy:
            if not self.owner().copies:
                with self.owner().beneath():
                    new = with_bits(new, self._lazy)
        self._value = new

    def exchange(self, new: Tensor) -> None:
        """Take another value, tell the memory of it, and see what the memory makes of it."""
        if new.meta is not self.meta or self._lazy:
            self.replace(new)
            new = self._value
        storage = self._storage
        storage.add(self._steps, new)
        if storage.base is new:
            self._value = new
            self._generation = storage.generation
        else:
            self.sync()

    def commit(self) -> None:
        """Tell the memory of the value."""
        self._storage.add(self._steps, self._value)


def _alias_step(t: Tensor) -> ViewStep:
    return ViewStep(operators.alias.default, (), -1, t.meta, False)


def _made(
    value: Tensor, meta: TensorMeta, owner: Owner, storage: FunctionalStorage
) -> FunctionalWrapper:
    t = _new(FunctionalWrapper)
    t.meta = meta
    t._keys = value._keys & _SHOWN | owner.wrapper_bits
    t._mq_data = t._vc = t._base = t._ag = None
    t._value = value
    t._interpreter = owner  # type: ignore[assignment]  # the key's owner is no interpreter
    t._storage = storage
    return t


def wrap(value: Tensor, owner: Owner) -> FunctionalWrapper:
    """A wrapper with memory of its own."""
    t = _made(value, value.meta, owner, storage_of(value, value.meta))
    if value._keys & LAZY:
        t._lazy = value._keys & LAZY
    return t


def view_wrapper(
    origin: FunctionalWrapper, value: Tensor, meta: TensorMeta, step: ViewStep
) -> FunctionalWrapper:
    """A wrapper of a view of ``origin``, with its memory."""
    t = _made(value, meta, origin._interpreter, origin._storage)  # type: ignore[arg-type]  # an owner
    # The program's bits, where a value that came by mutation may have none.
    lazy = origin._lazy ^ step.op.facts.turned_bit
    if lazy:
        t._lazy = lazy
    t._steps = steps_with(origin, step)
    t._generation = origin._generation
    return t


def steps_with(origin: FunctionalWrapper, step: ViewStep) -> tuple[ViewStep, ...]:
    """The steps to a view of ``origin``: an `as_strided` sees the memory that it lies in.

    So steps before it that only change geometry are left out.
    """
    steps = origin._steps
    if step.op._opname != "as_strided" or not steps:
        return (*steps, step)
    metas = [*[s.seen for s in steps], step.seen]
    kept = 0
    for i, before in enumerate(steps):
        if metas[i].dtype is not metas[i + 1].dtype or before.op.facts.turned_bit:
            kept = i + 1
    size, stride, offset = step.params
    start = step.seen.offset if offset is None else offset
    return (*steps[:kept], step._replace(params=(size, stride, start), seen=metas[kept]))


def value_of(t: Any, owner: Owner) -> Any:
    """The value of a wrapper of this owner, up to date; anything else itself."""
    if t.__class__ is FunctionalWrapper and t._interpreter is owner:
        return t.sync()
    return t


def each(cls: type, function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with ``function`` of every leaf of a class in its place."""
    return tree_map_only(cls, function, tree)


def is_functional(t: object, owner: Owner) -> TypeGuard[FunctionalWrapper]:
    """Whether a tensor is a wrapper of this owner."""
    return isinstance(t, FunctionalWrapper) and t._interpreter is owner


__all__ = ["FUNCTIONALIZE", "FunctionalWrapper", "Owner", "view_wrapper", "wrap"]
