"""`torch.utils._pytree`: trees of containers, and how the standard ones come apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from maquette.core.pytree import (
    is_namedtuple_class,
    register_pytree_node,
    tree_structure,
)
from maquette.torch.face.forwarding import forward

PyTree = Any
FlattenFunc = UnflattenFunc = ToDumpableContextFn = FromDumpableContextFn = Callable[..., Any]
_register_pytree_node = register_pytree_node


class _NamedTuple:
    """What `_get_node_type` gives for every class of named tuples."""


def _get_node_type(tree: object) -> type:
    """The type under which a tree's root is registered; named tuples share one."""
    return _NamedTuple if is_namedtuple_class(type(tree)) else type(tree)


def _is_leaf(tree: object, is_leaf: Callable[[object], bool] | None = None) -> bool:
    """Whether a tree is a leaf."""
    return tree_structure(tree, is_leaf).is_leaf()


tree_is_leaf = _is_leaf


def register_dataclass(
    cls: type,
    *,
    field_names: Sequence[str] | None = None,
    drop_field_names: Sequence[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a node, its fields children; the fields left out take their defaults."""
    fields: Any = dataclasses.fields(cls)
    dropped = set(drop_field_names or ())
    names = [f.name for f in fields if f.init and f.name not in dropped]
    names = [name for name in names if name in (field_names or names)]

    def flatten(value: Any) -> tuple[list[Any], list[str]]:
        there = [name for name in names if getattr(value, name) is not None]
        return [getattr(value, name) for name in there], there

    def unflatten(children: Any, context: Any) -> Any:
        absent = dict.fromkeys(name for name in names if name not in context)
        return cls(**dict(zip(context, children, strict=True)), **absent)

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name)


def register_constant(cls: type) -> None:
    """Make objects of a class nodes without children: they are part of the structure."""
    register_pytree_node(cls, lambda value: ([], value), lambda _, value: value)


__getattr__ = forward(__name__, "maquette.core.pytree", "maquette.core.pytree_containers")
