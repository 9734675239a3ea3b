"""What a node saved, by the names of the operator's parameters: ``node._saved_self``.

Nodes have a property for each value that their formulas need (``result`` among them), and one that
gives the saved tensor itself, ``_raw_saved_self``, for hooks of its own. A node with such hooks
goes over to the class of watched nodes, whose formulas look for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from maquette.autograd.formulas import Rule
from maquette.autograd.node import OpNode, SavedOutput, SavedTensor
from maquette.autograd.saved.hooks import PackedTensor
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.autograd.compiled_formulas import Saved


class RawSaved:
    """A saved tensor as the node holds it; nodes make these."""

    _index: int
    _name: str
    _held: Callable[[], tuple[object, ...] | None]
    _put: Callable[[tuple[object, ...]], None]

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden: ask a grad_fn for "
            "_raw_saved_self, or whatever it saved"
        )

    def register_hooks(self, *hooks: Callable[..., object]) -> None:
        """``register_hooks(pack_hook, unpack_hook)``: keep ``pack_hook(tensor)`` in its place.

        Backward takes ``unpack_hook`` of that. RuntimeError if the tensor has hooks already or has
        been freed.
        """
        if len(hooks) != 2 or not all(callable(hook) for hook in hooks):
            raise TypeError(
                "register_hooks(): incompatible function arguments: expected (pack_hook, "
                f"unpack_hook), two callables, got {hooks}"
            )
        pack_hook, unpack_hook = hooks
        saved = self._held()
        if saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need them afterwards."
            )
        value = saved[self._index]
        if value is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden: there is "
                "nothing to pack"
            )
        if isinstance(value, PackedTensor):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        if not isinstance(value, SavedTensor | SavedOutput):
            raise TypeError(f"register_hooks: {self._name} saved no tensor here")
        number = value.number if isinstance(value, SavedOutput) else None
        unpack = cast(Callable[[object], Tensor], unpack_hook)
        packed = PackedTensor(value.tensor, (pack_hook, unpack), number)
        if isinstance(value, SavedOutput):
            packed.requires_grad = value.requires_grad
        self._put((*saved[: self._index], packed, *saved[self._index + 1 :]))


def raw_saved(
    index: int,
    name: str,
    held: Callable[[], tuple[object, ...] | None],
    put: Callable[[tuple[object, ...]], None],
) -> RawSaved:
    """A saved tensor of a node: by its place in what ``held`` gives, None once that is freed.

    name: the node's. put: puts other values in the place of all that the node holds.
    """
    made = object.__new__(RawSaved)
    made._index, made._name, made._held, made._put = index, name, held, put
    return made


def unsaved_properties(rules: Sequence[Rule]) -> dict[str, Any]:
    """Properties for all that formulas may need of a call: None where a node needs it not."""
    names = {n for r in rules for n in r.needs if n not in _GIVEN and not n.endswith("_meta")}
    return {f"_saved_{name}": _NOTHING for name in names}


_GIVEN = ("grad", "grads", "needs")
_NOTHING = property(lambda node: None, doc="Nothing: no gradient that is wanted needs it.")


def saved_properties(
    saved: dict[str, Saved], watched: Callable[[], type[OpNode]]
) -> dict[str, Any]:
    """The properties of a class of nodes, for what it saves.

    saved: what is saved, in order. watched: makes the class of watched nodes that save the same.
    """
    made: dict[str, Any] = {}
    for index, (name, value) in enumerate(saved.items()):
        made[f"_saved_{name}"] = property(_reader(name, index))
        if name.endswith("_meta"):
            argument = name.removesuffix("_meta")
            made[f"_saved_{argument}_sym_sizes"] = property(_size_reader(argument, index))
        if value.tensor:
            made[f"_raw_saved_{name}"] = property(_raw_reader(index, saved, watched))
    return made


def _reader(name: str, index: int) -> Callable[[OpNode], object]:
    def read(node: OpNode) -> object:
        return node.__class__.open_saved(node)[index]

    read.__doc__ = f"What the node saved of {name}."
    return read


def linked_sizes(places: dict[str, int]) -> dict[str, Any]:
    """Properties for sizes that formulas need and that a node's links have anyway.

    places: by the name that formulas have for a meta, the number of the link.
    """
    return {
        f"_saved_{name.removesuffix('_meta')}_sym_sizes": property(_link_reader(name, place))
        for name, place in places.items()
    }


def _link_reader(name: str, place: int) -> Callable[[OpNode], object]:
    def read(node: OpNode) -> object:
        return node.links[3 * place + 2].shape

    read.__doc__ = f"The sizes that {name.removesuffix('_meta')} had."
    return read


def _size_reader(name: str, index: int) -> Callable[[OpNode], object]:
    def read(node: OpNode) -> object:
        meta = node.__class__.open_saved(node)[index]
        return None if meta is None else getattr(meta, "shape", None)

    read.__doc__ = f"The sizes that {name} had."
    return read


def _raw_reader(
    index: int, saved: dict[str, Saved], watched: Callable[[], type[OpNode]]
) -> Callable[[OpNode], RawSaved | tuple[RawSaved, ...]]:
    def read(node: OpNode) -> RawSaved | tuple[RawSaved, ...]:
        if node.saved is not None and any(len(s.names) > 1 for s in saved.values()):
            kept = _as_watched(node, saved)
            node.__class__ = watched()
            node.saved = kept

        def put(kept: tuple[object, ...]) -> None:
            node.saved = kept

        members = None if node.saved is None else node.saved[index]
        if members.__class__ is tuple:

            def put_member(kept: tuple[object, ...]) -> None:
                saved = cast("tuple[object, ...]", node.saved)
                node.saved = (*saved[:index], kept, *saved[index + 1 :])

            def held() -> tuple[object, ...] | None:
                return None if node.saved is None else cast("tuple[object, ...]", node.saved[index])

            count = len(cast("tuple[object, ...]", members))
            return tuple([raw_saved(i, node.name(), held, put_member) for i in range(count)])
        return raw_saved(index, node.name(), lambda: node.saved, put)

    return read


def _as_watched(node: OpNode, saved: dict[str, Saved]) -> tuple[object, ...]:
    """What a node saved, one object a value, tensors with their versions."""
    assert node.saved is not None
    kept: list[object] = []
    position = 0
    for name, value in saved.items():
        held = node.saved[position]
        if len(value.names) > 1 and isinstance(held, Tensor):
            version = node.saved[position + 1]
            made = SavedOutput(held, 0) if name.startswith("result") else SavedTensor(held)
            made.version = cast(int, version)
            if isinstance(made, SavedOutput):
                made.requires_grad = True
            held = made
        kept.append(held)
        position += len(value.names)
    return tuple(kept)


__all__ = ["RawSaved", "raw_saved", "saved_properties"]
