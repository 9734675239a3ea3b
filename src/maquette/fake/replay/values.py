"""What a module's call depends on, read into a key: two calls with equal keys do the same.

A key names code by identity, plain values by class and value, tensors by meta, key set, leafness
and which others share their storage; modules and objects by what their attributes hold. It holds no
tensor. What cannot be read (`Unreadable`) is not replayed.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.size import Size
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import OpOverloadPacket
from maquette.fake.tensor import FakeTensor
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode

PLAIN = frozenset(
    (int, float, complex, bool, str, bytes, type(None), device, dtype, layout, memory_format, range)
)
BY_IDENTITY = (
    FunctionType, BuiltinFunctionType, type, ModuleType, OpOverload, OpOverloadPacket, enum.Enum,
    type(Ellipsis), type(NotImplemented),
)  # fmt: skip
_MOST = 2_000
"""Values in one key: a block whose attributes lead further knows the whole model."""


Places = dict[int, list[tuple[dict[str, Any], str]]]


class Unreadable(Exception):
    """A call depends on something that no key can name; says what kind of thing."""


class Reader:
    """Reads values into ``key``; ``tensors`` has the tensors it met, each once, in order.

    ``facts`` has what a call sees of these beside their metas: keys, what they share, histories.
    ``objects`` has the attributes of each module and object that it met, in order.
    places: if given, gets the attributes and name of each tensor of an object, by its number.
    """

    __slots__ = (
        "_mode", "_places", "_seen", "_storages", "facts", "index", "key", "objects", "tensors",
    )  # fmt: skip

    def __init__(self, mode: FakeTensorMode, places: Places | None = None) -> None:
        self._places = places
        self.key: list[object] = []
        self.facts: list[object] = []
        self.tensors: list[FakeTensor] = []
        self.objects: list[dict[str, Any]] = []
        self.index: dict[int, int] = {}  # in `tensors`, by identity
        self._mode = mode
        self._seen: dict[int, int] = {}
        self._storages: dict[int, int] = {}

    def read(self, value: object) -> None:
        """Add a value to the key; Unreadable where it has no place there."""
        kind = value.__class__
        if kind in PLAIN:
            self.key += (kind, value)
        elif kind is FakeTensor:
            self._tensor(value)  # type: ignore[arg-type]  # by its class
        elif kind in _READERS:
            _READERS[kind](self, value)
        else:
            self._other(value)

    def _tensor(self, t: FakeTensor) -> None:
        index = self.index
        number = index.get(id(t))
        if number is not None:
            self.key += (Tensor, number)
            return
        if t.fake_mode is not self._mode:
            raise Unreadable("a tensor of another mode")
        if t.constant is not None:
            raise Unreadable("a known value")
        tensors, storages, ag = self.tensors, self._storages, t._ag
        index[id(t)] = len(tensors)
        tensors.append(t)
        self.key.append(t.meta)
        self.facts += (
            t._keys,
            storages.setdefault(id(t._storage), len(storages)),
            t._base is None,
            ag is None or ag.grad_fn is None,
        )

    def _items(self, values: Any) -> None:
        self.key += (values.__class__, len(values))
        for value in values:
            self.read(value)

    def _mapping(self, values: Any) -> None:
        self.key += (values.__class__, len(values))
        for name, value in values.items():
            self.read(name)
            self.read(value)

    def _partial(self, value: Any) -> None:
        self.key.append(value.__class__)
        for part in (value.func, value.args, value.keywords):
            self.read(part)

    def _method(self, value: Any) -> None:
        self.key.append(value.__func__)
        self.read(value.__self__)

    def _other(self, value: object) -> None:
        """A module, or any object that its attributes tell all of."""
        if isinstance(value, BY_IDENTITY):
            self.key.append(value)
        elif isinstance(value, tuple):
            self._items(value)
        else:
            if isinstance(value, dict):
                self._mapping(value)
            self._object(value)

    def _object(self, value: object) -> None:
        number = self._seen.get(id(value))
        key = self.key
        if number is not None:
            key += (object, number)
            return
        self._seen[id(value)] = len(self._seen)
        kind = value.__class__
        attributes = _attributes(value)
        self.objects.append(attributes)
        values = list(attributes.values())
        names = (kind, *attributes, *map(type, values))
        layout = _LAYOUTS.get(names) or _new_layout(kind, names, values)
        if layout.hooks is not None and values[layout.hooks].ids:
            raise Unreadable("hooks")
        key += layout.plain(values)
        key += (layout, getattr(kind, "forward", None))
        for i in layout.tables:
            key += values[i]
        for i in layout.tensors:
            self._tensor(values[i])
            if self._places is not None:
                place = (attributes, list(attributes)[i])
                self._places.setdefault(self.index[id(values[i])], []).append(place)
        for i in layout.objects:
            self._object(values[i])
        for i in layout.others:
            self.read(values[i])
        if len(key) > _MOST:
            raise Unreadable("too many values")


def is_module(value: object) -> bool:
    """Whether it is a module, which has its attributes by a name of their own."""
    return hasattr(value.__class__, "_mq_attributes")


def _attributes(value: object) -> dict[str, Any]:
    try:
        return value._mq_attributes if is_module(value) else value.__dict__  # type: ignore[attr-defined]  # a module's own
    except AttributeError:
        raise Unreadable(f"an object of class {type(value).__name__}") from None


class _Layout:
    """Where the attributes of a module or object are, by what is done with them.

    One object for each class, names and classes of attributes: in a key it stands for these.
    """

    __slots__ = ("hooks", "objects", "others", "plain", "tables", "tensors")

    def __init__(self, names: list[str], values: list[object]) -> None:
        kinds = ("plain", "tables", "tensors", "objects", "others")
        by_kind: dict[str, list[int]] = {kind: [] for kind in kinds}
        for i, value in enumerate(values):
            by_kind[treatment(names[i], value)].append(i)
        self.hooks = (
            names.index("_mq_hooks") if by_kind["others"] and "_mq_hooks" in names else None
        )
        self.plain = _getter(by_kind["plain"])
        self.tables, self.tensors = by_kind["tables"], by_kind["tensors"]
        self.objects = by_kind["objects"]
        self.others = [i for i in by_kind["others"] if i != self.hooks]


def treatment(name: str, value: object) -> str:
    """How an attribute is read: as plain value, table of names, tensor, module or by its parts."""
    if value.__class__ in PLAIN:
        return "plain"
    if name in _TABLES:
        return "tables"
    if value.__class__ is FakeTensor:
        return "tensors"
    return "objects" if is_module(value) else "others"


def _getter(places: list[int]) -> Callable[[list[object]], tuple[object, ...]]:
    if len(places) == 1:
        only = places[0]
        return lambda values: (values[only],)
    return itemgetter(*places) if places else lambda values: ()


def _new_layout(kind: type, names: tuple[object, ...], values: list[object]) -> _Layout:
    attributes = cast("list[str]", list(names[1 : len(values) + 1]))
    if issubclass(kind, Tensor) or _hides(kind):
        raise Unreadable(f"an object of class {kind.__name__}")
    if "parametrizations" in attributes:
        raise Unreadable("parametrizations")
    if len(_LAYOUTS) >= _MOST:
        _LAYOUTS.clear()
    made = _LAYOUTS[names] = _Layout(attributes, values)
    return made


_LAYOUTS: dict[tuple[object, ...], _Layout] = {}
_TABLES = ("_mq_parameter_names", "_mq_buffer_names", "_mq_module_names")


def _hides(kind: type) -> bool:
    """Whether objects of a class hold more than their attributes: slots, or what C keeps."""
    for base in kind.__mro__[:-1]:
        if vars(base).get("__slots__") or (base.__flags__ & _HEAP_TYPE == 0 and base is not dict):
            return True
    return False


_HEAP_TYPE = 1 << 9  # classes that are made by running Python
_READERS: dict[type, Callable[[Reader, Any], None]] = {
    tuple: Reader._items,
    list: Reader._items,
    Size: Reader._items,
    dict: Reader._mapping,
    functools.partial: Reader._partial,
    MethodType: Reader._method,
}
