"""`allow_mutation_on_saved_tensors`: mutate what autograd saved, and let backward see it before.

What is saved is remembered by its storage. A mode sees the first mutation of such a storage and
keeps a clone of what was saved, which backward is then given.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from maquette.autograd.saved.hooks import saved_tensors_hooks
from maquette.core.meta import TensorMeta
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor


class _Saved:
    """Stands for one saved tensor in the graph."""

    __slots__ = ("__weakref__",)


_Place = tuple[int, TensorMeta, int, bool, bool]


class SavedOriginals:
    """What was saved in the block, and clones of what has been mutated since.

    A tensor that is saved more than once at one version has one handle, so one clone.
    ``tid_to_weakhandle`` finds it by which tensor it is, version included; PyTorch's name.
    """

    def __init__(self) -> None:
        self.original: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self.cloned: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[_Place, _Saved] = (
            weakref.WeakValueDictionary()
        )
        self.is_open = True

    def pack(self, t: Tensor) -> _Saved:
        """A handle for a tensor that autograd saves."""
        place = (id(t._storage), t.meta, t._version, t.is_conj(), t.is_neg())
        saved = self.tid_to_weakhandle.get(place)
        if saved is None:
            saved = self.tid_to_weakhandle[place] = _Saved()
            self.original[saved] = t
        return saved

    def unpack(self, saved: object) -> Tensor:
        """The tensor as it was when it was saved."""
        if not self.is_open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was originally recorded."
            )
        assert isinstance(saved, _Saved)
        return self.cloned[saved] if saved in self.cloned else self.original[saved]

    def forget(self) -> None:
        """Let go of everything: the block is left."""
        self.original.clear()
        self.cloned.clear()
        self.tid_to_weakhandle.clear()

    def about_to_mutate(self, t: Tensor) -> None:
        """Clone what lies over the memory of ``t``."""
        for saved, original in list(self.original.items()):
            if original._storage is t._storage and saved not in self.cloned:
                self.cloned[saved] = original.clone()


class _CloneBeforeMutation(TorchDispatchMode):
    def __init__(self, originals: SavedOriginals) -> None:
        super().__init__()
        self.originals = originals

    def __torch_dispatch__(
        self,
        func: object,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        assert isinstance(func, OpOverload)
        named = kwargs or {}
        for i, argument in enumerate(func._schema.arguments):
            if argument.is_write:
                given = args[i] if i < len(args) else named.get(argument.name)
                for t in given if isinstance(given, tuple | list) else (given,):
                    if isinstance(t, Tensor):
                        self.originals.about_to_mutate(t)
        return func(*args, **named)


class _Open:
    """How many blocks there are: no more than one."""

    blocks = 0


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[SavedOriginals]:
    """In the block, what autograd saves may be mutated: backward gets what it was.

    Backward must run in the block too: AssertionError elsewhere. RuntimeError within another one.
    """
    if _Open.blocks:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    originals = SavedOriginals()
    _Open.blocks += 1
    with saved_tensors_hooks(originals.pack, originals.unpack):
        try:
            with _CloneBeforeMutation(originals):
                yield originals
        finally:
            originals.is_open = False
            originals.forget()
            _Open.blocks -= 1


__all__ = ["allow_mutation_on_saved_tensors"]
