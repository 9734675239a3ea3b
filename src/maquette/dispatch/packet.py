"""Packets: all overloads of one name, and the choice among them (spec D83-D88).

Adding and removing overloads, and the names ``maquette.ops.ns.op``, are in `registry.py`. The one
idea: which overload a call means is found by matching them in order of registration, and remembered
by the classes of the arguments (`choosing`); where a remembered one does not fit after all, the
matching is done again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from maquette.core.remembered import epoch, forget, remember
from maquette.dispatch.operator import LOCK, OpOverload, failed_to_bind
from maquette.dispatch.schemas.choosing import classes_of, decided_by_classes, refined
from maquette.dispatch.schemas.matching import MatchError, bind
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.dispatch.torch_function import Overridden, is_overridden, offered

# An overload, and the positional and keyword arguments to call it with.
_Match = tuple[OpOverload, tuple[object, ...], dict[str, object]]

PACKETS: dict[str, OpOverloadPacket] = {}
"""Every packet, by its name ``ns::name``; `LOCK` is held to change it."""


class OpOverloadPacket:
    """All overloads of one operator: ``ops.aten.add``; calling it picks the overload.

    There is one object per name: copies and pickles give it back.
    """

    __slots__ = ("__dict__", "__weakref__", "by_class")

    def __init__(self, qualified: str) -> None:
        self._qualified_op_name = qualified
        self.namespace, _, self.__name__ = qualified.partition("::")
        self.__qualname__ = qualified
        self.__module__ = f"maquette.ops.{self.namespace}"
        self.__file__ = "maquette.ops"
        self._overloads: dict[str, OpOverload] = {}
        self._bound: list[str] = []
        # The overload that a call with arguments of these classes means, or None where values
        # decide too: then `_by_value` has it.
        self.by_class: dict[object, OpOverload | None] = {}
        self._by_value: dict[object, OpOverload] = {}

    # --- calling ---------------------------------------------------------------------

    def __call__(self, /, *args: object, **kwargs: object) -> Any:  # as the schema says
        try:
            chosen = self.by_class[classes_of(args, kwargs) if kwargs else tuple(map(type, args))]
        except KeyError:
            chosen = None
        try:
            if chosen is None:
                chosen, args, kwargs = self._chosen(args, kwargs)
                return chosen(*args, **kwargs)
            return chosen.public_call(*args, **kwargs) if kwargs else chosen.public_call(*args)
        except Overridden:
            actual = None  # errors of handlers are not to name this one
        except MatchError:
            actual = self.resolve(args, kwargs)
            if actual is chosen or chosen is None:
                raise  # it comes from a call further in
        except TypeError as error:
            if not failed_to_bind(error):
                raise
            actual = self.resolve(args, kwargs)
        return offered(self, args, kwargs) if actual is None else actual(*args, **kwargs)

    def call_as_public(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Choose and call for a public function: raises `Overridden` as an overload's does."""
        chosen = self.by_class.get(classes_of(args, kwargs))
        if chosen is None:
            chosen, args, kwargs = self._chosen(args, kwargs)
            return chosen.call_as_public(args, kwargs)
        try:
            return chosen.call_as_public(args, kwargs)
        except MatchError:
            actual = self.resolve(args, kwargs)
            if actual is chosen:
                raise
        return actual.call_as_public(args, kwargs)

    def _chosen(self, args: tuple[object, ...], kwargs: dict[str, object]) -> _Match:
        """What a call means, found by matching and remembered.

        Raises `Overridden` where handlers are to be asked, whether or not the arguments match.
        """
        if is_overridden(args, kwargs):
            raise Overridden
        by_value = refined(args, kwargs)
        known = self._by_value.get(by_value)
        return self._choose(by_value, args, kwargs) if known is None else (known, args, kwargs)

    def _choose(
        self, by_value: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> _Match:
        """`_match`, its overload remembered."""
        since = epoch()
        # Not under the lock: reading a number from a tensor runs an operator.
        match = self._match(args, kwargs)
        chosen = match[0]
        overloads = self.op_overloads()  # with those that a search in vain has loaded
        if chosen not in overloads:  # withdrawn by another thread meanwhile: its call says so
            return match
        decided = decided_by_classes(overloads[: overloads.index(chosen)], args, kwargs)
        classes = classes_of(args, kwargs)
        remember(self.by_class, classes, chosen if decided else None, since)
        if not decided:
            remember(self._by_value, by_value, chosen, since)
        return match

    def resolve(self, args: tuple[object, ...], kwargs: dict[str, object]) -> OpOverload:
        """The first overload, in order of registration, whose schema the arguments fit (D86).

        Raises RuntimeError with the error of every overload where none fits (D87).
        """
        return self._match(args, kwargs)[0]

    def _match(self, args: tuple[object, ...], kwargs: dict[str, object]) -> _Match:
        """`resolve`, and the arguments as they matched: numbers in tensors are read once."""
        failures: list[str] = []
        for overload in self.op_overloads():
            try:
                params = bind(overload._schema, args, kwargs, takes_numbers=overload.takes_numbers)
            except MatchError as error:
                failures.append(f"  {overload}: {error}")
                continue
            if not kwargs:
                return overload, params[: len(args)], kwargs
            by_name = {a.name: p for a, p in zip(overload._schema.arguments, params, strict=False)}
            return overload, params[: len(args)], {name: by_name[name] for name in kwargs}
        if load_forms(self.namespace):
            return self._match(args, kwargs)
        if not failures:
            raise RuntimeError(
                f"{self._qualified_op_name}: every library that defined an overload of it has been "
                f"destroyed; look the operator up again in maquette.ops"
            )
        listing = "\n".join(failures)
        raise MatchError(
            f"{self._qualified_op_name}: no overload matched the arguments. Tried:\n{listing}"
        )

    @property
    def op(self) -> Callable[..., object]:
        """The underlying callable."""
        return self.__call__

    # --- overloads -------------------------------------------------------------------

    def overloads(self) -> list[str]:
        """Names of all overloads in order of registration; the unnamed one is ``default``."""
        load_forms(self.namespace)
        return list(self._overloads)

    def usual_overloads(self) -> list[OpOverload]:
        """Those that a function over the operator takes arguments as: all but the seldom ones."""
        return [o for o in self._overloads.values() if not o.seldom]

    def seldom_overloads(self) -> list[OpOverload]:
        """The others: a program that names one looks them up."""
        load_forms(self.namespace)
        return [o for o in self._overloads.values() if o.seldom]

    def find(self, overload: str) -> OpOverload | None:
        """The overload of this name, ``""`` or ``default`` for the unnamed one; None without."""
        name = overload or "default"
        if name not in self._overloads:
            load_forms(self.namespace)
        return self._overloads.get(name)

    def op_overloads(self) -> list[OpOverload]:
        """The overloads themselves."""
        return list(self._overloads.values())

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {o._overload: o._schema for o in self.op_overloads()}

    def add(self, overload: OpOverload) -> None:
        """Take in a new overload; `LOCK` is held."""
        self._overloads[overload._overloadname] = overload
        forget(self.by_class, self._by_value)

    def drop(self, overload: OpOverload) -> None:
        """Give up an overload; `LOCK` is held."""
        name = overload._overloadname
        self._overloads.pop(name, None)
        self.__dict__.pop(name, None)
        if name in self._bound:
            self._bound.remove(name)
        forget(self.by_class, self._by_value)

    def __getattr__(self, name: str) -> Any:  # an overload, or what functions have
        if name.startswith("__"):
            return self._dunder(name)
        if name not in self.__dict__.get("_overloads", ()) and "namespace" in self.__dict__:
            load_forms(self.namespace)  # which may have more overloads of this name
        with LOCK:
            overload = self.__dict__.get("_overloads", {}).get(name)
            if overload is None:
                known = ", ".join(self.__dict__.get("_overloads", ())) or "none"
                raise AttributeError(f"{self} has no overload '{name}'; it has {known}")
            if name not in self.__dict__:
                self._bound.append(name)
                self.__dict__[name] = overload
        return overload

    def _dunder(self, name: str) -> object:
        """Some attribute of a Python function; the registry is not asked."""
        try:
            return getattr(OpOverloadPacket.__call__, name)
        except AttributeError:
            raise AttributeError(
                f"{self} has no attribute '{name}', and a name with a leading '__' is never "
                f"that of an overload"
            ) from None

    def __iter__(self) -> Iterator[str]:
        """The names of the overloads bound so far."""
        return iter(list(self._bound))

    # --- identity --------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __copy__(self) -> OpOverloadPacket:
        return self

    def __deepcopy__(self, memo: object) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return _known_packet, (self._qualified_op_name,)


def find_packet(qualified: str) -> OpOverloadPacket | None:
    """The packet called ``ns::name``, if any overload of it is defined."""
    found = PACKETS.get(qualified)
    if found is None and LATE:
        load_late(qualified.partition("::")[0])
        found = PACKETS.get(qualified)
    return found


LATE_FORMS: dict[str, Callable[[], object]] = {}
"""By namespace, what defines the forms of its operators that few programs call.

It runs once, when an overload is asked for that is not there, or where all are listed.
"""
LATE: dict[str, Callable[[], bool]] = {}
"""By namespace, what defines the rest of its operators, once one is asked for that is not there.

Several threads may run it at once; it returns whether all those operators are defined by then.
"""
_loading: set[tuple[int, str]] = set()  # by thread: what is loaded may ask for operators itself


def load_late(namespace: str) -> None:
    """Have all operators of a namespace defined; `LOCK` is not held.

    Defining imports modules, so the locks of imports are taken here, and `LOCK` after them. A lock
    of our own around that would be taken before and after those of imports.
    """
    load, running = LATE.get(namespace), (threading.get_ident(), namespace)
    if load is None or running in _loading:
        return
    _loading.add(running)
    try:
        if load():
            LATE.pop(namespace, None)
    finally:
        _loading.discard(running)


def load_forms(namespace: str) -> bool:
    """`load_late`, and the forms that few programs call; whether they have just been defined."""
    load_late(namespace)
    load, running = LATE_FORMS.get(namespace), (threading.get_ident(), f"forms of {namespace}")
    if load is None or running in _loading or namespace in LATE:
        return False
    _loading.add(running)
    try:
        load()
        LATE_FORMS.pop(namespace, None)
    finally:
        _loading.discard(running)
    return True


def _known_packet(qualified: str) -> OpOverloadPacket:
    packet = find_packet(qualified)
    if packet is None:
        raise AttributeError(f"no operator {qualified} is defined in this process")
    return packet
