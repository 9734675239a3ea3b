"""How the standard containers come apart, function by function, under PyTorch's private names.

Libraries register their own containers with the functions of a standard one. The functions are read
off the table in `pytree.py`.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from importlib import import_module
from typing import NamedTuple, cast

from maquette.core.pytree import (
    _NAMED_TUPLE,
    _NODES,
    AS_TEXT,
    Context,
    Key,
    NodeDef,
    Tree,
    TreeSpec,
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
    def flatten_with_keys(tree: Tree) -> tuple[list[tuple[Key, Tree]], Context]:
        children, context = node.flatten_fn(tree)
        assert node.keys is not None
        return list(zip(node.keys(tree, context), children)), context

    return _Functions(node.flatten_fn, node.unflatten, flatten_with_keys)


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
_STANDARD = frozenset(_NODES)  # before anybody registers one


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A spec as JSON.

    TypeError for what is no spec and for contexts that are no JSON, NotImplementedError for classes
    registered without a name, ValueError for other protocols.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}; available protocols: [{_PROTOCOL}]")
    return json.dumps([_PROTOCOL, _dumped(treespec)])


def _dumped(spec: TreeSpec) -> dict[str, object]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    return {
        "type": _type_text(spec.type),
        "context": _context_text(spec),
        "children_spec": [_dumped(child) for child in spec.children()],
    }


def _type_text(kind: type) -> str:
    if kind in AS_TEXT:
        return AS_TEXT[kind].name
    if is_namedtuple_class(kind):
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {kind} because we didn't register a "
            f"serializated_type_name. Please register using `_register_namedtuple`."
        )
    if kind not in _STANDARD:
        raise NotImplementedError(
            f"No registered serialization name for {kind} found. Please update your "
            f"_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    return _name_of(kind)


def _context_text(spec: TreeSpec) -> str:
    kind = cast(type, spec.type)
    known = AS_TEXT.get(kind)
    if known is not None and known.to_dumpable_context is not None:
        return json.dumps(known.to_dumpable_context(spec.context), default=_enum_as_json)
    context = None if is_namedtuple_class(kind) else spec.context
    if kind is defaultdict:  # its factory by name
        factory, names = cast("list[list[object]]", context)
        context = [None if factory is None else _name_of(factory), list(names)]
    try:
        return json.dumps(context, default=_enum_as_json)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a "
            "custom serializer using _register_pytree_node."
        ) from error


def _enum_as_json(value: object) -> object:
    if not isinstance(value, Enum):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return {"__enum__": True, "fqn": _name_of(type(value)), "name": value.name}


def _enum_from_json(found: dict[str, object]) -> object:
    if "__enum__" not in found:
        return found
    return cast("type[Enum]", _by_name(str(found["fqn"])))[str(found["name"])]


def _name_of(kind: object) -> str:
    named = cast(type, kind)
    return f"{named.__module__}.{named.__qualname__}"


def treespec_loads(serialized: str) -> TreeSpec:
    """The spec that `treespec_dumps` wrote; ValueError for another protocol."""
    protocol, found = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}; available protocols: [{_PROTOCOL}]")
    return _loaded(found)


def _loaded(found: dict[str, object]) -> TreeSpec:
    if found["type"] is None:
        return TreeSpec(None)
    name = str(found["type"])
    by_name = {known.name: kind for kind, known in AS_TEXT.items()}
    kind = by_name[name] if name in by_name else _by_name(name)
    context = json.loads(str(found["context"]), object_hook=_enum_from_json)
    known = AS_TEXT.get(kind)
    if is_namedtuple_class(kind):
        context = kind
    elif known is not None and known.from_dumpable_context is not None:
        context = known.from_dumpable_context(context)
    elif kind is defaultdict:
        factory = None if context[0] is None else _by_name(context[0])
        context = [factory, context[1]]
    children = cast("list[dict[str, object]]", found["children_spec"])
    return TreeSpec(kind, context, [_loaded(child) for child in children])


def _by_name(name: str) -> type:
    module, _, rest = name.rpartition(".")
    return cast(type, getattr(import_module(module), rest))
