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
from maquette.autograd.saved_hooks import PackedTensor
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.autograd.compiled_formulas import Saved


class RawSaved:
    """A saved tensor as the node holds it."""

    def __init__(self, node: OpNode, index: int) -> None:
        self.node = node
        self.index = index

    def register_hooks(
        self, pack_hook: Callable[[Tensor], object], unpack_hook: Callable[[object], Tensor]
    ) -> None:
        """Keep ``pack_hook(tensor)`` in its place; backward takes ``unpack_hook`` of that.

        RuntimeError if the tensor has hooks already or has been freed.
        """
        saved = self.node.saved
        if saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need them afterwards."
            )
        value = saved[self.index]
        if isinstance(value, PackedTensor):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        if not isinstance(value, SavedTensor | SavedOutput):
            raise TypeError(f"register_hooks: {self.node.name()} saved no tensor here")
        number = value.number if isinstance(value, SavedOutput) else None
        packed = PackedTensor(value.tensor, (pack_hook, unpack_hook), number)
        if isinstance(value, SavedOutput):
            packed.requires_grad = value.requires_grad
        self.node.saved = (*saved[: self.index], packed, *saved[self.index + 1 :])


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
        if value.tensor:
            made[f"_raw_saved_{name}"] = property(_raw_reader(index, saved, watched))
    return made


def _reader(name: str, index: int) -> Callable[[OpNode], object]:
    def read(node: OpNode) -> object:
        return node.__class__.open_saved(node)[index]

    read.__doc__ = f"What the node saved of {name}."
    return read


def _raw_reader(
    index: int, saved: dict[str, Saved], watched: Callable[[], type[OpNode]]
) -> Callable[[OpNode], RawSaved]:
    def read(node: OpNode) -> RawSaved:
        if node.saved is not None and any(len(s.names) > 1 for s in saved.values()):
            kept = _as_watched(node, saved)
            node.__class__ = watched()
            node.saved = kept
        return RawSaved(node, index)

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


__all__ = ["RawSaved", "saved_properties"]
