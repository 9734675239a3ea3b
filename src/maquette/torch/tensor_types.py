"""`torch.FloatTensor` and its like: constructors of old, and types to ask about."""

from __future__ import annotations

from maquette.api.creation import legacy
from maquette.core import dtype as kinds
from maquette.core.dtype import dtype
from maquette.tensor.tensor import Tensor


class TensorType(type):
    """The type of tensors of one dtype on cpu: `isinstance` asks a tensor for both."""

    dtype: dtype

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, object]) -> TensorType:
        """TypeError for a class derived from one of these: derive from `torch.Tensor`."""
        if bases:
            base = f"{bases[0].__module__}.{bases[0].__name__}"
            raise TypeError(f"type '{base}' is not an acceptable base type: use torch.Tensor")
        return super().__new__(cls, name, bases, members)

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Tensor):
            return False
        return instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(cls, *args: object, **kwargs: object) -> Tensor:
        """A tensor of this dtype: of data, or of sizes and uninitialised."""
        return legacy(cls.dtype, args, kwargs)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _type(name: str, kind: dtype) -> TensorType:
    return TensorType(name, (), {"dtype": kind, "__module__": "torch"})


HalfTensor = _type("HalfTensor", kinds.float16)
BFloat16Tensor = _type("BFloat16Tensor", kinds.bfloat16)
FloatTensor = _type("FloatTensor", kinds.float32)
DoubleTensor = _type("DoubleTensor", kinds.float64)
ByteTensor = _type("ByteTensor", kinds.uint8)
CharTensor = _type("CharTensor", kinds.int8)
ShortTensor = _type("ShortTensor", kinds.int16)
IntTensor = _type("IntTensor", kinds.int32)
LongTensor = _type("LongTensor", kinds.int64)
BoolTensor = _type("BoolTensor", kinds.bool_)
