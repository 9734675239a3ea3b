"""`torch.storage`: storages are bytes, and `TypedStorage` reads them as numbers of one dtype.

`FloatStorage` and its like make such storages and are types to ask about; they have no instances.
"""

from __future__ import annotations

from maquette.core import dtype as kinds
from maquette.core.dtype import dtype
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.typed_storage import TypedStorage


class StorageType(type):
    """The type of storages of one dtype on cpu: `isinstance` asks a storage for both."""

    dtype: dtype

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, TypedStorage):
            return False
        return instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(cls, *args: object, **kwargs: object) -> TypedStorage:
        """A storage of this dtype: of a number of elements, of values, or empty."""
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)  # type: ignore[arg-type]  # as its own

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _type(name: str, kind: dtype) -> StorageType:
    return StorageType(name, (), {"dtype": kind, "__module__": "torch"})


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

__all__ = ["TypedStorage", "UntypedStorage"]
