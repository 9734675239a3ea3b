"""The registry: defining overloads, and the names ``maquette.ops.ns.op`` (spec D82, D88-D93).

What a packet of overloads does is in `packet.py`. The one idea: the registry is a table of packets
by qualified name, and a namespace is a module object that copies out of it what was asked for.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from maquette.core.errors import MissingName
from maquette.dispatch.facts import OperatorFacts
from maquette.dispatch.higher_order import REGISTERED
from maquette.dispatch.operator import LOCK, OperatorHandle, OpOverload, TorchBindOpOverload
from maquette.dispatch.packet import (
    LATE,
    LATE_FORMS,
    PACKETS,
    OpOverloadPacket,
    find_packet,
    load_forms,
    load_late,
)
from maquette.dispatch.schemas.types import names_script_type
from maquette.dispatch.tags import Tag

__all__ = [
    "MISSING_OPERATOR_HINTS",
    "OpNamespace",
    "OpOverloadPacket",
    "Ops",
    "all_overloads",
    "all_py_loaded_overloads",
    "define_overload",
    "find_packet",
    "find_schema_or_throw",
    "ops",
    "remove_overload",
]

MISSING_OPERATOR_HINTS: list[Callable[[str, str], str]] = []
"""Functions of (namespace, name) whose text the error about a missing operator ends with."""


# --- names -----------------------------------------------------------------------------------


class OpNamespace(types.ModuleType):
    """One namespace, ``ops.aten``: binds packets at first use; iteration gives the bound names."""

    _namespace: str
    _bound: list[str]

    def __init__(self, name: str) -> None:
        super().__init__(f"maquette.ops.{name}")
        self._namespace = name
        self._bound = []

    def __getattr__(self, name: str) -> OpOverloadPacket:
        qualified = f"{self._namespace}::{name}"
        # Not under the lock: finding may import modules, and hints are foreign code.
        packet = find_packet(qualified) if _may_name_operator(name) else None
        if packet is None:
            raise MissingName(lambda: _what_is_missing(self._namespace, name))
        with LOCK:
            if name not in self.__dict__ and PACKETS.get(qualified) is packet:
                self._bound.append(name)
                self.__dict__[name] = packet
        return packet

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._bound))

    def __dir__(self) -> list[str]:
        """Every operator that is defined in the namespace, bound or not."""
        load_late(self._namespace)
        beginning = f"{self._namespace}::"
        with LOCK:
            names = [n.removeprefix(beginning) for n in PACKETS if n.startswith(beginning)]
        return sorted({*super().__dir__(), *names})

    def _forget(self, name: str) -> None:
        """Forget a packet that is no more; `LOCK` is held."""
        if self.__dict__.pop(name, None) is not None:
            self._bound.remove(name)


_OF_BITS = {f"__{i}{name}__" for i in ("", "i") for name in "and or xor lshift rshift".split()}


def _may_name_operator(name: str) -> bool:
    """Whether to look for it: what Python asks modules for, such as ``__path__``, is none."""
    return not name.startswith("__") or name in _OF_BITS


def _what_is_missing(namespace: str, name: str) -> str:
    hints = "".join([hint(namespace, name) for hint in MISSING_OPERATOR_HINTS])
    return (
        f"there is no operator '{name}' in the namespace '{namespace}'; "
        f"define it with maquette.library.define('{namespace}::{name}', ...).{hints}"
    )


class HigherOrderNamespace(OpNamespace):
    """``ops.higher_order``: the newest higher-order operator of each name (D91)."""

    def __getattr__(self, name: str) -> Any:  # an operator, of a class of its own
        found = None if name.startswith("__") else REGISTERED.get(name)
        if found is None and not name.startswith("__"):
            load_late(self._namespace)  # the built-in ones
            found = REGISTERED.get(name)
        if found is None:
            raise AttributeError(
                f"'{self._namespace}' has no operator '{name}': no HigherOrderOperator of that "
                f"name has been made"
            )
        if name not in self._bound:
            self._bound.append(name)
        return found

    def __dir__(self) -> list[str]:
        load_late(self._namespace)
        return sorted({*types.ModuleType.__dir__(self), *REGISTERED})


class Ops(types.ModuleType):
    """The root, ``maquette.ops``: an attribute of any name is a namespace."""

    loaded_libraries: set[str]
    stand_ins: dict[str, str]
    """By the end of a path, ``folder/file`` without suffixes, the module imported in its place."""
    _bound: list[str]

    def __init__(self) -> None:
        super().__init__("maquette.ops")
        self.loaded_libraries = set()
        self.stand_ins = {}
        self._bound = []

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__"):
            raise AttributeError(f"maquette.ops has no attribute '{name}'")
        with LOCK:
            namespace = self.__dict__.get(name)
            if not isinstance(namespace, OpNamespace):
                kind = HigherOrderNamespace if name == "higher_order" else OpNamespace
                namespace = self.__dict__[name] = kind(name)
                self._bound.append(name)
        return namespace

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._bound))

    def import_module(self, name: str) -> None:
        """Import a module for the operators that it registers (D92)."""
        importlib.import_module(name)

    def load_library(self, path: str | os.PathLike[str]) -> None:
        """Run a Python file or extension module that registers operators, once (D93).

        Raises OSError with the path, and what went wrong as its cause; a file that failed may be
        tried again. PyTorch loads shared objects of C++ operators here; those that we have written
        in Python (`stand_ins`) are imported in their place.
        """
        resolved = os.path.realpath(path)
        if resolved in self.loaded_libraries:
            return
        folder, file = os.path.split(resolved)
        stand_in = self.stand_ins.get(f"{os.path.basename(folder)}/{file.partition('.')[0]}")
        try:
            if stand_in is not None:
                importlib.import_module(stand_in)
            else:
                _run_file(resolved)
        except Exception as error:
            raise OSError(f"could not load the operator library {resolved}: {error}") from error
        self.loaded_libraries.add(resolved)


def _run_file(path: str) -> None:
    """Import the file as a module that can be found in `sys.modules`, as pickles need it."""
    name = f"maquette_library_{os.path.basename(path).partition('.')[0]}_{abs(hash(path)):x}"
    import importlib.util  # noqa: PLC0415  # when first needed: importing stays quick

    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("expected a Python source file or an extension module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


ops = Ops()
"""``maquette.ops``."""
sys.modules.setdefault("maquette.ops", ops)


# --- definitions -----------------------------------------------------------------------------


def define_overload(
    schema_text: str,
    tags: Iterable[Tag],
    place: str,
    *,
    in_python: bool = False,
    facts: OperatorFacts | None = None,
) -> OpOverload:
    """Add one overload, ``schema_text`` with its namespace; RuntimeError if it exists (L9).

    place: file and line of the definition, for errors. in_python: whether a user's `Library`
    defined it, which ``_defined_in_python`` of the overload tells (D74). facts: those of another
    form of the operator, which it shares; else it has its own.
    """
    qualified = schema_text.partition("(")[0].strip()
    base, _, overload_name = qualified.partition(".")
    if LATE:
        load_late(base.partition("::")[0])  # it may be among those
    with LOCK:
        packet = PACKETS.get(base) or OpOverloadPacket(base)
        existing = packet._overloads.get(overload_name or "default")
        if existing is not None:
            raise RuntimeError(
                f"{qualified} is defined already, at {existing.place}, as "
                f"{existing._schema_text}; no operator is registered multiple times, and the "
                f"second definition is at {place}"
            )
        kind = TorchBindOpOverload if names_script_type(schema_text) else OpOverload
        overload = kind(packet, schema_text, tags, place, facts)
        overload._defined_in_python = in_python
        packet.add(overload)
        PACKETS[base] = packet
    return overload


def remove_overload(overload: OpOverload) -> None:
    """Withdraw an overload; with its last one the packet goes too (D88)."""
    with LOCK:
        packet = overload.overloadpacket
        packet.drop(overload)
        overload.retire()
        if not packet.op_overloads():
            PACKETS.pop(packet._qualified_op_name, None)
            namespace = ops.__dict__.get(packet.namespace)
            if isinstance(namespace, OpNamespace):
                namespace._forget(packet.__name__)


def all_overloads() -> list[OpOverload]:
    """Every defined overload."""
    for namespace in {*LATE, *LATE_FORMS}:
        load_forms(namespace)
    return [o for packet in list(PACKETS.values()) for o in packet.op_overloads()]


def all_py_loaded_overloads() -> Iterator[OpOverload]:
    """Every overload that has been bound as an attribute so far (D82)."""
    for namespace in ops:
        for name in getattr(ops, namespace):
            packet = find_packet(f"{namespace}::{name}")
            if packet is not None:
                yield from [packet._overloads[bound] for bound in packet]


def find_schema_or_throw(name: str, overload: str = "") -> OperatorHandle:
    """The handle of the overload called ``ns::name`` and ``overload`` (D76).

    Raises RuntimeError with the name where it is unknown.
    """
    packet = find_packet(name)
    found = None if packet is None else packet.find(overload)
    if found is None:
        raise RuntimeError(
            f"could not find the schema of {name}.{overload or 'default'}: "
            f"no such operator is defined"
        )
    return OperatorHandle(found)
