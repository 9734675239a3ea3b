"""The element types: interned constants and their facts.

A `dtype` is compared by identity. NumPy's counterparts are looked up when first asked for, since
most metadata work never needs them. How types combine is in `promotion`; the names that users
write, aliases included, are in `dtype`.
"""

import functools
import importlib
from typing import Final, NoReturn, Self

import numpy as np
import numpy.typing as npt

from maquette.core.errors import check, check_type, check_value

OPAQUE: Final = -1
BOOL: Final = 0
INT: Final = 1
FLOAT: Final = 2
COMPLEX: Final = 3


_SHORT_KINDS: Final = {
    "bool": "b8", "uint": "u", "int": "i", "bfloat": "bf", "float": "f", "complex": "c",
}  # fmt: skip
_UNSIGNED: Final = ("uint", "bits", "quint", "float8_e8m0fnu")


class dtype:
    """The type of a tensor's elements.

    `category` orders bool 0 < int 1 < float 2 < complex 3, and is -1 where nothing is computed;
    `code` is PyTorch's number of the type and `scalar_name` its name in messages ("Float", "Long").
    """

    # Where all of them stand under their names, by which pickles find them.
    __module__ = "maquette.core.dtype"
    __slots__ = (
        "__weakref__", "_numpy", "category", "code", "is_complex", "is_floating_point",
        "is_signed", "itemsize", "name", "scalar_name",
    )  # fmt: skip

    name: str
    scalar_name: str
    code: int
    itemsize: int
    category: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    _numpy: "np.dtype[np.generic] | None"

    def __init__(self, name: str, scalar_name: str, code: int, itemsize: int, category: int):
        facts = {
            "name": name,
            "scalar_name": scalar_name,
            "code": code,
            "itemsize": itemsize,
            "category": category,
            "is_floating_point": category == FLOAT,
            "is_complex": category == COMPLEX,
            "is_signed": category != BOOL and not name.startswith(_UNSIGNED),
            "_numpy": None,
        }
        for attribute, fact in facts.items():
            object.__setattr__(self, attribute, fact)

    @property
    def numpy(self) -> "np.dtype[np.generic]":
        """NumPy's type of the same elements; TypeError for complex32 where ml_dtypes lacks it."""
        if self._numpy is not None:
            return self._numpy
        found = _numpy_counterpart(self)
        object.__setattr__(self, "_numpy", found)
        return found

    @property
    def abbr(self) -> str:
        """The name in short: ``f32``, ``bf16``, ``i64``, ``b8``; of an opaque type, the name."""
        if self.category == OPAQUE and not self.name.startswith("float"):
            return self.name
        kind = self.name.rstrip("0123456789") if "_" not in self.name else "float"
        width = self.name.removeprefix(kind).replace("_", "")
        return f"{_SHORT_KINDS[kind]}{width}"

    def to_real(self) -> "dtype":
        """The type of a complex type's parts; other types are their own."""
        return _REAL_OF.get(self, self)

    def to_complex(self) -> "dtype":
        """The complex type for values of this float type; RuntimeError if there is none."""
        check(
            self in _COMPLEX_OF,
            lambda: f"Unknown Complex ScalarType for {self.scalar_name}",
        )
        return _COMPLEX_OF[self]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self} is immutable; cannot set {name!r}")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


uint8 = dtype("uint8", "Byte", 0, 1, INT)
int8 = dtype("int8", "Char", 1, 1, INT)
int16 = dtype("int16", "Short", 2, 2, INT)
int32 = dtype("int32", "Int", 3, 4, INT)
int64 = dtype("int64", "Long", 4, 8, INT)
float16 = dtype("float16", "Half", 5, 2, FLOAT)
float32 = dtype("float32", "Float", 6, 4, FLOAT)
float64 = dtype("float64", "Double", 7, 8, FLOAT)
complex32 = dtype("complex32", "ComplexHalf", 8, 4, COMPLEX)
complex64 = dtype("complex64", "ComplexFloat", 9, 8, COMPLEX)
complex128 = dtype("complex128", "ComplexDouble", 10, 16, COMPLEX)
bool_ = dtype("bool", "Bool", 11, 1, BOOL)
bfloat16 = dtype("bfloat16", "BFloat16", 15, 2, FLOAT)
float8_e5m2 = dtype("float8_e5m2", "Float8_e5m2", 23, 1, FLOAT)
float8_e4m3fn = dtype("float8_e4m3fn", "Float8_e4m3fn", 24, 1, FLOAT)
float8_e5m2fnuz = dtype("float8_e5m2fnuz", "Float8_e5m2fnuz", 25, 1, FLOAT)
float8_e4m3fnuz = dtype("float8_e4m3fnuz", "Float8_e4m3fnuz", 26, 1, FLOAT)
uint16 = dtype("uint16", "UInt16", 27, 2, INT)
uint32 = dtype("uint32", "UInt32", 28, 4, INT)
uint64 = dtype("uint64", "UInt64", 29, 8, INT)
float8_e8m0fnu = dtype("float8_e8m0fnu", "Float8_e8m0fnu", 44, 1, FLOAT)

all_dtypes: Final = (
    uint8, int8, int16, int32, int64, float16, float32, float64, complex32, complex64, complex128,
    bool_, bfloat16, float8_e5m2, float8_e4m3fn, float8_e5m2fnuz, float8_e4m3fnuz, uint16, uint32,
    uint64, float8_e8m0fnu,
)  # fmt: skip

# Types whose elements nothing computes with: several in a byte, or scaled integers. A tensor of one
# can be made, copied as it is and viewed as bytes.
_OPAQUE: Final = {
    "qint8": ("QInt8", 12, 1),
    "quint8": ("QUInt8", 13, 1),
    "qint32": ("QInt32", 14, 4),
    "quint4x2": ("QUInt4x2", 16, 1),
    "quint2x4": ("QUInt2x4", 17, 1),
    "bits1x8": ("Bits1x8", 18, 1),
    "bits2x4": ("Bits2x4", 19, 1),
    "bits4x2": ("Bits4x2", 20, 1),
    "bits8": ("Bits8", 21, 1),
    "bits16": ("Bits16", 22, 2),
    **{f"uint{n}": (f"UInt{n}", 29 + n, 1) for n in range(1, 8)},
    **{f"int{n}": (f"Int{n}", 36 + n, 1) for n in range(1, 8)},
    "float4_e2m1fn_x2": ("Float4_e2m1fn_x2", 45, 1),
}
opaque_dtypes: Final = tuple(
    dtype(name, *facts, FLOAT if name.startswith("float") else OPAQUE)
    for name, facts in _OPAQUE.items()
)

_BY_CODE: Final = {each.code: each for each in (*all_dtypes, *opaque_dtypes)}
_BY_NUMPY_NAME: Final = {each.name: each for each in all_dtypes}
_EXTENSION_TYPES: Final = frozenset(
    {
        bfloat16,
        complex32,
        float8_e5m2,
        float8_e4m3fn,
        float8_e5m2fnuz,
        float8_e4m3fnuz,
        float8_e8m0fnu,
    }
)
_REAL_OF: Final = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX_OF: Final = {
    float16: complex32,
    bfloat16: complex64,  # the range of bfloat16 is float32's
    float32: complex64,
    float64: complex128,
    complex32: complex32,
    complex64: complex64,
    complex128: complex128,
}


def from_code(code: int) -> dtype:
    """The dtype of PyTorch's number; ValueError for a number that names none."""
    check_value(
        code in _BY_CODE,
        lambda: (
            f"{code} is no ScalarType; known: "
            + ", ".join(f"{known} {each}" for known, each in _BY_CODE.items())
        ),
    )
    return _BY_CODE[code]


def from_numpy_dtype(numpy_dtype: npt.DTypeLike) -> dtype:
    """The dtype of a NumPy array's elements.

    TypeError for a type no tensor holds, ValueError for a foreign byte order.
    """
    return _of_numpy(np.dtype(numpy_dtype))


@functools.cache  # NumPy makes a name anew whenever it is asked for one
def _of_numpy(given: "np.dtype[np.generic]") -> dtype:
    check_type(
        given.name in _BY_NUMPY_NAME,
        lambda: (
            f"can't convert np.ndarray of type {given}. The only supported types are: "
            f"{', '.join(_BY_NUMPY_NAME)}."
        ),
    )
    check_value(
        given.isnative,
        lambda: (
            f"given numpy array of dtype {given} has byte order different from the native "
            f"byte order; convert it first: array.astype(array.dtype.newbyteorder('='))"
        ),
    )
    return _BY_NUMPY_NAME[given.name]


def is_complex_type(numpy_dtype: "np.dtype[np.generic]") -> bool:
    """Whether elements of a NumPy type are complex; NumPy's own kind misses complex32."""
    return numpy_dtype.kind == "c" or numpy_dtype.name == "complex32"


def _numpy_counterpart(wanted: dtype) -> "np.dtype[np.generic]":
    if wanted in _EXTENSION_TYPES:
        # A tenth of NumPy's own import time, which few programs need.
        extension = importlib.import_module("ml_dtypes")
        check_type(
            hasattr(extension, wanted.name),
            lambda: f"this ml_dtypes has no {wanted.name}: use ml_dtypes>=0.6 or complex64",
        )
        scalar_type: type[np.generic] = getattr(extension, wanted.name)
        return np.dtype(scalar_type)
    if wanted.name in _OPAQUE:
        return np.dtype((np.void, wanted.itemsize))
    return np.dtype(wanted.name)
