"""Methods and properties of `Tensor` that are no operators: conversions, numbers, transposes.

Attached at import. A method that is an operator needs no line here: `from_schema.py` finds it.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.api import choosing_functions
from maquette.api.choosing_functions import METHODS, tensor_split
from maquette.api.creation import tensor
from maquette.aten.common.operators import aten
from maquette.aten.view.copies import _local_scalar_dense, converted
from maquette.aten.view.reshaping import matrix_H, mH, mT, numpy_T
from maquette.core import dtype as dtypes
from maquette.core.device import device as Device
from maquette.core.device import device_of_type
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check_type
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.meta import TensorMeta
from maquette.core.promotion import PYTHON_DTYPES
from maquette.tensor.tensor import Tensor


def to(
    self: Tensor,
    *args: object,
    dtype: DType | None = None,
    device: Device | str | int | None = None,
    tensor: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``: itself where nothing changes (T17).

    Raises TypeError for a dtype of another class, and for two where one is due.
    """
    if device is None and tensor is None and (dtype is None or not args):
        given = dtype if not args else args[0] if len(args) == 1 else None
        if given.__class__ is DType:  # a dtype alone, as models mostly say
            return converted(self, given, None, non_blocking, copy, memory_format)
    if tensor is not None:
        args = (tensor, *args)
    if args:
        place, kind, flags = _by_place(args)
        if (place and device is not None) or (kind and dtype is not None):
            raise TypeError("to() got a device or a dtype twice")
        device, dtype = place or device, kind or dtype
        if flags:
            non_blocking, copy = _flags(flags, non_blocking, copy)
    where = None if device is None else _device(device)
    return converted(self, _dtype(dtype), where, non_blocking, copy, memory_format)


def _by_place(
    args: tuple[object, ...],
) -> tuple[Device | None, DType | None, tuple[object, ...]]:
    """The device, the dtype and the flags that are given by their places."""
    first, rest = args[0], args[1:]
    if isinstance(first, Tensor):
        return first.device, first.dtype, rest
    if isinstance(first, DType) or first in PYTHON_DTYPES:
        return None, _dtype(first), rest
    place = None if first is None else _device(first)
    return (place, _dtype(rest[0]), rest[1:]) if rest else (place, None, rest)


def _flags(given: tuple[object, ...], non_blocking: bool, copy: bool) -> tuple[bool, bool]:
    """``non_blocking`` and ``copy``, of which those given by their places come first."""
    check_type(
        len(given) <= 2 and all(isinstance(flag, bool) for flag in given),
        lambda: f"to() expected at most non_blocking and copy, both bool, got {given}",
    )
    return (*given, *(non_blocking, copy)[len(given) :])  # type: ignore[return-value]  # two bools


def _dtype(value: object) -> DType | None:
    if value is None or isinstance(value, DType):
        return value
    if value in PYTHON_DTYPES:
        return PYTHON_DTYPES[value]
    raise TypeError(f"to() expected a dtype, got {type(value).__name__}")


def _device(value: object) -> Device:
    if isinstance(value, (str, int, Device)) and not isinstance(value, bool):
        return Device(value)
    raise TypeError(
        f"to() expected a dtype, a device or a tensor, got {type(value).__name__} {value!r}"
    )


def _caster(kind: DType) -> Callable[..., Tensor]:
    def method(self: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
        return converted(self, kind, None, False, False, memory_format)

    method.__doc__ = f"This tensor as {kind}; itself where it is one."
    return method


CASTS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
    "chalf": dtypes.complex32,
}


def cpu(self: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """This tensor on cpu; itself where it is there."""
    return converted(self, None, Device("cpu"), False, False, memory_format)


def cuda(
    self: Tensor,
    device: Device | str | int | None = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """This tensor on a cuda device, by default the first."""
    where = device_of_type("cuda", device)
    return converted(self, None, where, non_blocking, False, memory_format)


_TYPE_NAMES = {
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "BoolTensor": dtypes.bool_,
    "ComplexFloatTensor": dtypes.complex64,
    "ComplexDoubleTensor": dtypes.complex128,
}


def type_(
    self: Tensor, dtype: DType | str | type | None = None, non_blocking: bool = False
) -> Tensor | str:
    """The type's name of old, ``torch.FloatTensor``; with a dtype or such a name, a conversion."""
    if dtype is None:
        return _type_name(self.meta)
    if isinstance(dtype, str) or (isinstance(dtype, type) and dtype not in PYTHON_DTYPES):
        text = dtype if isinstance(dtype, str) else _path_of(dtype)
        place, _, name = text.removeprefix("torch.").rpartition(".")
        if name not in _TYPE_NAMES:
            raise ValueError(f"invalid type: '{text}'")
        return converted(self, _TYPE_NAMES[name], Device(place or "cpu"), non_blocking, False, None)
    return converted(self, _dtype(dtype), None, non_blocking, False, None)


def _path_of(kind: type) -> str:
    """A tensor type's name, after its device's where that is not the cpu: ``cuda.FloatTensor``."""
    device = getattr(kind, "device_type", "cpu")
    return kind.__name__ if device == "cpu" else f"{device}.{kind.__name__}"


def _type_name(meta: TensorMeta) -> str:
    name = next((n for n, d in _TYPE_NAMES.items() if d is meta.dtype), "Tensor")
    place = "" if meta.device.type == "cpu" else f"{meta.device.type}."
    return f"torch.{place}{name}"


# --- to Python -----------------------------------------------------------------------


def _item(self: Tensor) -> object:
    """The one element as a Python number; RuntimeError unless there is exactly one (T49)."""
    return _local_scalar_dense(self)


def tolist(self: Tensor) -> object:
    """The elements as nested lists of Python numbers; a 0-dim tensor gives its number."""
    if self.meta.ndim == 0:
        return _local_scalar_dense(self)
    if self.meta.numel == 0:
        return _empty_lists(self.meta.shape)
    if self.fake_mode is not None:
        return [tolist(part) for part in self.unbind(0)]
    if self.meta.device.type == "meta":
        raise NotImplementedError(f"Cannot copy out of meta tensor; no data! It is {self.meta}")
    t: Tensor = self.detach().cpu()
    if t.__class__ is not self.__class__:  # a function transform has made it its own
        return t.tolist()
    if t.is_conj():
        t = t.resolve_conj()
    if t.is_neg():
        t = t.resolve_neg()
    return t.numpy().tolist()


def _empty_lists(shape: tuple[int, ...]) -> list[object]:
    return [] if shape[0] == 0 else [_empty_lists(shape[1:]) for _ in range(shape[0])]


def new_tensor(
    self: Tensor,
    data: object,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data``; dtype and device are this tensor's unless named."""
    return tensor(
        data,
        dtype=dtype or self.dtype,
        device=device or self.device,
        requires_grad=requires_grad,
    )


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return self.meta.shape == other.meta.shape


def is_set_to(self: Tensor, other: Tensor) -> bool:
    """Whether both show the same elements of the same storage."""
    return self._storage is other._storage and self.meta is other.meta


# --- transposes and parts ------------------------------------------------------------


def _real(self: Tensor) -> object:
    """The real part: a view of a complex tensor, a real tensor itself."""
    return aten.real(self)


def _imag(self: Tensor) -> object:
    """The imaginary part, a view; RuntimeError for a real tensor."""
    return aten.imag(self)


def _set_real(self: Tensor, value: object) -> None:
    """Write to the real part: numbers, or a tensor that can be broadcast to it."""
    _part_set(aten.real(self), value)


def _set_imag(self: Tensor, value: object) -> None:
    """Write to the imaginary part; RuntimeError for a real tensor."""
    _part_set(aten.imag(self), value)


def _part_set(part: object, value: object) -> None:
    if isinstance(value, Tensor):
        aten.copy_(part, value)
    else:
        aten.fill_(part, value)


def attach() -> None:
    """Bind these to `Tensor`."""
    for name, kind in CASTS.items():
        setattr(Tensor, name, _caster(kind))
    methods: dict[str, Callable[..., object]] = {
        "to": to,
        "cpu": cpu,
        "cuda": cuda,
        "type": type_,
        "item": _item,
        "tolist": tolist,
        "new_tensor": new_tensor,
        "is_same_size": is_same_size,
        "is_set_to": is_set_to,
        "tensor_split": tensor_split,
    }
    for name, method in METHODS.items():
        method.__name__, method.__qualname__ = name, f"Tensor.{name}"
        method.__doc__ = vars(choosing_functions)[name].__doc__
    for name, method in (methods | METHODS).items():
        setattr(Tensor, name, method)
    properties: dict[str, Callable[[Tensor], object]] = {
        "T": numpy_T,
        "mT": mT,
        "mH": mH,
        "H": matrix_H,
    }
    for name, getter in properties.items():
        setattr(Tensor, name, property(getter))
    Tensor.real = property(_real, _set_real)  # type: ignore[assignment]  # as declared
    Tensor.imag = property(_imag, _set_imag)  # type: ignore[assignment]  # likewise


attach()
