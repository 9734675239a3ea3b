"""How the standard containers come apart, function by function, under PyTorch's private names.

Libraries register their own containers with the functions of a standard one. The functions are read
off the table in `pytree.py`.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NamedTuple, cast

from maquette.core.pytree import (
    _NAMED_TUPLE,
    _NODES,
    Context,
    Key,
    NodeDef,
    Tree,
    TreeSpec,
    _DefaultContext,
    is_namedtuple_class,
)

__all__ = ["SUPPORTED_NODES", "treespec_dumps", "treespec_loads"]

SUPPORTED_NODES = _NODES
"""How the containers of each class that is a node come apart."""


class _Functions(NamedTuple):
    flatten: Callable[[Tree], tuple[list[Tree], Context]]
    unflatten: Callable[[Iterable[Tree], Context], Tree]
    flatten_with_keys: Callable[[Tree], tuple[list[tuple[Key, Tree]], Context]]


def _functions(node: NodeDef) -> _Functions:
    def flatten(tree: Tree) -> tuple[list[Tree], Context]:
        children, context = node.flatten(tree)
        return list(children), context

    def flatten_with_keys(tree: Tree) -> tuple[list[tuple[Key, Tree]], Context]:
        children, context = flatten(tree)
        assert node.keys is not None
        return list(zip(node.keys(tree, context), children)), context

    return _Functions(flatten, node.unflatten, flatten_with_keys)


_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = _functions(_NODES[tuple])
_list_flatten, _list_unflatten, _list_flatten_with_keys = _functions(_NODES[list])
_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = _functions(_NODES[dict])
_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys = _functions(
    _NODES[OrderedDict]
)
_defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys = _functions(
    _NODES[defaultdict]
)
_deque_flatten, _deque_unflatten, _deque_flatten_with_keys = _functions(_NODES[deque])
_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys = _functions(_NAMED_TUPLE)

# --- specs as text --------------------------------------------------------------------

_PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A spec as JSON. TypeError for contexts that are no JSON, ValueError for other protocols."""
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}; there is {_PROTOCOL}")
    return json.dumps([_PROTOCOL, _dumped(treespec)])


def _dumped(spec: TreeSpec) -> dict[str, object]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    named = is_namedtuple_class(spec.type)
    context = None if named else spec.context
    if isinstance(context, tuple):  # a default dictionary's: its factory by name
        factory, names = context
        context = [None if factory is None else _name_of(factory), list(names)]
    return {
        "type": _name_of(spec.type),
        "context": json.dumps(context),
        "children_spec": [_dumped(child) for child in spec.children()],
    }


def _name_of(kind: object) -> str:
    named = cast(type, kind)
    return f"{named.__module__}.{named.__qualname__}"


def treespec_loads(serialized: str) -> TreeSpec:
    """The spec that `treespec_dumps` wrote; ValueError for another protocol."""
    protocol, found = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}; there is {_PROTOCOL}")
    return _loaded(found)


def _loaded(found: dict[str, object]) -> TreeSpec:
    if found["type"] is None:
        return TreeSpec(None)
    kind = _by_name(str(found["type"]))
    context = json.loads(str(found["context"]))
    if is_namedtuple_class(kind):
        context = kind
    elif kind is defaultdict:
        factory = None if context[0] is None else _by_name(context[0])
        context = _DefaultContext(factory, context[1])
    children = cast("list[dict[str, object]]", found["children_spec"])
    return TreeSpec(kind, context, [_loaded(child) for child in children])


def _by_name(name: str) -> type:
    module, _, rest = name.rpartition(".")
    return cast(type, getattr(import_module(module), rest))
