"""Packets, namespaces and the registry of operators: how names become `OpOverload` objects.

`define` adds one overload; ``ops.aten.add.Tensor`` finds it. Resolution of an overload from
arguments (D86) is remembered per classes of the arguments. Operators know nothing of this module
but their packet.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator

from maquette.dispatch.matching import MatchError, bind
from maquette.dispatch.operator import LOCK, OpOverload
from maquette.dispatch.schema import FunctionSchema
from maquette.dispatch.tags import Tag

_PACKETS: dict[str, OpOverloadPacket] = {}
# Functions of (namespace, name) whose text the error about a missing operator ends with.
MISSING_OPERATOR_HINTS: list[Callable[[str, str], str]] = []
_DUNDERS = frozenset(("__name__", "__file__", "__module__", "__doc__", "__wrapped__"))


class OpOverloadPacket:
    """All overloads of one operator: ``ops.aten.add``; calling it picks the overload (D83-D88)."""

    def __init__(self, qualified: str) -> None:
        self._qualified_op_name = qualified
        self.namespace, _, self.__name__ = qualified.partition("::")
        self.__file__ = "maquette.ops"
        self._overloads: dict[str, OpOverload] = {}
        self._bound: list[str] = []
        self._memo: dict[object, OpOverload] = {}

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        overloads = self._overloads
        if len(overloads) == 1:
            for only in overloads.values():
                return only(*args, **kwargs)
        keywords = tuple([(k, _kind(v)) for k, v in kwargs.items()]) if kwargs else ()
        signature = (tuple([_kind(a) for a in args]), keywords)
        chosen = self._memo.get(signature)
        if chosen is None:
            chosen = self.resolve(args, kwargs)
            if len(self._memo) >= 1024:  # bounded: classes are few, but lists of classes are not
                self._memo.clear()
            self._memo[signature] = chosen
        return chosen(*args, **kwargs)

    def resolve(self, args: tuple[object, ...], kwargs: dict[str, object]) -> OpOverload:
        """The first overload, in order of registration, whose schema the arguments fit (D86)."""
        failures: list[str] = []
        for overload in list(self._overloads.values()):
            try:
                bind(overload._schema, args, kwargs, takes_numbers=overload.takes_numbers)
            except MatchError as error:
                failures.append(f"  {overload}: {error}")
                continue
            return overload
        listing = "\n".join(failures)
        raise MatchError(
            f"{self._qualified_op_name}: no overload matched the arguments. Tried:\n{listing}"
        )

    def overloads(self) -> list[str]:
        """Names of all overloads in order of registration; the unnamed one is ``default``."""
        return list(self._overloads)

    def op_overloads(self) -> list[OpOverload]:
        """The overloads themselves."""
        return list(self._overloads.values())

    @property
    def op(self) -> Callable[..., object]:
        return self.__call__

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {o._overload: o._schema for o in self._overloads.values()}

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(
                f"{self}: '{name}' is no overload: names with a leading '__' never are"
            )
        overload = self.__dict__.get("_overloads", {}).get(name)
        if overload is None:
            raise AttributeError(
                f"{self} has no overload '{name}'; it has {', '.join(self.overloads()) or 'none'}"
            )
        self._bound.append(name)
        self.__dict__[name] = overload
        return overload

    def __iter__(self) -> Iterator[str]:
        return iter(self._bound)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __copy__(self) -> OpOverloadPacket:
        return self

    def __deepcopy__(self, memo: object) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return _find_packet, (self._qualified_op_name,)

    def _drop(self, overload: OpOverload) -> None:
        name = overload._overloadname
        self._overloads.pop(name, None)
        self.__dict__.pop(name, None)
        if name in self._bound:
            self._bound.remove(name)
        self._memo.clear()


def _kind(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return (tuple, type(value[0]) if value else None)
    return type(value)


class OpNamespace(types.ModuleType):
    """One namespace, ``ops.aten``: binds packets at first use."""

    def __init__(self, name: str) -> None:
        super().__init__(f"maquette.ops.{name}")
        self.__dict__["_namespace"] = name
        self.__dict__["_bound"] = []

    def __getattr__(self, name: str) -> OpOverloadPacket:
        namespace = self.__dict__["_namespace"]
        packet = _PACKETS.get(f"{namespace}::{name}")
        if packet is None:
            hints = "".join([hint(namespace, name) for hint in MISSING_OPERATOR_HINTS])
            raise AttributeError(
                f"there is no operator '{name}' in the namespace '{namespace}'; "
                f"define it with maquette.library.define('{namespace}::{name}', ...)." + hints
            )
        self.__dict__[name] = packet
        self.__dict__["_bound"].append(name)
        return packet

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_bound"])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__dict__["_bound"]]


class Ops(types.ModuleType):
    """The root, ``maquette.ops``: an attribute of any name is a namespace."""

    def __init__(self) -> None:
        super().__init__("maquette.ops")
        self.__dict__["_bound"] = []

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__"):
            raise AttributeError(f"maquette.ops has no attribute '{name}'")
        with LOCK:
            existing = self.__dict__.get(name)
            if isinstance(existing, OpNamespace):
                return existing
            namespace = OpNamespace(name)
            self.__dict__[name] = namespace
            self.__dict__["_bound"].append(name)
        return namespace

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_bound"])


ops = Ops()
sys.modules.setdefault("maquette.ops", ops)


def define_overload(schema_text: str, tags: Iterable[Tag], place: str) -> OpOverload:
    """Add one overload, ``schema_text`` with its namespace; an error if it exists (L9)."""
    qualified = schema_text.partition("(")[0].strip()
    base, _, overload_name = qualified.partition(".")
    with LOCK:
        packet = _PACKETS.get(base)
        if packet is None:
            packet = _PACKETS[base] = OpOverloadPacket(base)
        existing = packet._overloads.get(overload_name or "default")
        if existing is not None:
            raise RuntimeError(
                f"{qualified} is defined already, at {existing.place}, as "
                f"{existing._schema_text}; the second definition is at {place}"
            )
        overload = OpOverload(packet, schema_text, tags, place)
        packet._overloads[overload_name or "default"] = overload
        packet._memo.clear()
    return overload


def remove_overload(overload: OpOverload) -> None:
    """Withdraw an overload; with its last one the packet goes too (D88)."""
    with LOCK:
        packet = overload.overloadpacket
        packet._drop(overload)
        overload.retire()
        if not packet._overloads:
            _PACKETS.pop(packet._qualified_op_name, None)
            namespace = ops.__dict__.get(packet.namespace)
            if namespace is not None and packet.__name__ in namespace.__dict__:
                del namespace.__dict__[packet.__name__]
                namespace.__dict__["_bound"].remove(packet.__name__)


def find_packet(qualified: str) -> OpOverloadPacket | None:
    """The packet called ``ns::name``, if any overload of it is defined."""
    return _PACKETS.get(qualified)


def all_overloads() -> list[OpOverload]:
    """Every defined overload."""
    return [o for packet in list(_PACKETS.values()) for o in packet.op_overloads()]


def _find_packet(qualified: str) -> object:
    namespace, _, name = qualified.partition("::")
    return getattr(getattr(ops, namespace), name)
