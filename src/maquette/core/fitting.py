"""Numbers that go into elements of a type: what the type is called in C++, and what fits in it."""

import math
from typing import TypeVar, cast

import numpy as np

from maquette.core import scalar_types as st
from maquette.core.errors import check
from maquette.core.limits import finfo, iinfo
from maquette.core.scalar_types import BOOL, COMPLEX, FLOAT, dtype

_T = TypeVar("_T")

# By type, the name that a C++ compiler prints and, where it is another, that sources use.
_C_NAMES = {
    st.bool_: ("bool", "bool"),
    st.uint8: ("unsigned char", "uint8_t"),
    st.int8: ("signed char", "int8_t"),
    st.int16: ("short int", "int16_t"),
    st.int32: ("int", "int"),
    st.int64: ("long int", "int64_t"),
    st.float16: ("c10::Half", "c10::Half"),
    st.bfloat16: ("c10::BFloat16", "c10::BFloat16"),
    st.float32: ("float", "float"),
    st.float64: ("double", "double"),
    st.complex64: ("c10::complex<float>", "c10::complex<float>"),
    st.complex128: ("c10::complex<double>", "c10::complex<double>"),
}
_WITHOUT_INFINITY = frozenset(
    (st.float8_e4m3fn, st.float8_e5m2fnuz, st.float8_e4m3fnuz, st.float8_e8m0fnu)
)


def c_name(kind: dtype) -> str:
    """The C++ name of a type, as messages about mixed types give it: ``long int``."""
    return _C_NAMES[kind][0] if kind in _C_NAMES else kind.name


def c_source_name(kind: dtype) -> str:
    """The C++ name of a type, as messages about overflow give it: ``int64_t``."""
    if kind in _C_NAMES:
        return _C_NAMES[kind][1]
    return f"c10::{kind.scalar_name}" if kind.category >= FLOAT else f"{kind.name}_t"


def plain(value: _T) -> _T:
    """A NumPy scalar as a number of Python's (T51); all else as it is."""
    if isinstance(value, np.longdouble):
        return cast(_T, float(value))
    return cast(_T, value.item()) if isinstance(value, np.generic) else value


def check_int(value: object) -> None:
    """OverflowError for a Python int that neither a signed nor an unsigned 64-bit integer holds."""
    if value.__class__ is int and not -(2**63) <= value < 2**64:
        if value > 0:
            raise OverflowError("int too big to convert")
        raise OverflowError("can't convert negative int to unsigned")


def check_fits(value: object, kind: dtype) -> None:
    """Refuse a number that a type cannot hold (T34); floats lose their fraction in silence.

    A negative number counts from the top in an unsigned type. What is no Python number, as a symbol
    is, is not known yet and passes. OverflowError for an int of more than 64 bits.
    """
    check_int(value)
    check(
        not isinstance(value, bool | int | float | complex) or _fits(value, kind),
        lambda: f"value cannot be converted to type {c_source_name(kind)} without overflow",
    )


def _fits(value: complex, kind: dtype) -> bool:
    if kind.category == BOOL or isinstance(value, bool):
        return True
    if isinstance(value, complex):
        if kind.category == COMPLEX:
            return _fits(value.real, kind) and _fits(value.imag, kind)
        return value.imag == 0 and _fits(value.real, kind)
    if kind.category >= FLOAT:
        real = kind.to_real()
        if math.isinf(value) and real not in _WITHOUT_INFINITY:
            return True
        return math.isnan(value) or abs(value) <= finfo(real).max
    limits = iinfo(kind)
    if isinstance(value, int) and not kind.is_signed:
        return abs(value) <= limits.max
    return math.isfinite(value) and limits.min <= value <= limits.max


def computing_type(kind: dtype) -> dtype:
    """The type that kernels compute in: float32 for floats of fewer bits."""
    return st.float32 if kind.category == FLOAT and kind.itemsize < 4 else kind
