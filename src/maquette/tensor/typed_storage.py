"""`TypedStorage`: a storage whose elements are of one dtype, PyTorch's older face of storages.

It holds an `UntypedStorage` and adds nothing to it but the dtype to read its bytes by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from maquette.core.device import device
from maquette.core.dtype import dtype, float32
from maquette.core.meta import TensorMeta
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, from_storage

Array = npt.NDArray[np.generic]


class TypedStorage:
    """Elements of ``dtype`` over the bytes of ``untyped()``; by size, by values, or by a storage.

    ``TypedStorage(3)``, ``TypedStorage([1, 2])``, ``TypedStorage(wrap_storage=bytes, dtype=...)``.
    """

    __slots__ = ("_untyped", "dtype")

    def __init__(
        self,
        values: int | Sequence[bool | int | float | complex] = 0,
        *,
        dtype: dtype = float32,
        wrap_storage: UntypedStorage | None = None,
    ) -> None:
        self.dtype = dtype
        if wrap_storage is None:
            count = values if isinstance(values, int) else len(values)
            data = np.zeros(count, dtype.numpy)
            if not isinstance(values, int):
                data[...] = values
            wrap_storage = UntypedStorage(data.nbytes, device("cpu"), data)
        self._untyped = wrap_storage

    # --- what it is ------------------------------------------------------------------

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped

    @property
    def device(self) -> device:
        return self._untyped.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def size(self) -> int:
        """How many elements it has."""
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._untyped.nbytes()

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped.data_ptr()

    def get_device(self) -> int:
        """The number of the device; -1 on the cpu."""
        return -1 if self.device.index is None else self.device.index

    def type(self) -> str:
        """The name of old, ``torch.FloatStorage``."""
        return self.tensor().type().replace("Tensor", "Storage")

    def tensor(self) -> Tensor:
        """A tensor of all elements that shares memory."""
        return from_storage(
            self._untyped, TensorMeta.of(self.dtype, (self.size(),), None, 0, self.device)
        )

    # --- elements --------------------------------------------------------------------

    def _elements(self) -> Array:
        return self._untyped.raw()[: self.size() * self.dtype.itemsize].view(self.dtype.numpy)

    def __getitem__(self, index: int) -> bool | int | float | complex:
        if not isinstance(index, int):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        found: bool | int | float | complex = self._elements()[index].item()
        return found

    def __setitem__(self, index: int | slice, value: bool | int | float | complex) -> None:
        self._elements()[index] = value

    def __iter__(self) -> Iterator[bool | int | float | complex]:
        return iter(self.tolist())

    def tolist(self) -> list[bool | int | float | complex]:
        """The elements as Python numbers."""
        found: list[bool | int | float | complex] = self._elements().tolist()
        return found

    def fill_(self, value: bool | int | float | complex) -> TypedStorage:
        """Set every element; returns itself."""
        self._elements()[...] = value
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Take over the elements of a storage of as many, converted; returns itself."""
        self._elements()[...] = source._elements()
        return self

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        return TypedStorage(self.size(), dtype=self.dtype).copy_(self)

    def cpu(self) -> TypedStorage:
        """Itself: what has elements is on the cpu."""
        return self

    def to(self, kind: dtype) -> TypedStorage:
        """A storage of another dtype with the elements converted."""
        return TypedStorage(self.size(), dtype=kind).copy_(self)

    def resize_(self, size: int) -> TypedStorage:
        """Change the number of elements; those that stay keep their values."""
        self._untyped.resize_(size * self.dtype.itemsize)
        return self

    def __repr__(self) -> str:
        kind = f"[TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"
        rows = ["..."] if self._untyped.data is None else [f" {value}" for value in self]
        return "\n".join([*rows, kind])


__all__ = ["TypedStorage"]
