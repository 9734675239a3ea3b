"""The schema type of a Python value, as `torch._C._jit_try_infer_type` is asked for it.

The idea: containers are homogeneous. The types of their members are made one by `_common`, which
knows that None beside T is ``T?``, or else the value has no type, and the answer says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout
from maquette.dispatch.schemas.types import (
    BASE_TYPES,
    SchemaType,
    constructed,
    list_of,
    optional_of,
)
from maquette.nn.base.module import Module
from maquette.symbolic import SymBool, SymFloat, SymInt
from maquette.tensor.streams.generator import Generator
from maquette.tensor.tensor import Tensor

__all__ = ["InferredType", "_jit_try_infer_type"]


class InferredType:
    """The type of a value, or the reason why it has none."""

    def __init__(self, found: SchemaType | str) -> None:
        self._found = found

    def success(self) -> bool:
        """Whether the value has a type."""
        return isinstance(self._found, SchemaType)

    def type(self) -> SchemaType:
        """The type; RuntimeError if there is none."""
        if isinstance(self._found, SchemaType):
            return self._found
        raise RuntimeError(f"the value has no schema type: {self._found}")

    def reason(self) -> str:
        """Why the value has no type; empty if it has one."""
        return self._found if isinstance(self._found, str) else ""


class _NoType(Exception):
    """A value without a type; its words are the reason."""


class _Named(NamedTuple):
    """Values of these classes have the type of that written name."""

    classes: type | tuple[type, ...]
    written: str


# In this order: a bool is an int, too.
_PLAIN: Final = (
    _Named(Tensor, "Tensor"),
    _Named(type(None), "NoneType"),
    _Named(bool, "bool"),
    _Named((int, dtype, layout), "int"),
    _Named((str, bytes), "str"),
    _Named(float, "float"),
    _Named(complex, "complex"),
    _Named(device, "Device"),
    _Named(Generator, "Generator"),
    _Named(SymInt, "SymInt"),
    _Named(SymFloat, "SymFloat"),
    _Named(SymBool, "SymBool"),
)


def _jit_try_infer_type(value: object) -> InferredType:
    """The schema type of a value: ``List[int]`` of ``[1, 2]``; or why it has none."""
    try:
        return InferredType(_type_of(value))
    except _NoType as why:
        return InferredType(str(why))


def _type_of(value: object) -> SchemaType:
    for classes, written in _PLAIN:
        if isinstance(value, classes):
            return BASE_TYPES[written]
    if isinstance(value, tuple):
        return constructed("", tuple(_type_of(member) for member in value))
    if isinstance(value, list):
        return list_of(_one_of(value, "a list's members"))
    if isinstance(value, dict):
        types = _one_of(value, "a dict's keys"), _one_of(value.values(), "a dict's values")
        return constructed("Dict", types)
    if isinstance(value, Module):
        raise _NoType("a module has none; ask for those of its parameters")
    raise _NoType(
        f"got {type(value).__name__}; tensors, numbers, strings, dtypes, devices and generators "
        "have one, and tuples, lists and dicts of them"
    )


def _one_of(values: Iterable[object], what: str) -> SchemaType:
    types = [_type_of(value) for value in values]
    if not types:
        raise _NoType(f"there must be one to tell the type of {what}")
    return functools.reduce(_same(what), types)


def _same(what: str) -> Callable[[SchemaType, SchemaType], SchemaType]:
    def same(first: SchemaType, second: SchemaType) -> SchemaType:
        found = _common(first, second)
        if found is None:
            raise _NoType(f"{what} must be of one type; found {first} and {second}")
        return found

    return same


def _common(first: SchemaType, second: SchemaType) -> SchemaType | None:
    """The type that holds both, where one is None, optional, or a tuple of such."""
    if first == second:
        return first
    if "optional" in (first.kind, second.kind) or "none" in (first.kind, second.kind):
        return _optional(first, second)
    if first.kind == second.kind == "tuple" and len(first.params) == len(second.params):
        members = [_common(*pair) for pair in zip(first.params, second.params, strict=True)]
        known = tuple(member for member in members if member is not None)
        return constructed("", known) if len(known) == len(members) else None
    return None


def _optional(first: SchemaType, second: SchemaType) -> SchemaType | None:
    inner = [t.elem if t.is_optional else t for t in (first, second) if t.kind != "none"]
    found = inner[0] if len(inner) == 1 else _common(*inner)
    return None if found is None else optional_of(found)
