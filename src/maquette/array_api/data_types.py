"""Dtypes as the array API standard has them: which there are, how they promote, how to cast.

What is here: the standard's data types and the functions on them, and `promoted`, by which other
modules bring several arrays to one dtype. The one idea: the standard promotes by dtypes alone,
while PyTorch lets an array without dimensions give way to one that has some; so arguments are cast
before an operator sees them.
"""

from __future__ import annotations

from typing import NamedTuple

from maquette.api import functions as mq
from maquette.core import dtype as _dtypes
from maquette.core.device import device as Device
from maquette.core.dtype import (
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from maquette.core.dtype import (
    dtype as DType,
)
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex

KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool_,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
KINDS["integral"] = (*KINDS["signed integer"], *KINDS["unsigned integer"])
KINDS["numeric"] = (*KINDS["integral"], *KINDS["real floating"], *KINDS["complex floating"])


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether the dtype is one of the given kinds: dtypes, or the standard's names for several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: expected a kind among {', '.join(KINDS)}, got {kind!r}")
        return dtype in KINDS[kind]
    return dtype == kind


def astype(
    x: Tensor, dtype: DType, /, *, copy: bool = True, device: Device | str | None = None
) -> Tensor:
    """The array in another dtype; itself where nothing is to be done and ``copy`` is false."""
    if x.dtype.is_complex and not dtype.is_complex and dtype is not bool_:
        raise TypeError(
            f"astype: expected a complex dtype for an array of {x.dtype}, got {dtype}; take "
            f"real(x) or imag(x) first"
        )
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def can_cast(from_: DType | Tensor, to: DType, /) -> bool:
    """Whether promotion could lead from one dtype to the other."""
    given = from_.dtype if isinstance(from_, Tensor) else from_
    try:
        return _joined(given, to) == to
    except TypeError:
        return False


class FloatInfo(NamedTuple):
    """The limits of a floating dtype; of a complex one, those of its parts, which `dtype` is."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DType | Tensor, /) -> FloatInfo:
    """The limits of a floating dtype."""
    dtype = _dtype_of(type)
    dtype = {complex64: float32, complex128: float64}.get(dtype, dtype)
    found = _dtypes.finfo(dtype)
    limits = found.bits, found.eps, found.max, found.min, found.smallest_normal
    return FloatInfo(*limits, dtype)


def iinfo(type: DType | Tensor, /) -> IntegerInfo:
    """The limits of an integer dtype."""
    dtype = _dtype_of(type)
    found = _dtypes.iinfo(dtype)
    return IntegerInfo(found.bits, found.max, found.min, dtype)


def result_type(*arrays_and_dtypes: Tensor | DType | Number) -> DType:
    """The dtype of a result of these; numbers count by their kind alone."""
    dtypes = [_dtype_of(v) for v in arrays_and_dtypes if isinstance(v, (Tensor, DType))]
    numbers = [v for v in arrays_and_dtypes if not isinstance(v, (Tensor, DType))]
    if not dtypes:
        raise ValueError("result_type: expected at least one array or dtype")
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = _joined(found, dtype)
    for number in numbers:
        found = _with_number(found, number)
    return found


def _dtype_of(value: Tensor | DType) -> DType:
    return value.dtype if isinstance(value, Tensor) else value


def _joined(one: DType, other: DType) -> DType:
    if one == other:
        return one
    unsigned = KINDS["unsigned integer"]
    if one in KINDS["integral"] and other in KINDS["integral"]:
        if (one in unsigned) == (other in unsigned):
            return one if one.itemsize > other.itemsize else other
        return _signed_for(one, other) if one in unsigned else _signed_for(other, one)
    if bool_ in (one, other):
        raise TypeError(f"expected dtypes of one kind, got {one} and {other}; cast one with astype")
    for integer, wide in ((one, other), (other, one)):
        if integer in KINDS["integral"]:  # which the standard leaves open: PyTorch's answer
            return wide
    return promote_types(one, other)


def _signed_for(unsigned: DType, signed: DType) -> DType:
    """The least signed dtype for the values of both; PyTorch has one for uint8 only."""
    for wide in KINDS["signed integer"]:
        if wide.itemsize > unsigned.itemsize and wide.itemsize >= signed.itemsize:
            return wide
    raise TypeError(
        f"expected dtypes that an integer dtype can hold, got {unsigned} and {signed}; cast one "
        f"with astype"
    )


_RANKS: dict[type, int] = {bool: 0, int: 1, float: 2, complex: 3}


def _rank(dtype: DType) -> int:
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 0 if dtype is bool_ else 1


def _with_number(dtype: DType, number: object) -> DType:
    wanted = _RANKS.get(type(number), 0)
    own = _rank(dtype)
    if wanted <= own:
        return dtype
    if own == 2:  # a complex number beside a real floating array
        return complex128 if dtype is float64 else complex64
    raise TypeError(
        f"expected a number of the kind of {dtype}, got {number!r}; cast the array with astype"
    )


def promoted(name: str, *values: Tensor | Number) -> list[Tensor]:
    """The arguments of an elementwise function as arrays of their common dtype."""
    arrays = [v for v in values if isinstance(v, Tensor)]
    if not arrays:
        raise TypeError(f"{name}: expected at least one array, got only numbers: {values}")
    dtype = result_type(*values)
    device = arrays[0].device
    return [
        v.to(dtype) if isinstance(v, Tensor) else mq.full((), v, dtype=dtype, device=device)
        for v in values
    ]
