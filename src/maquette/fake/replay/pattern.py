"""Patterns: whether a call reads to a key that is known, found without reading it.

To read a call is to find out what it depends on (`values.py`). Of a call that is like one that was
read it is known where its tensors, modules and plain values stand, so it is enough to look there:
8 us in the place of 32 for a layer of Llama (CPython 3.11). A call that fits a pattern has the key
and the facts of the call that the pattern was made of; one that does not may have them all the
same, and is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.fake.replay.values import BY_IDENTITY, PLAIN, Reader, is_module, treatment
from maquette.fake.tensor import FakeTensor

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

_SEQUENCES = (tuple, list, Size)
_MODULE = attrgetter("_mq_attributes")
_OBJECT = attrgetter("__dict__")
_Place = tuple[int, int]
"""Which of the things that were opened, and which of its values."""


class _Step(NamedTuple):
    """Something to open: what stands at a place, and what its values must be like.

    opener: gives an object's attributes, None of a container. names: of attributes or items, None
    of a sequence. types: of the values. take, expected: those that must be equal. ordered: the
    values that are dicts whose order counts, and their names.
    """

    up: int
    at: int
    opener: Callable[[Any], dict[str, Any]] | None
    names: list[str] | None
    types: list[type]
    take: Callable[[list[Any]], object] | None
    expected: object
    ordered: list[tuple[int, list[str]]]


class _Fact(NamedTuple):
    """What must be true of a tensor: meta, keys, whether it is no view, whether it is a leaf."""

    meta: TensorMeta
    keys: int
    whole: bool
    leaf: bool


class Pattern:
    """What calls look like that are read alike. It holds no tensors and no modules."""

    __slots__ = (
        "_again", "_facts", "_forwards", "_hooks", "_modules", "_places", "_same_object",
        "_same_storage", "_steps", "_storages",
    )  # fmt: skip

    def __init__(self, made: _Making, tensors: Sequence[FakeTensor]) -> None:
        self._steps = made.steps
        self._places = made.places
        self._again = made.again
        self._same_object = made.same_object
        self._modules = made.modules
        self._hooks = made.hooks
        self._forwards = list(made.forwards.items())
        self._facts = [
            _Fact(t.meta, t._keys, t._base is None, t._ag is None or t._ag.grad_fn is None)
            for t in tensors
        ]
        storages = [id(t._storage) for t in tensors]
        first = [storages.index(s) for s in storages]
        self._storages = len(set(storages))
        self._same_storage = [(i, n) for i, n in enumerate(first) if i != n]

    def fit(
        self, mode: FakeTensorMode, module: object, args: object, kwargs: object
    ) -> tuple[list[FakeTensor], list[object]] | None:
        """The tensors of a call, as a reader lists them, and the modules among its arguments.

        None if the call does not fit.
        """
        held: list[list[Any]] = [[args, kwargs, module]]
        objects: list[object] = []
        for up, at, opener, names, types, take, expected, ordered in self._steps:
            value = held[up][at]
            if names is None:
                values = [*value]
            else:
                if opener is not None:
                    objects.append(value)
                    value = opener(value)
                if [*value] != names:
                    return None
                values = [*value.values()]
            if [*map(type, values)] != types or (take is not None and take(values) != expected):
                return None
            for i, order in ordered:
                if [*values[i]] != order:
                    return None
            held.append(values)
        for up, at in self._hooks:
            if held[up][at].ids:
                return None
        for kind, forward in self._forwards:
            if getattr(kind, "forward", None) is not forward:
                return None
        if len({*map(id, objects)}) != len(objects):
            return None
        for up, at, number in self._same_object:
            if held[up][at] is not objects[number]:
                return None
        tensors: list[FakeTensor] = [held[up][at] for up, at in self._places]
        if not self._are_alike(tensors, mode):
            return None
        for up, at, number in self._again:
            if held[up][at] is not tensors[number]:
                return None
        return tensors, [held[up][at] for up, at in self._modules]

    def _are_alike(self, tensors: list[FakeTensor], mode: FakeTensorMode) -> bool:
        for t, (meta, keys, whole, leaf) in zip(tensors, self._facts):
            ag = t._ag
            if (
                t.meta is not meta
                or t._keys != keys
                or (t._base is None) is not whole
                or (ag is None or ag.grad_fn is None) is not leaf
                or t.fake_mode is not mode  # that its value is not known is in its keys
            ):
                return False
        if len({id(t._storage) for t in tensors}) != self._storages:
            return False
        for i, n in self._same_storage:  # so that they are other tensors where storages differ
            if tensors[i]._storage is not tensors[n]._storage:
                return False
        return not self._same_storage or len({*map(id, tensors)}) == len(tensors)


def pattern_of(
    reader: Reader, module: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> Pattern | None:
    """The pattern of a call that ``reader`` has read; None where only reading tells enough."""
    made = _Making()
    try:
        made.values_of(0, [args, kwargs, module])
    except _Unknown:
        return None
    if [id(t) for t in made.tensors] != [id(t) for t in reader.tensors]:
        return None
    return Pattern(made, reader.tensors)


class _Unknown(Exception):
    """A value that patterns do not describe."""


class _Making:
    """A pattern while it is made: goes through values in the order of `Reader`."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.tensors: dict[FakeTensor, int] = {}
        self.places: list[_Place] = []
        self.again: list[tuple[int, int, int]] = []
        self.objects: dict[int, int] = {}
        self.same_object: list[tuple[int, int, int]] = []
        self.modules: list[_Place] = []
        self.hooks: list[_Place] = []
        self.forwards: dict[type, object] = {}

    def values_of(self, up: int, values: Sequence[object]) -> None:
        """Note the roots: the arguments and the module."""
        args, kwargs, module = values
        self._open(up, 0, args, of_call=True)
        self._open(up, 1, kwargs, of_call=True)
        self._value(up, 2, module, of_call=False)

    def _value(self, up: int, at: int, value: Any, *, of_call: bool) -> None:
        """Note what is no plain value. of_call: whether it is an argument, or an item of one."""
        kind = value.__class__
        if kind is FakeTensor:
            number = self.tensors.get(value)
            if number is not None:
                self.again.append((up, at, number))
                return
            self.tensors[value] = len(self.tensors)
            self.places.append((up, at))
        elif kind in _SEQUENCES or kind is dict:
            self._open(up, at, value, of_call=of_call)
        elif isinstance(value, (tuple, dict, functools.partial, MethodType)):
            raise _Unknown
        else:
            if of_call:
                self.modules.append((up, at))
            number = self.objects.get(id(value))
            if number is not None:
                self.same_object.append((up, at, number))
            else:
                self._open(up, at, value, of_call=False)

    def _open(self, up: int, at: int, value: Any, *, of_call: bool) -> None:
        kind = value.__class__
        names: list[str] | None = None
        opener: Callable[[Any], dict[str, Any]] | None = None
        if kind in _SEQUENCES:
            values = [*value]
        else:
            if kind is not dict:
                self.objects[id(value)] = len(self.objects)
                self.forwards[kind] = getattr(kind, "forward", None)
                opener = _MODULE if is_module(value) else _OBJECT
                value = opener(value)
            names, values = [*value], [*value.values()]
        if any(type(v) is not v.__class__ for v in values):
            raise _Unknown
        if names is not None and any(type(name) is not str for name in names):
            raise _Unknown
        number = len(self.steps) + 1
        fixed, ordered, rest = self._sorted(number, None if opener is None else names, values)
        take = itemgetter(*fixed) if fixed else None
        expected = None if take is None else take([_kept(v) for v in values])
        types = [*map(type, values)]
        self.steps.append(_Step(up, at, opener, names, types, take, expected, ordered))
        for i in rest:
            self._value(number, i, values[i], of_call=of_call)

    def _sorted(
        self, number: int, names: list[str] | None, values: list[Any]
    ) -> tuple[list[int], list[tuple[int, list[str]]], list[int]]:
        """The places of what must be equal, what must have its order, and the rest as it is read.

        names: of an object's attributes, None for the items of a container.
        """
        fixed: list[int] = []
        ordered: list[tuple[int, list[str]]] = []
        rest: dict[str, list[int]] = {"tensors": [], "objects": [], "others": []}
        for i, value in enumerate(values):
            how = "others" if names is None else treatment(names[i], value)
            if how == "tables":
                fixed.append(i)
                if len(value) > 1:
                    ordered.append((i, [*value]))
            elif names is not None and names[i] == "_mq_hooks" and how == "others":
                self.hooks.append((number, i))
            elif value.__class__ in PLAIN or isinstance(value, BY_IDENTITY):
                fixed.append(i)
            else:
                rest[how].append(i)
        return fixed, ordered, [*rest["tensors"], *rest["objects"], *rest["others"]]


def _kept(value: object) -> object:
    """A value as it is now: a table of names is a dict, to which names may be added."""
    return dict(value) if value.__class__ is dict else value
