"""What a small crafted pickle may ask for without end: hashes, elements and text of little space.

A pair of a pair of a pair, each twice the one before, is a few bytes in a file; its hash and its
text take as long as 2 to the number of pairs, in C code that nothing interrupts. An expanded tensor
is one element with any number of them to go through.
"""

from __future__ import annotations

import pickle
import reprlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any

from maquette.core.size import Size
from maquette.torch.saving._utils import _rebuild_from_type_v2

# A text of all that a small file nests would have no end.
short_text = reprlib.Repr().repr

# Parts of a key, counted as often as they are met: more than any checkpoint's key has.
_MOST_PARTS = 1000
_CONTAINERS = (set, frozenset, list, dict, OrderedDict, Counter, defaultdict, Size)
_PLAIN = (list, tuple, dict, set, frozenset)


def check_keys(keys: Iterable[object]) -> None:
    """UnpicklingError for a key of so many parts that its hash would have no end."""
    for key in keys:
        if not isinstance(key, tuple | frozenset):
            continue
        left, waiting = _MOST_PARTS, [key]
        while waiting:
            parts = waiting.pop()
            left -= len(parts)
            if left < 0:
                raise pickle.UnpicklingError(
                    f"this file has a key of more than {_MOST_PARTS} parts, {short_text(key)}"
                )
            waiting.extend(part for part in parts if isinstance(part, tuple | frozenset))


def check_container(function: object, args: object) -> None:
    """UnpicklingError for a container made of a tensor, or with keys as `check_keys` refuses."""
    if function not in _CONTAINERS or not isinstance(args, tuple):
        return
    for arg in args:
        if arg is None or isinstance(arg, type):  # what a defaultdict makes
            continue
        if type(arg) not in (*_PLAIN, *_CONTAINERS):
            raise pickle.UnpicklingError(
                f"this file makes a {_name(function)} of a {type(arg).__name__}; expected plain "
                f"containers"
            )
        check_keys(_keys_of(function, arg))


def _keys_of(function: object, arg: Any) -> Iterable[object]:
    if function in (list, Size) or isinstance(arg, dict):
        return ()
    if function in (dict, OrderedDict, defaultdict):
        if any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in arg):
            raise pickle.UnpicklingError(f"this file makes a {_name(function)} of no pairs")
        return [pair[0] for pair in arg]
    return list(arg)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", function))


def inner_call(function: object, args: object) -> tuple[object, object] | None:
    """The call that a call makes in its turn; None for one that makes none."""
    if function is not _rebuild_from_type_v2:
        return None
    match args:
        case (inner, _, tuple(given), _) if inner is not _rebuild_from_type_v2:
            return inner, given
    raise pickle.UnpicklingError(f"this file rebuilds a tensor of {short_text(args)}")


class BoundedUnpickler(pickle._Unpickler):
    """Looks at keys before they are hashed."""

    def load_setitem(self) -> None:
        """SETITEM: a key and a value."""
        check_keys(self.stack[-2:-1])  # type: ignore[attr-defined]  # typeshed lacks it
        super().load_setitem()  # type: ignore[misc]  # the pure Python class has it

    def load_setitems(self) -> None:
        """SETITEMS: keys and values, to the mark."""
        check_keys(self.stack[::2])  # type: ignore[attr-defined]  # as above
        super().load_setitems()  # type: ignore[misc]  # as above

    def load_dict(self) -> None:
        """DICT: a dict of the keys and values, to the mark."""
        check_keys(self.stack[::2])  # type: ignore[attr-defined]  # as above
        super().load_dict()  # type: ignore[misc]  # as above

    def load_additems(self) -> None:
        """ADDITEMS: elements of a set, to the mark."""
        check_keys(self.stack)  # type: ignore[attr-defined]  # as above
        super().load_additems()  # type: ignore[misc]  # as above

    def load_frozenset(self) -> None:
        """FROZENSET: one of the elements, to the mark."""
        check_keys(self.stack)  # type: ignore[attr-defined]  # as above
        super().load_frozenset()  # type: ignore[misc]  # as above

    dispatch = dict(pickle._Unpickler.dispatch)


BoundedUnpickler.dispatch.update(
    {
        pickle.SETITEM[0]: BoundedUnpickler.load_setitem,  # type: ignore[dict-item]
        pickle.SETITEMS[0]: BoundedUnpickler.load_setitems,  # type: ignore[dict-item]
        pickle.DICT[0]: BoundedUnpickler.load_dict,  # type: ignore[dict-item]
        pickle.ADDITEMS[0]: BoundedUnpickler.load_additems,  # type: ignore[dict-item]
        pickle.FROZENSET[0]: BoundedUnpickler.load_frozenset,  # type: ignore[dict-item]
    }
)
