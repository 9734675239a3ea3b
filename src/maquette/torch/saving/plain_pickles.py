"""Plain pickles of tensors and storages that PyTorch reads: what holds while `install` does.

As PyTorch's, they have the bytes of a storage inside, written as `torch.save` once did. Better than
PyTorch's, they have each storage once, so that what aliased does again (T56).
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from maquette.core.dtype import dtype, uint8
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.face import class_names
from maquette.torch.saving import _utils, layouts, storage, storage_bytes
from maquette.torch.saving.forms import TYPED, Reduced, reduced

# A pickle says by one object what it says twice, and keeps that object until it is done.
_held: WeakValueDictionary[int, TypedStorage] = WeakValueDictionary()


def _hold(untyped: UntypedStorage, kind: dtype) -> TypedStorage:
    known = _held.get(id(untyped))
    if known is None or known.untyped() is not untyped:
        kind = kind if kind in TYPED else uint8
        known = _held[id(untyped)] = TypedStorage(wrap_storage=untyped, dtype=kind)
    return known


class TorchForm:
    """Pickles as PyTorch has them; a `PickledForm`."""

    def tensor(self, t: Tensor) -> Reduced:
        """By `torch._utils._rebuild_tensor_v2` and its like."""
        return reduced(t, _hold)

    def storage(self, storage: UntypedStorage) -> Reduced:
        """The bytes of a storage of elements: those alone, PyTorch writes but cannot read."""
        return getattr, (_hold(storage, uint8), "_untyped_storage")

    def typed_storage(self, storage: TypedStorage) -> Reduced:
        """The bytes of a file that holds it."""
        return _storage_from, (storage_bytes.bytes_of(storage),)


_storage_from = storage._load_from_bytes
for _module in (_utils, layouts):
    for _name, _function in vars(_module).items():
        if _name.startswith("_rebuild_"):
            class_names.name_found(_function, "_utils")
class_names.name_found(_storage_from, "storage")
