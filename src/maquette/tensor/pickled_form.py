"""How pickles have tensors and storages: as maquette does, or in a form that another library reads.

One form holds at a time, for the whole process: `maquette.torch.install` chooses PyTorch's. What
asks for it are the ``__reduce_ex__`` of tensors and storages; without one they say their own parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from maquette.tensor.storage import UntypedStorage
    from maquette.tensor.tensor import Tensor
    from maquette.tensor.typed_storage import TypedStorage

Reduced = tuple[object, ...]


class PickledForm(Protocol):
    """What pickle is told of each kind of object: a function and its arguments."""

    def tensor(self, t: Tensor) -> Reduced: ...

    def storage(self, storage: UntypedStorage) -> Reduced: ...

    def typed_storage(self, storage: TypedStorage) -> Reduced: ...


_chosen: list[PickledForm] = []


def pickle_as(form: PickledForm | None) -> None:
    """Pickle in this form from now on; None: in maquette's own."""
    _chosen[:] = [] if form is None else [form]


def pickled_form() -> PickledForm | None:
    """The form that was chosen, or None for maquette's own."""
    return _chosen[0] if _chosen else None
