"""`torch.utils._pytree`: trees of containers, and how the standard ones come apart."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from maquette.api.result_classes import _Result
from maquette.core.pytree import (
    AS_TEXT,
    AsText,
    Context,
    GetAttrKey,
    LeafSpec,
    MappingKey,
    SequenceKey,
    TreeSpec,
    broadcast_to_and_flatten,
    deregister_pytree_node,
    is_namedtuple_class,
    is_pytree_class,
    key_get,
    keystr,
    register_pytree_node,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_flatten_with_path,
    tree_iter,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_map_with_path,
    tree_structure,
    tree_unflatten,
)
from maquette.core.pytree_containers import treespec_dumps, treespec_loads
from maquette.torch.face.forwarding import forward

__all__ = [  # PyTorch's, in its order
    "PyTree",
    "Context",
    "FlattenFn",
    "UnflattenFn",
    "DumpableContext",
    "ToDumpableContextFn",
    "FromDumpableContextFn",
    "PyTreeSpec",
    "TreeSpec",
    "LeafSpec",
    "keystr",
    "key_get",
    "register_pytree_node",
    "tree_is_leaf",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_unflatten",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_structure",
    "tree_map",
    "tree_map_with_path",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_all",
    "tree_any",
    "tree_all_only",
    "tree_any_only",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
]

PyTree = DumpableContext = Any
PyTreeSpec = TreeSpec
_LEAF_SPEC = LeafSpec()
KeyEntry = SequenceKey | MappingKey | GetAttrKey
_broadcast_to_and_flatten = broadcast_to_and_flatten
_deregister_pytree_node = deregister_pytree_node
FlattenFunc = UnflattenFunc = FlattenFn = UnflattenFn = Callable[..., Any]
ToDumpableContextFn = FromDumpableContextFn = Callable[..., Any]


def _register_pytree_node(
    cls: type,
    flatten_fn: Callable[..., Any],
    unflatten_fn: Callable[..., Any],
    to_str_fn: Callable[..., Any] | None = None,
    maybe_from_str_fn: Callable[..., Any] | None = None,
    **named: Any,
) -> None:
    """`register_pytree_node` by its old name: it warns, and of a class that is a node already."""
    place = "torch.utils._pytree"
    warnings.warn(
        f"`{place}._register_pytree_node` is deprecated. Please use `{place}.register_pytree_node` "
        "instead.",
        FutureWarning,
        stacklevel=2,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` "
            "and `from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    if is_pytree_class(cls):
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
        deregister_pytree_node(cls)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **named)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a class of named tuples the name by which its specs are written as text."""
    AS_TEXT[cls] = AsText(serialized_type_name, None, None)


class _NamedTuple:
    """What `_get_node_type` gives for every class of named tuples."""


def _get_node_type(tree: object) -> type:
    """The type under which a tree's root is registered; named tuples share one."""
    return _NamedTuple if is_namedtuple_class(type(tree)) else type(tree)


def _is_leaf(tree: object, is_leaf: Callable[[object], bool] | None = None) -> bool:
    """Whether a tree is a leaf."""
    return tree_structure(tree, is_leaf).is_leaf()


tree_is_leaf = _is_leaf


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments of a call."""
    return tree_leaves((args, kwargs))


def map_only(
    type_or_types_or_pred: type | tuple[type, ...] | Callable[[Any], bool], /
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function is called with what is of these types, all else is itself.

    TypeError for what is neither a type, nor a tuple of types, nor a function that says.
    """
    chosen = type_or_types_or_pred
    if isinstance(chosen, type | tuple):
        types = chosen
        pred: Callable[[Any], bool] = lambda value: isinstance(value, types)  # noqa: E731
    elif callable(chosen):
        pred = chosen
    else:
        raise TypeError(
            f"Argument must be a type, a tuple of types, or a callable, got {chosen!r}."
        )

    def decorated(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: function(value) if pred(value) else value

    return decorated


# --- kinds of containers -------------------------------------------------------------


def is_namedtuple(obj: object) -> bool:
    """Whether an object is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq(obj: object) -> bool:
    """Whether an object is a result with named parts, ``torch.return_types``, or their class."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is a result with named parts."""
    return is_structseq_class(type(obj))


def is_structseq_class(cls: object) -> bool:
    """Whether an object is a class of results with named parts."""
    return isinstance(cls, type) and issubclass(cls, _Result)


# --- specs ---------------------------------------------------------------------------


def treespec_leaf() -> TreeSpec:
    """The spec of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The spec of a tuple of trees; ValueError for anything but specs."""
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (),
    /,
    **kwargs: TreeSpec,
) -> TreeSpec:
    """The spec of a dict of trees; ValueError for anything but specs."""
    children = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


class _Star:
    """A leaf of a nesting that is printed."""

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """A nesting as its tree is written, with ``*`` for the leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


pytree_to_str = treespec_dumps
str_to_pytree = treespec_loads


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


_constants: set[type] = set()


def register_constant(cls: type) -> None:
    """Make objects of a class nodes without children: they are part of the structure."""
    register_pytree_node(cls, lambda value: ([], value), lambda _, value: value)
    _constants.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether a class was given to `register_constant`."""
    return cls in _constants


__getattr__ = forward(__name__, "maquette.core.pytree", "maquette.core.pytree_containers")
