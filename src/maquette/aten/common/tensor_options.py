"""What factories and copies share: their options, the range of a fill value, casts of arrays."""

from __future__ import annotations

import math
import sys
import warnings
from types import ModuleType

import numpy as np

from maquette.aten.common.axes import Array
from maquette.aten.common.large_arrays import LARGE
from maquette.aten.common.narrow_floats import converted
from maquette.core.device import canonical, cpu
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import float8_e8m0fnu, get_default_dtype
from maquette.core.errors import StridedOnly, check
from maquette.core.layout import contiguous_format, memory_format, preserve_format, strided
from maquette.core.layout import layout as Layout
from maquette.core.meta import TensorMeta
from maquette.core.strides import format_strides
from maquette.core.symbols import expect_true
from maquette.tensor.backend import backend_for

Number = bool | int | float | complex


def check_layout(name: str, layout: Layout | None) -> None:
    """Refuse layouts that this family of factories does not make."""
    if layout is not None and layout is not strided:
        raise StridedOnly(name, layout)


def new_meta(
    name: str,
    size: tuple[int, ...],
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    format: memory_format | None = None,
) -> TensorMeta:
    """The meta of a factory's result; dtype None is the default dtype, device None the cpu."""
    check_layout(name, layout)
    where = cpu if device is None else canonical(device)
    kind = get_default_dtype() if dtype is None else dtype
    _check_storage(size, kind)
    check_signs(size)
    strides = None
    if format is not None and format is not contiguous_format:
        check(
            format is not preserve_format,
            lambda: f"{name}: memory_format=preserve_format has nothing to preserve; name a format",
        )
        strides = format_strides(size, (), format)
    return TensorMeta.of(kind, size, strides, 0, where)


def check_signs(size: tuple[int, ...]) -> None:
    """Refuse symbolic sizes that are negative: backed ones guard, unbacked ones assert (F78).

    A plain size is looked at where the meta is made.
    """
    for n in size:
        if n.__class__ is not int and not expect_true(n >= 0):
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {[*size]}")


def _check_storage(size: tuple[int, ...], kind: DType) -> None:
    """Refuse sizes whose bytes no 64-bit number counts; symbols are not known yet."""
    if all(n.__class__ is int for n in size):
        check(
            math.prod(size) * kind.itemsize < 2**63,
            lambda: f"Storage size calculation overflowed with sizes={list(size)}",
        )


def cast(xp: ModuleType, array: Array, kind: DType) -> Array:
    """A new array of ``kind``, laid out like ``array`` where it is dense."""
    wanted = kind.numpy
    if array.dtype.kind not in "fiub" and not kind.is_complex:  # NumPy is slow to tell a name
        if array.dtype.name == "complex32":
            array = array.astype(np.complex64)  # of which NumPy knows the parts
    if array.dtype.kind == "c" and not kind.is_complex and kind.name != "bool":
        warnings.warn(
            f"Casting complex values to real discards the imaginary part ({array.dtype} to "
            f"{kind}); take .real first",
            UserWarning,
            stacklevel=2,
        )
        array = _real_parts(array)
    if array.dtype == wanted:
        copied: Array = xp.array(array, copy=True)
        return copied
    if np.void in (array.dtype.type, wanted.type):
        raise NotImplementedError(
            f"elements of {array.dtype} do not convert to {kind}: nothing computes with opaque "
            f"types; view the tensor as torch.uint8 and take it apart"
        )
    if kind.category == 1 and array.dtype.kind not in "iub":
        return _float_to_int(xp, array, wanted)
    with np.errstate(all="ignore"):
        return converted(_unsigned_power(xp, array) if kind is float8_e8m0fnu else array, wanted)


def _real_parts(array: Array) -> Array:
    """The real parts; of complex64 in one row, halves of words of 64 bits (0.28 to 0.14 ms)."""
    if array.dtype.char == "F" and array.flags.c_contiguous and sys.byteorder == "little":
        if array.ndim:
            return array.view(np.uint64).astype(np.uint32).view(np.float32)
    return array.real


def _unsigned_power(xp: ModuleType, array: Array) -> Array:
    """What e8m0, which has neither signs nor a zero, keeps of numbers: at least 2**-127."""
    numbers = xp.abs(array.astype(xp.float64))
    return xp.maximum(numbers, 2.0**-127)


_NARROW = frozenset({"float32", "bfloat16"})


def _float_to_int(xp: ModuleType, array: Array, wanted: np.dtype[np.generic]) -> Array:
    """Truncate as C++ does where the type cannot hold the value: by a register's 32 or 64 bits.

    A value beyond those, infinity and NaN give the least number: -2**31 for int32.
    """
    if xp is np and wanted.char in "bh" and array.size >= LARGE and array.dtype.name in _NARROW:
        loops = backend_for(xp).loops
        if loops is not None:
            cut: Array = loops.whole_numbers(array, wanted)
            return cut
    with np.errstate(all="ignore"):
        if array.dtype.kind == "V" or array.dtype.itemsize == 2:
            array = converted(array, np.dtype(np.float32))
        if wanted == np.uint64:
            return array.astype(wanted)
        narrow = wanted.name in ("int8", "int16", "int32", "uint16")
        register = xp.int32 if narrow else xp.int64
        return array.astype(register).astype(wanted, copy=False)


def result_dtype(value: Number, kind: DType) -> Number:
    """A fill value as a number that NumPy writes into arrays of ``kind`` without complaint."""
    if kind.name == "bool":
        return bool(value)
    if isinstance(value, complex) and not kind.is_complex:
        value = value.real
    if kind.category == 1 and not isinstance(value, bool):
        whole = int(value)  # type: ignore[arg-type]  # not complex any more
        return whole if kind.is_signed or whole >= 0 else whole + 2 ** (8 * kind.itemsize)
    return value
