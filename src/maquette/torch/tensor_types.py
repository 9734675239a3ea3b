"""`torch.FloatTensor` and its like: constructors of old, and types to ask about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.api.creation import legacy
from maquette.api.sparse_functions import sparse_coo_tensor
from maquette.core import dtype as kinds
from maquette.core.dtype import dtype
from maquette.core.layout import layout, sparse_coo, strided
from maquette.tensor.tensor import Tensor


class TensorType(type):
    """The type of tensors of one dtype on a device: `isinstance` asks a tensor for both."""

    dtype: dtype
    device_type = "cpu"
    layout: layout = strided

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, object]) -> TensorType:
        """TypeError for a class derived from one of these: derive from `torch.Tensor`."""
        if bases:
            base = f"{bases[0].__module__}.{bases[0].__name__}"
            raise TypeError(f"type '{base}' is not an acceptable base type: use torch.Tensor")
        return super().__new__(cls, name, bases, members)

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Tensor):
            return False
        same = instance.dtype is cls.dtype and instance.layout is cls.layout
        return same and instance.device.type == cls.device_type

    def __call__(cls, *args: object, **kwargs: object) -> Tensor:
        """A tensor of this dtype: of data, or of sizes and uninitialised."""
        return legacy(cls.dtype, args, {"device": cls.device_type} | kwargs)

    def __getattr__(cls, name: str) -> object:
        """What `torch.Tensor` has by this name: ``torch.FloatTensor.add``."""
        if name.startswith("__"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return getattr(Tensor, name)

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *dir(Tensor)})

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


class SparseTensorType(TensorType):
    """`torch.sparse.FloatTensor` and its like: the types of COO tensors of one dtype on cpu."""

    is_sparse = True
    layout = sparse_coo

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """A COO tensor of indices, values and maybe sizes; of sizes alone, without elements.

        Values keep their own dtype, as in PyTorch.
        """
        if args and isinstance(args[0], Tensor):
            return sparse_coo_tensor(*args, **kwargs)
        sizes = args[0] if args and isinstance(args[0], Sequence) else args or (0,)
        return sparse_coo_tensor(size=tuple(sizes), dtype=cls.dtype, **kwargs)


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


def sparse_type(dense: TensorType) -> SparseTensorType:
    """The type of COO tensors beside a type of dense ones."""
    members = {"dtype": dense.dtype, "__module__": "torch.sparse"}
    return SparseTensorType(dense.__name__, (), members)


def on_device(here: TensorType, device_type: str) -> TensorType:
    """The type of tensors of the same dtype on another device: `torch.cuda.FloatTensor`."""
    place = f"torch.{device_type}"
    members = {"dtype": here.dtype, "device_type": device_type, "__module__": place}
    return TensorType(here.__name__, (), members)
