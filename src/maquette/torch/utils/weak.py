"""`torch.utils.weak`: dictionaries whose keys are held weakly and told apart by identity.

The standard library's compare keys by ``==``, which between tensors is a tensor.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

Ref = weakref.ref[Any]


class WeakIdRef(Ref):
    """A weak reference that equals another if both are to the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Ref], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]  # as weakref.ref takes it
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        # Of dead ones only the reference itself is the same.
        return mine is theirs if mine is not None and theirs is not None else self is other

    def __ne__(self, other: object) -> bool:
        return not self == other


class _WeakHashRef(Ref):
    """A weak reference that equals another if their objects have one hash, as script objects do."""

    __slots__ = ("_hash",)

    def __init__(self, key: Any, callback: Callable[[Ref], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]  # as weakref.ref takes it
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        if mine is None or theirs is None:
            return self is other
        return hash(mine) == hash(theirs)


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary of weakly held keys by identity; an entry goes when its key does."""

    def __init__(
        self,
        dict: Mapping[Any, Any] | None = None,
        ref_type: Callable[..., Ref] = WeakIdRef,
    ) -> None:
        self.ref_type = ref_type
        self.data: MutableMapping[Ref, Any] = {}
        owner = weakref.ref(self)

        def forget(key: Ref) -> None:
            mine = owner()
            if mine is not None:
                mine.data.pop(key, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of what takes no weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def pop(self, key: Any, *args: Any) -> Any:
        """Take a key out; its value, or the default if there is one. KeyError if there is none."""
        return self.data.pop(self.ref_type(key), *args)

    def update(self, dict: Any = None, **kwargs: Any) -> None:  # type: ignore[override]  # PyTorch's
        """Take over the entries of a mapping, or of pairs."""
        super().update(() if dict is None else dict, **kwargs)

    def keyrefs(self) -> list[Ref]:
        """The weak references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary of the same entries."""
        made = type(self)(ref_type=self.ref_type)
        made.update(self)
        return made

    __copy__ = copy

    def __or__(self, other: Mapping[Any, Any]) -> WeakIdKeyDictionary:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Mapping[Any, Any]) -> WeakIdKeyDictionary:
        made = type(self)(other, self.ref_type)
        made.update(self)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> WeakIdKeyDictionary:
        made = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            made[key] = copy.deepcopy(value, memo)  # the keys are who they are
        return made

    def __ior__(self, other: Mapping[Any, Any]) -> WeakIdKeyDictionary:
        self.update(other)
        return self


class TensorWeakRef:
    """A weak reference to a tensor: called, it gives the tensor, or None."""

    def __init__(self, tensor: Any) -> None:
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        return self.ref()


WeakTensorRef = WeakIdRef
WeakTensorKeyDictionary = WeakIdKeyDictionary

__all__ = [
    "TensorWeakRef",
    "WeakIdKeyDictionary",
    "WeakIdRef",
    "WeakTensorKeyDictionary",
]
