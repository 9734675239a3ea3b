"""Doors to other array libraries: DLPack, the array API's namespace, CUDA's array interface (T52).

Memory is handed over, not copied, unless a copy is asked for. The capsules are NumPy's over the
same memory. NumPy exports no bfloat16 or float8, so those travel as integers of their size, and the
capsule's type code is set, or read, here: the one byte that NumPy does not write.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import NamedTuple, Protocol, cast

import numpy as np

from maquette.core.device import device
from maquette.core.dtype import (
    bfloat16,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
)
from maquette.core.layout import strided
from maquette.tensor.arrays import Array
from maquette.tensor.tensor import Tensor, from_array, without_data
from maquette.tensor.up_to_date import own_memory

Capsule = object
_CPU_CODE, _CUDA_CODE = 1, 2
_UNSIGNED_CODE = 1
# dlpack.h, DLDataTypeCode: types that NumPy does not exchange.
_CODES = {
    bfloat16: 4,
    float8_e4m3fn: 10,
    float8_e4m3fnuz: 11,
    float8_e5m2: 12,
    float8_e5m2fnuz: 13,
    float8_e8m0fnu: 14,
}
_BY_CODE = {code: kind for kind, code in _CODES.items()}
_STAND_INS = {1: "u1", 2: "u2"}

# Where the type code stands: after pointer, device and rank, which in the versioned struct come
# after version, context, deleter and flags.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Exporter(Protocol):
    """What DLPack asks of an array."""

    def __dlpack__(self, **options: object) -> Capsule: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


def _type_code(capsule: Capsule) -> ctypes.c_uint8:
    """The byte of a capsule that says what kind of numbers it holds; RuntimeError if it is used."""
    name = _name_of(capsule)
    at = _CODE_AT.get(name)
    if at is None:
        raise RuntimeError(
            f"from_dlpack() received a capsule named {name!r}: a DLPack capsule can be consumed "
            f"once only; export the array again"
        )
    return ctypes.c_uint8.from_address(_pointer_of(capsule, name) + at)


# --- export --------------------------------------------------------------------------


_NO_WAITING = -1  # the array standard's word for a stream that need not wait


def dlpack(
    self: Tensor,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Capsule:
    """A DLPack capsule of this tensor's memory, or (copy=True) of a copy.

    Raises BufferError for tensors that cannot be handed over, with the reason; as PyTorch does,
    TypeError for a stream that is no number, AssertionError for one on cpu but -1.
    """
    if stream is not None and not isinstance(stream, int):
        raise TypeError(f"stream must be an int or None, got {type(stream).__name__}")
    if self.meta.device.type == "cpu" and stream is not None:
        if stream != _NO_WAITING:
            raise AssertionError("stream should be None on cpu.")
        stream = None
    array = _exportable(self)
    if copy:
        array = array.copy()
    code = _CODES.get(self.meta.dtype)
    if code is not None:
        array = array.view(_STAND_INS[self.meta.itemsize])
    options: dict[str, object] = {"max_version": max_version, "dl_device": dl_device}
    if stream is not None:
        options["stream"] = stream
    capsule = cast(Exporter, array).__dlpack__(**options)
    if code is not None:
        _type_code(capsule).value = code
    return capsule


def _exportable(t: Tensor) -> Array:
    reason = None
    own_memory(t)
    if t.fake_mode is not None:
        reason = without_data(t)
    elif t.meta.layout is not strided:
        reason = f"its layout is {t.meta.layout}; only strided tensors can be exported"
    elif t._mq_data is None:
        reason = f"it is on {t.meta.device} and has no data"
    elif t.requires_grad:
        reason = "it requires gradient; use tensor.detach()"
    elif t.is_conj() or t.is_neg():
        reason = "its conjugate or negative bit is set; use tensor.resolve_conj().resolve_neg()"
    if reason is not None:
        raise BufferError(f"Can't export {t.meta} through DLPack: {reason}")
    assert t._mq_data is not None
    return t._mq_data


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """DLPack's numbers of this tensor's device: its kind and index."""
    where = self.meta.device
    codes = {"cpu": _CPU_CODE, "cuda": _CUDA_CODE}
    if where.type not in codes:
        raise BufferError(f"DLPack has no device for {where}")
    return codes[where.type], where.index or 0


def to_dlpack(tensor: Tensor) -> Capsule:
    """The capsule of a tensor, in the old form that has no version."""
    return dlpack(tensor)


# --- import --------------------------------------------------------------------------


def from_dlpack(
    ext_tensor: object, *, device: device | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor over the memory of an array of another library, or of a DLPack capsule.

    copy: True copies; None and False share. Raises RuntimeError for a capsule that was consumed,
    BufferError for memory that is not the host's.
    """
    source = cast(Exporter, ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        source = _Given(ext_tensor, (_CPU_CODE, 0))
    place = "cpu" if device is None else str(device).partition(":")[0]  # of any index, as PyTorch
    if source.__dlpack_device__()[0] != _CPU_CODE or place != "cpu":
        raise BufferError("from_dlpack() takes memory of the host (cpu) only")
    capsule = _capsule_of(source)
    byte = _type_code(capsule)
    kind = _BY_CODE.get(byte.value)
    if kind is not None:
        byte.value = _UNSIGNED_CODE
    array: Array = np.from_dlpack(_Given(capsule, (_CPU_CODE, 0)))  # type: ignore[arg-type]  # it is
    array = array if copy is not True else array.copy()
    return from_array(_writable(array) if kind is None else _writable(array).view(kind.numpy))


def _capsule_of(source: Exporter) -> Capsule:
    if isinstance(source, _Given):
        return source.capsule
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library from before versions
        return source.__dlpack__()


class _Given(NamedTuple):
    """A capsule in the form of an array, as NumPy wants it."""

    capsule: Capsule
    place: tuple[int, int]

    def __dlpack__(self, **options: object) -> Capsule:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place


class _Memory:
    """An array's memory as NumPy's interface: writable, where the old capsules cannot say so."""

    def __init__(self, array: Array) -> None:
        self.kept = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.ctypes.data, False),
        }


def _writable(array: Array) -> Array:
    if array.flags.writeable:
        return array
    opened: Array = np.asarray(_Memory(array))
    return opened


# --- the rest ------------------------------------------------------------------------


def array_namespace(self: Tensor, *, api_version: str | None = None) -> ModuleType:
    """The array API standard's functions on arrays like this one (PyTorch has no such method)."""
    if api_version is not None and not "2021.12" <= api_version <= "2024.12":
        raise ValueError(
            f"__array_namespace__: expected a version of the standard up to 2024.12, got "
            f"{api_version!r}"
        )
    return cast(ModuleType, sys.modules["maquette"].array_api)


def to_device(self: Tensor, device: object, /, *, stream: object = None) -> Tensor:
    """The array on a device, by the array API standard's name for `to`."""
    return self.to(device)


def cuda_array_interface(self: Tensor) -> dict[str, object]:
    """CUDA's array interface; AttributeError for a tensor without memory on such a device."""
    found = getattr(self._mq_data, "__cuda_array_interface__", None)
    if self.meta.device.type != "cuda" or found is None:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on {self.meta}: it has no memory on a CUDA device"
        )
    return cast("dict[str, object]", found)


for _method_name, _method in (
    ("__dlpack__", dlpack),
    ("__dlpack_device__", dlpack_device),
    ("__array_namespace__", array_namespace),
    ("to_device", to_device),
    ("__cuda_array_interface__", property(cuda_array_interface)),
):
    setattr(Tensor, _method_name, _method)
