"""What each type of the schema language accepts, and the one form kernels get it in.

Errors about calls are made in `matching`. The one idea: each kind of type has one converter, from
what a user may pass to the canonical form (lists as tuples, ints where floats are due as floats,
device strings as devices), which raises `Mismatch` for anything else. Arguments, results and the
defaults in schema texts are all converted by these rules.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Final, Protocol, TypeVar, cast

import numpy as np

from maquette.core.device import device
from maquette.core.dtype import all_dtypes, dtype
from maquette.core.layout import all_layouts, all_memory_formats, layout, memory_format
from maquette.core.symbols import is_true, node_of
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.schemas.types import SchemaType, fits_script_type

__all__ = ["Mismatch", "convert", "is_number"]

_INT64: Final = range(-(2**63), 2**63)
# A Scalar holds an int64 or a uint64.
_SCALAR_INTS: Final = range(-(2**63), 2**64)

_Named = TypeVar("_Named", dtype, layout, memory_format)

_DTYPES: Final = {d.code: d for d in all_dtypes}
_LAYOUTS: Final = {c.code: c for c in all_layouts}
_MEMORY_FORMATS: Final = {c.code: c for c in all_memory_formats}


class Mismatch(Exception):
    """A value does not fit a type; the text, if any, says more than the two types do."""


class _Readable(Protocol):
    """What is asked of a tensor that stands for a number or for a list of ints."""

    ndim: int

    def numel(self) -> int: ...

    def item(self) -> object: ...

    def tolist(self) -> list[object]: ...


def convert(type: SchemaType, value: object) -> object:
    """The value in the form that kernels get for this type; Mismatch when it does not fit."""
    return _CONVERTERS[type.kind](type, value)


def is_number(value: object) -> bool:
    """Whether this is a Python number, or a symbolic one."""
    return isinstance(value, int | float | complex) or _symbol_type(value) is not None


def plain_number(value: object) -> object:
    """A number of one of Python's own types, not of a subclass as NumPy's float64 is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return complex(value) if isinstance(value, complex) else value  # a symbol stays


def _symbol_type(value: object) -> type | None:
    """int, float or bool for a symbolic number, None for any other value."""
    return getattr(node_of(value), "pytype", None)


def _item(value: TensorBase) -> object:
    """The number in a tensor of one element."""
    tensor = cast(_Readable, value)
    if not is_true(tensor.numel() == 1):
        raise Mismatch("only a tensor of one element stands for a number")
    return tensor.item()


# --- numbers ---------------------------------------------------------------------------------


def _int(type: SchemaType, value: object) -> int:
    if isinstance(value, TensorBase):
        value = _whole(_item(value))
    if _symbol_type(value) in (int, bool):
        return int(cast(int, value))  # specialises: leaves an equality guard
    try:
        number = int(value) if isinstance(value, np.bool_) else index(cast(int, value))
    except TypeError:
        raise Mismatch from None
    if number not in _INT64:
        raise Mismatch("it does not fit in 64 bits")
    return number


def _whole(item: object) -> object:
    """What an int parameter makes of a tensor's element; unlike in PyTorch, no fraction is lost."""
    if not isinstance(item, float):
        return item
    if not item.is_integer():
        raise Mismatch(f"{item} is no integer")
    return int(item)


def _symint(type: SchemaType, value: object) -> object:
    if isinstance(value, TensorBase):
        value = _whole(_item(value))
    return value if _symbol_type(value) is int else _int(type, value)


def _float(type: SchemaType, value: object) -> float:
    if isinstance(value, TensorBase):
        value = _item(value)
    if isinstance(value, str | bytes | np.ndarray):  # float() would read or squeeze these
        raise Mismatch
    try:
        return float(cast(float, value))
    except TypeError:
        raise Mismatch from None
    except OverflowError:
        raise Mismatch("it is too large for a float") from None


def _symfloat(type: SchemaType, value: object) -> object:
    return value if _symbol_type(value) is float else _float(type, value)


def _bool(type: SchemaType, value: object) -> bool:
    if isinstance(value, TensorBase):
        value = _item(value)
        if isinstance(value, float):
            return bool(value)
    if isinstance(value, int | np.bool_ | np.integer) or _symbol_type(value) in (bool, int):
        return bool(value)
    raise Mismatch


def _symbool(type: SchemaType, value: object) -> object:
    return value if _symbol_type(value) is bool else _bool(type, value)


def _complex(type: SchemaType, value: object) -> complex:
    if isinstance(value, TensorBase):
        value = _item(value)
    return value if isinstance(value, complex) else complex(_float(type, value))


def _scalar(type: SchemaType, value: object) -> object:
    if isinstance(value, bool) or _symbol_type(value) is not None:
        return value
    if isinstance(value, int):
        number = int(value)  # of a class of its own, looking for it would walk the whole range
        if number not in _SCALAR_INTS:
            raise Mismatch("it does not fit in 64 bits")
        return number
    if isinstance(value, float):
        return float(value)  # a NumPy float64 is a float by class
    if isinstance(value, complex):
        return complex(value)
    raise Mismatch


# --- named values ----------------------------------------------------------------------------


def _tensor(type: SchemaType, value: object) -> object:
    if isinstance(value, TensorBase):
        return value
    raise Mismatch


def _str(type: SchemaType, value: object) -> str:
    if isinstance(value, str):
        return value
    raise Mismatch


def _dtype(type: SchemaType, value: object) -> dtype:
    return value if isinstance(value, dtype) else _by_code(_DTYPES, "dtype", value)


def _layout(type: SchemaType, value: object) -> layout:
    return value if isinstance(value, layout) else _by_code(_LAYOUTS, "layout", value)


def _memory_format(type: SchemaType, value: object) -> memory_format:
    if isinstance(value, memory_format):
        return value
    return _by_code(_MEMORY_FORMATS, "memory format", value)


def _by_code(table: dict[int, _Named], what: str, code: object) -> _Named:
    if not isinstance(code, int):
        raise Mismatch(f"a {what} is due")
    if code not in table:
        raise Mismatch(f"no {what} has the code {code}")
    return table[code]


def _device(type: SchemaType, value: object) -> device:
    if isinstance(value, str | device):
        return device(value)
    raise Mismatch("a device or a string such as 'cuda:0' is due")


def _generator(type: SchemaType, value: object) -> object:
    # Generators are made in a layer above; this is what every one can do.
    if hasattr(value, "manual_seed"):
        return value
    raise Mismatch


def _enum(type: SchemaType, value: object) -> object:
    if isinstance(value, enum.Enum):
        return value
    raise Mismatch


def _script(type: SchemaType, value: object) -> object:
    if fits_script_type(type, value):
        return value
    raise Mismatch


def _none(type: SchemaType, value: object) -> None:
    if value is not None:
        raise Mismatch


def _anything(type: SchemaType, value: object) -> object:
    return value


def _object(type: SchemaType, value: object) -> object:
    """Opaque kinds that this package makes no values of: anything but None."""
    if value is None:
        raise Mismatch
    return value


# --- composites ------------------------------------------------------------------------------


def _optional(type: SchemaType, value: object) -> object:
    return None if value is None else convert(type.params[0], value)


def _list(type: SchemaType, value: object) -> tuple[object, ...]:
    elem = type.params[0]
    values = _elements(elem, value)
    if values is None:
        return _copies(type, elem, value)
    converter = _CONVERTERS[elem.kind]
    converted: list[object] = []
    for i, v in enumerate(values):
        try:
            converted.append(converter(elem, v))
        except Mismatch as mismatch:
            found = f"element {i} is of type '{v.__class__.__name__}'"
            raise Mismatch(f"{found}: {mismatch}" if str(mismatch) else found) from None
    return tuple(converted)


def _elements(elem: SchemaType, value: object) -> Iterable[object] | None:
    """The elements of what may be passed for a list; None when it is no list (D48)."""
    if isinstance(value, list | tuple | range):
        return value
    if isinstance(value, np.ndarray):
        return cast(list[object], value.tolist()) if value.ndim == 1 else None
    if isinstance(value, TensorBase) and elem.kind in ("int", "symint"):
        tensor = cast(_Readable, value)
        return tensor.tolist() if tensor.ndim == 1 else None
    if isinstance(value, TensorBase) and elem.written == "Tensor?":
        return list(cast(Iterable[object], value))  # indices: its rows, or its numbers
    if isinstance(value, int | float | str | bytes) or not isinstance(value, Sequence):
        return None
    return value


def _copies(type: SchemaType, elem: SchemaType, value: object) -> tuple[object, ...]:
    """One number for a list of a given size stands for that many copies."""
    if type.size is None or isinstance(value, TensorBase):
        raise Mismatch("a list is due")
    if elem.kind not in ("int", "symint", "float", "symfloat"):
        raise Mismatch("a list is due")
    return (convert(elem, value),) * type.size


def _dict(type: SchemaType, value: object) -> object:
    if not isinstance(value, dict):
        raise Mismatch
    key, item = type.params
    return {convert(key, k): convert(item, v) for k, v in value.items()}


def _tuple(type: SchemaType, value: object) -> object:
    if not isinstance(value, tuple | list):
        raise Mismatch
    if len(value) != len(type.params):
        raise Mismatch(f"{len(type.params)} elements are due, not {len(value)}")
    return tuple(map(convert, type.params, value))


def _union(type: SchemaType, value: object) -> object:
    for member in type.params:
        try:
            return convert(member, value)
        except Mismatch:
            continue
    raise Mismatch


_CONVERTERS: Final[dict[str, Callable[[SchemaType, object], object]]] = {
    "any": _anything,
    "await": _object,
    "bool": _bool,
    "capsule": _object,
    "complex": _complex,
    "device": _device,
    "dict": _dict,
    "dtype": _dtype,
    "enum": _enum,
    "float": _float,
    "future": _object,
    "generator": _generator,
    "int": _int,
    "layout": _layout,
    "list": _list,
    "memory_format": _memory_format,
    "none": _none,
    "optional": _optional,
    "qscheme": _object,
    "quantizer": _object,
    "rref": _object,
    "scalar": _scalar,
    "script": _script,
    "storage": _object,
    "str": _str,
    "stream": _object,
    "symbool": _symbool,
    "symfloat": _symfloat,
    "symint": _symint,
    "tensor": _tensor,
    "tuple": _tuple,
    "typevar": _anything,
    "union": _union,
}
