"""`torch.storage`: storages are bytes, and `TypedStorage` reads them as numbers of one dtype.

`FloatStorage` and its like make such storages and are types to ask about; they have no instances.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import numpy as np

from maquette.core import dtype as kinds
from maquette.core.device import cpu
from maquette.core.device import device as Device
from maquette.core.dtype import dtype
from maquette.core.dtype import dtype as Dtype
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.typed_storage import TypedStorage


class _LegacyStorageMeta(type):  # PyTorch's name
    """The type of storages of one dtype on cpu: `isinstance` asks a storage for both."""

    dtype: dtype

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, TypedStorage):
            return False
        return instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(
        cls,
        *args: int | Sequence[bool | int | float | complex],
        wrap_storage: UntypedStorage | None = None,
        dtype: Dtype | None = None,
        device: Device | str | None = None,
        _internal: bool = False,
    ) -> TypedStorage:
        """A storage of this dtype: of a number of elements, of values, of bytes, or empty."""
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        for name, said in (("dtype", dtype), ("device", device)):
            if said is not None:
                raise RuntimeError(f"'{name}' cannot be specified: {cls.__name__} says it")
        if wrap_storage is not None and isinstance(wrap_storage, UntypedStorage):
            if wrap_storage.device.type != "cpu":
                raise RuntimeError(
                    f"Device of 'wrap_storage' must be cpu, but got {wrap_storage.device}"
                )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)

    @property
    def _dtype(cls) -> Dtype:
        return cls.dtype

    def _from_buffer(cls, buffer: bytes | bytearray | memoryview) -> TypedStorage:
        """`from_buffer` of bytes in this machine's order."""
        return cls.from_buffer(buffer)

    def from_buffer(
        cls, buffer: bytes | bytearray | memoryview, byte_order: str = "native", **rest: object
    ) -> TypedStorage:
        """A storage with a copy of a buffer's elements; byte_order: native, big or little."""
        if byte_order not in ("native", "big", "little"):
            raise ValueError(f"byte order is native, big or little, not {byte_order!r}")
        if cls.dtype is kinds.bool_:
            data = np.frombuffer(bytearray(buffer), np.uint8) != 0
            return TypedStorage(wrap_storage=_owning(data.view(np.uint8)), dtype=cls.dtype)
        whole = len(buffer) // cls.dtype.itemsize * cls.dtype.itemsize
        if whole != len(buffer):
            raise ValueError(
                f"buffer size ({len(buffer)}) must be a multiple of element size "
                f"({cls.dtype.itemsize})"
            )
        made = _owning(np.frombuffer(bytearray(buffer), np.uint8))
        if byte_order not in ("native", sys.byteorder):
            made.byteswap(cls.dtype)
        return TypedStorage(wrap_storage=made, dtype=cls.dtype)

    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0
    ) -> TypedStorage:
        """``size`` elements over a file's bytes, as `torch.from_file` has them."""
        held = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=held, dtype=cls.dtype)

    def __repr__(self) -> str:
        return f"<class '{self.__module__}.{self.__name__}'>"


def _owning(data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> UntypedStorage:
    return UntypedStorage(data.nbytes, cpu, data)


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What `FloatStorage` and its like are derived from; none has instances of its own."""

    __module__ = "torch.storage"


def _type(name: str, kind: dtype) -> _LegacyStorageMeta:
    return _LegacyStorageMeta(
        name, (_LegacyStorage, TypedStorage), {"dtype": kind, "__module__": "torch"}
    )


HalfStorage = _type("HalfStorage", kinds.float16)
BFloat16Storage = _type("BFloat16Storage", kinds.bfloat16)
FloatStorage = _type("FloatStorage", kinds.float32)
DoubleStorage = _type("DoubleStorage", kinds.float64)
ByteStorage = _type("ByteStorage", kinds.uint8)
CharStorage = _type("CharStorage", kinds.int8)
ShortStorage = _type("ShortStorage", kinds.int16)
IntStorage = _type("IntStorage", kinds.int32)
LongStorage = _type("LongStorage", kinds.int64)
BoolStorage = _type("BoolStorage", kinds.bool_)
ComplexFloatStorage = _type("ComplexFloatStorage", kinds.complex64)
ComplexDoubleStorage = _type("ComplexDoubleStorage", kinds.complex128)

_storage_classes = {
    UntypedStorage, TypedStorage, HalfStorage, BFloat16Storage, FloatStorage, DoubleStorage,
    ByteStorage, CharStorage, ShortStorage, IntStorage, LongStorage, BoolStorage,
    ComplexFloatStorage, ComplexDoubleStorage,
}  # fmt: skip


def __getattr__(name: str) -> object:
    """`Storage` is the class of the default dtype, as torch.Tensor is FloatTensor."""
    if name == "Storage":
        kind = kinds.get_default_dtype()
        return next(c for c in _storage_classes if getattr(c, "dtype", None) is kind)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _load_from_bytes(b: bytes) -> object:
    """The storage that these bytes hold: so plain pickles of tensors have their elements."""
    from maquette.torch.saving.serialization import load  # noqa: PLC0415  # above storages
    from maquette.torch.saving.storage_bytes import storage_in  # noqa: PLC0415

    found = storage_in(b) or load(io.BytesIO(b), weights_only=False)
    if isinstance(found, TypedStorage) and getattr(found, "where", None) is found.device:
        return TypedStorage(wrap_storage=found.untyped(), dtype=found.dtype)
    return found


def _dtype_to_storage_type_map() -> dict[dtype, str]:
    """The names of the classes, by their dtype."""
    return {c.dtype: c.__name__ for c in _storage_classes if isinstance(c, _LegacyStorageMeta)}


__all__ = ["TypedStorage", "UntypedStorage"]
