"""Opaque types: classes of a user's own that operators take, and that graphs do not look into.

An object of a *reference* type has an identity and a state: a trace takes it as an input and lets
fakes see an `OpaqueStandIn` for it (`script_objects.py`). One of a *value* type is a constant: it
is compared, hashed, and written into a graph's code by ``__fx_repr__``. Enums are values.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from maquette.core import pytree
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.schemas.types import register_script_type

C = TypeVar("C", bound=type)


class MemberType(enum.Enum):
    """How a trace treats a member of a reference that may be used: the real one, or traced into."""

    USE_REAL = "use_real"
    INLINED = "inlined"


@dataclass(frozen=True)
class OpaqueInfo:
    """What was registered of a class."""

    class_name: str
    typ: str
    guard_fn: Callable[[Any], list[Any]] | None = None
    members: Mapping[str, MemberType] = field(default_factory=dict)
    hoist: bool = False


_INFOS: weakref.WeakKeyDictionary[type, OpaqueInfo] = weakref.WeakKeyDictionary()


class OpaqueBaseMeta(type):
    """PyTorch's metaclass of reference types; any class will do here."""


class OpaqueBase(metaclass=OpaqueBaseMeta):
    """PyTorch's base of reference types; any class will do here."""


def register_opaque_type(
    cls: C,
    *,
    typ: str,
    guard_fn: Callable[[Any], list[Any]] | None = None,
    members: Mapping[str, MemberType] | None = None,
    hoist: bool = False,
    reconstruct_fn: Callable[..., Any] | None = None,
) -> C:
    """Make ``cls`` and its subclasses a schema type, ``module.Qualname``; returns it.

    typ: "reference", which operators may return too, or "value", a constant with ``__eq__``,
    ``__hash__`` and ``__fx_repr__``. members: what of a reference may be read while it is traced.
    guard_fn (of references), hoist and reconstruct_fn are kept for compilers. ValueError for
    builtins, Tensor and pytree classes, TypeError for parts that are missing or too many,
    AssertionError for another ``typ``. Unlike PyTorch's, it needs no metaclass.
    """
    if typ not in ("reference", "value"):
        raise AssertionError(f"register_opaque_type: typ is 'reference' or 'value', got {typ!r}")
    _check_class(cls)
    if typ == "value":
        _check_value(cls, guard_fn)
    name = f"{cls.__module__}.{cls.__qualname__}".replace("<locals>", "locals")
    _INFOS[cls] = OpaqueInfo(name, typ, guard_fn, dict(members or {}), hoist)
    of_class = weakref.ref(cls)
    register_script_type(name, lambda value: isinstance(value, of_class() or ()))
    return cls


def _check_class(cls: Any) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"register_opaque_type: expected a class, got {cls!r}")
    if cls.__module__ == "builtins" or issubclass(cls, TensorBase):
        raise ValueError(
            f"register_opaque_type: {cls.__name__} cannot be an opaque type; wrap it in a class of "
            f"your own and register that"
        )
    if pytree.is_pytree_class(cls):
        raise ValueError(
            f"register_opaque_type: {cls.__name__} is registered as a pytree, whose parts are "
            f"looked into; an opaque object is a leaf"
        )


def _check_value(cls: type, guard_fn: object) -> None:
    if not issubclass(cls, enum.Enum):
        if cls.__eq__ is object.__eq__:
            raise TypeError(f"the value type {cls.__name__} needs an __eq__: it is guarded by that")
        if not hasattr(cls, "__fx_repr__"):
            raise TypeError(
                f"the value type {cls.__name__} needs an __fx_repr__, which gives code that makes "
                f"the object and a dict of the names in that code"
            )
    if cls.__hash__ is None:
        raise TypeError(f"the value type {cls.__name__} needs a __hash__: it is remembered by that")
    if guard_fn is not None:
        raise TypeError(f"the value type {cls.__name__} takes no guard_fn: __eq__ guards it")


def opaque_info(cls: object) -> OpaqueInfo | None:
    """What was registered of a class, or of the nearest of its bases."""
    if not isinstance(cls, type):
        return None
    return next((_INFOS[c] for c in cls.__mro__ if c in _INFOS), None)


get_opaque_obj_info = opaque_info


def get_opaque_type_name(cls: type) -> str:
    """The schema type of a class; ValueError where it is not registered."""
    info = opaque_info(cls)
    if info is None:
        raise ValueError(f"{cls!r} is no opaque type: register it by register_opaque_type first")
    return info.class_name


def is_opaque_type(cls: type | str) -> bool:
    """Whether a class, or the name of one, is registered."""
    if isinstance(cls, str):
        return any(info.class_name == cls for info in _INFOS.values())
    return opaque_info(cls) is not None


def is_opaque_value_type(cls: type) -> bool:
    """Whether a class is a value type."""
    info = opaque_info(cls)
    return info is not None and info.typ == "value"


def is_opaque_reference_type(cls: type) -> bool:
    """Whether a class is a reference type."""
    info = opaque_info(cls)
    return info is not None and info.typ == "reference"


def is_opaque_value(value: object) -> bool:
    """Whether an object, or what it stands in for, is of an opaque type."""
    return is_opaque_type(value.__class__)


def should_hoist(cls: type) -> bool:
    """Whether objects of a value type are inputs of a compiled graph."""
    info = opaque_info(cls)
    return info is not None and info.hoist


def has_members(cls: type) -> bool:
    """Whether members of a type may be used while it is traced."""
    info = opaque_info(cls)
    return info is not None and bool(info.members)


def get_member_type(cls: type, member_name: str) -> MemberType | None:
    """How a trace treats a member; None where it may not be used."""
    info = opaque_info(cls)
    return None if info is None else info.members.get(member_name)


def get_opaque_obj_repr(obj: object) -> tuple[str, dict[str, Any]]:
    """Code that makes a value, and what its names mean; TypeError for an ``__fx_repr__`` that
    does not give these."""
    if isinstance(obj, enum.Enum):
        cls = type(obj)
        return f"{cls.__name__}.{obj.name}", {cls.__name__: cls}
    found = obj.__fx_repr__()  # type: ignore[attr-defined]  # checked when registered
    if not (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[0], str)
        and isinstance(found[1], dict)
    ):
        raise TypeError(
            f"{type(obj).__name__}.__fx_repr__ must give a pair of code, a str, and a dict of the "
            f"names in it; it gave {found!r}"
        )
    return found


register_opaque_type(enum.Enum, typ="value")
