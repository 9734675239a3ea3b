"""Element types under the names that users write.

The constants are made in `scalar_types`, combined in `promotion`, measured in `limits`. Some
names here hide Python's builtins, so import the module or the names you need, never `*`.
"""

from maquette.core.limits import finfo, iinfo
from maquette.core.promotion import (
    can_cast,
    default_complex_dtype,
    get_default_dtype,
    number_dtype,
    promote_types,
    result_type_of,
    set_default_dtype,
)
from maquette.core.scalar_types import (
    all_dtypes,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    from_code,
    from_numpy_dtype,
    int8,
    int16,
    int32,
    int64,
    opaque_dtypes,
    uint8,
    uint16,
    uint32,
    uint64,
)

bool = bool_
short = int16
int = int32
long = int64
half = float16
float = float32
double = float64
chalf = complex32
cfloat = complex64
cdouble = complex128

_OPAQUE = {kind.name: kind for kind in opaque_dtypes}


def __getattr__(name: str) -> dtype:
    """An opaque dtype, by which pickles find it."""
    if name in _OPAQUE:
        return _OPAQUE[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "all_dtypes", "bfloat16", "bool", "bool_", "can_cast", "cdouble", "cfloat", "chalf",
    "complex32", "complex64", "complex128", "default_complex_dtype", "double", "dtype", "finfo",
    "float", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float16", "float32", "float64", "from_code", "from_numpy_dtype",
    "get_default_dtype", "half", "iinfo", "int", "int8", "int16", "int32", "int64", "long",
    "number_dtype", "promote_types",
    "result_type_of", "set_default_dtype", "short", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
