"""The numeric limits of element types: `finfo` and `iinfo`."""

import math
from typing import Final, NamedTuple

from maquette.core import scalar_types as st
from maquette.core.errors import check_type
from maquette.core.promotion import get_default_dtype
from maquette.core.scalar_types import INT, dtype


class _Format(NamedTuple):
    """A binary float format: explicit mantissa bits, least normal exponent, largest value."""

    mantissa_bits: int
    least_exponent: int
    largest: float


_FORMATS: Final = {
    st.float16: _Format(10, -14, 65504.0),
    st.bfloat16: _Format(7, -126, (2 - 2.0**-7) * 2.0**127),
    st.float32: _Format(23, -126, (2 - 2.0**-23) * 2.0**127),
    st.float64: _Format(52, -1022, (2 - 2.0**-52) * 2.0**1023),
    st.float8_e5m2: _Format(2, -14, 57344.0),
    st.float8_e4m3fn: _Format(3, -6, 448.0),
    st.float8_e5m2fnuz: _Format(2, -15, 57344.0),
    st.float8_e4m3fnuz: _Format(3, -7, 240.0),
    st.float8_e8m0fnu: _Format(0, -127, 2.0**127),
}


# What Python's types stand for, here as wherever a dtype is asked for.
_PYTHON: Final[dict[object, dtype]] = {float: st.float64, int: st.int64, complex: st.complex128}


def _no_dtype(name: str, given: object) -> str:
    kind = given.__class__.__name__
    return f"{name}(): argument 'type' (position 1) must be torch.dtype, not {kind}"


class finfo:
    """The limits of a floating point type; a complex type has its parts' limits.

    Raises TypeError for an integer type. Differs: float8_e5m2fnuz has eps 0.25, the distance from
    1 to the next number, where PyTorch says 0.125.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtype | None = None) -> None:
        type = _PYTHON.get(type, type)
        check_type(type is None or isinstance(type, dtype), lambda: _no_dtype("finfo", type))
        real = (get_default_dtype() if type is None else type).to_real()
        check_type(
            real in _FORMATS,
            lambda: (
                "torch.finfo() requires a floating point input type. Use torch.iinfo to "
                "handle 'torch.finfo'"
            ),
        )
        mantissa_bits, least_exponent, largest = _FORMATS[real]
        self.dtype = real.name
        self.bits = 8 * real.itemsize
        self.max = largest
        self.min = -largest if real.is_signed else 2.0**least_exponent
        self.eps = 2.0**-mantissa_bits
        self.tiny = self.smallest_normal = 2.0**least_exponent
        self.resolution = float(f"1e-{math.floor(mantissa_bits * math.log10(2))}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((finfo, self.dtype))


class iinfo:
    """The limits of an integer type; TypeError for any other type."""

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        type = _PYTHON.get(type, type)
        check_type(isinstance(type, dtype), lambda: _no_dtype("iinfo", type))
        check_type(
            not (type.is_floating_point or type.is_complex),
            lambda: (
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                "'torch.iinfo'"
            ),
        )
        check_type(type.category == INT, lambda: f"{type} is not supported by torch.iinfo")
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -self.max - 1 if type.is_signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((iinfo, self.dtype))
