"""Lists and dicts that nodes hold as arguments, and that refuse to be changed.

Graphs know who uses whom by the arguments of nodes; an argument changed behind a node's back would
make that knowledge wrong. To change an argument, assign `Node.args` or `Node.kwargs` anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from maquette.core import pytree

_ADVICE = "If you are attempting to modify the kwargs or args of a torch.fx.Node object,\n"
_ADVICE += "instead create a new copy of it and assign the copy to the node:\n"
_ADVICE += "    new_args = ... # copy and mutate args\n    node.args = new_args\n"


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    kind = type(self).__name__
    raise TypeError(f"'{kind}' object does not support mutation. {_ADVICE}")


class immutable_list(list):
    """A list that cannot be changed; equal to a list of the same elements, and hashable."""

    __slots__ = ()
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # lists have none
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type, tuple[tuple[object, ...]]]:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict that cannot be changed; equal to a dict of the same items, and hashable."""

    __slots__ = ()
    clear = pop = popitem = update = setdefault = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # dicts have none
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type, tuple[Iterable[object]]]:
        return type(self), (tuple(self.items()),)


def _as_list(tree: Any) -> tuple[list[Any], None]:
    return list(tree), None


def _as_items(tree: Any) -> tuple[list[Any], list[Any]]:
    return list(tree.values()), list(tree)


def _list_with_keys(tree: Any) -> tuple[list[Any], None]:
    return [(pytree.SequenceKey(i), child) for i, child in enumerate(tree)], None


def _items_with_keys(tree: Any) -> tuple[list[Any], list[Any]]:
    return [(pytree.MappingKey(name), child) for name, child in tree.items()], list(tree)


def _dict_of(children: Any, names: Any) -> immutable_dict:
    return immutable_dict(zip(names, children))


pytree.register_pytree_node(
    immutable_list,
    _as_list,
    lambda children, _: immutable_list(children),
    flatten_with_keys_fn=_list_with_keys,
)
pytree.register_pytree_node(
    immutable_dict, _as_items, _dict_of, flatten_with_keys_fn=_items_with_keys
)
