"""How element types combine, and the default types that Python numbers stand for.

Types fall into four categories, bool < int < float < complex. Operands fall into three classes:
tensors with dimensions, 0-dim tensors, Python numbers. A class counts only against a weaker one
unless the weaker has the higher category.
"""

import numbers
from collections.abc import Iterable
from functools import cache
from typing import Final, Protocol, TypeAlias

from maquette.core import scalar_types as st
from maquette.core.errors import check, check_type
from maquette.core.meta import TensorMeta
from maquette.core.scalar_types import COMPLEX, FLOAT, dtype
from maquette.core.symbols import SymbolicNode, node_of


class SymbolicNumber(Protocol):
    """A symbolic int, float or bool."""

    @property
    def node(self) -> SymbolicNode:
        """Knows the kind of the number."""


Number: TypeAlias = bool | int | float | complex

_FLOAT8: Final = frozenset(
    {
        st.float8_e5m2,
        st.float8_e4m3fn,
        st.float8_e5m2fnuz,
        st.float8_e4m3fnuz,
        st.float8_e8m0fnu,
    }
)
_WIDE_UNSIGNED: Final = frozenset({st.uint16, st.uint32, st.uint64})

#: What Python's types of numbers stand for wherever a dtype is asked for.
PYTHON_DTYPES: Final[dict[object, dtype]] = {
    float: st.float64,
    int: st.int64,
    bool: st.bool_,
    complex: st.complex128,
}

# The default types are the process's, as in PyTorch; `set_default_dtype` is their only writer.
defaults: Final = {"float": st.float32, "complex": st.complex64}


def get_default_dtype() -> dtype:
    """The float type of Python floats and of factories not told a dtype."""
    return defaults["float"]


def default_complex_dtype() -> dtype:
    """The complex type of Python complex numbers: the default dtype's."""
    return defaults["complex"]


def set_default_dtype(d: dtype, /) -> None:
    """Set the default dtype; TypeError unless it is a floating point type of 16 bits or more."""
    check_type(
        isinstance(d, dtype) and d.is_floating_point and d not in _FLOAT8,
        lambda: f"only floating-point types are supported as the default type; got {d!r}",
    )
    defaults.update(float=d, complex=d.to_complex())


@cache  # at most 400 pairs
def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest type that both convert to (spec T30).

    RuntimeError for float8 with another type, and for uint16, uint32 and uint64 with another
    type than floats.
    """
    if a is b:
        return a
    check(
        a not in _FLOAT8 and b not in _FLOAT8,
        lambda: (
            f"Promotion for Float8 Types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        ),
    )
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        return _promote_wide_unsigned(a, b)
    low, high = sorted((a, b), key=_rank)
    if low.category == high.category:
        return _promote_equals(low, high)
    if low.category == FLOAT:
        return max(low.to_complex(), high, key=_rank)
    return high


def _rank(d: dtype) -> tuple[int, int]:
    return d.category, d.itemsize


def _promote_equals(low: dtype, high: dtype) -> dtype:
    """Promote two types of one category, of which `low` is no wider than `high`."""
    if low.itemsize < high.itemsize:
        return high
    return st.float32 if high.category == FLOAT else st.int16  # float16, bfloat16; uint8, int8


def _promote_wide_unsigned(a: dtype, b: dtype) -> dtype:
    check(
        a.is_floating_point or b.is_floating_point,
        lambda: (
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to "
            f"promote {a.scalar_name} and {b.scalar_name}"
        ),
    )
    return a if a.is_floating_point else b


def number_dtype(number: Number | SymbolicNumber) -> dtype:
    """The type a Python number stands for: bool, int64, or a default type (spec T29)."""
    exact = number.__class__  # told without the abstract classes of numbers: 2.2 to 0.1 us
    if exact is float:
        return get_default_dtype()
    if exact is int:
        return st.int64
    node = node_of(number)
    kind = type(number) if node is None else node.pytype
    if issubclass(kind, bool):
        return st.bool_
    if issubclass(kind, numbers.Integral):
        return st.int64
    if issubclass(kind, numbers.Real):
        return get_default_dtype()
    check_type(
        issubclass(kind, numbers.Complex),
        lambda: f"expected a number (bool, int, float, complex), got {kind.__name__}",
    )
    return default_complex_dtype()


def result_type_of(operands: Iterable[TensorMeta | Number | SymbolicNumber]) -> dtype:
    """The type that an elementwise operation computes in (spec T28); ValueError for none."""
    tensors: dtype | None = None
    zero_dim: dtype | None = None
    python: dtype | None = None
    for operand in operands:
        if not isinstance(operand, TensorMeta):
            python = _joined(python, number_dtype(operand))
        elif operand.ndim:
            tensors = _joined(tensors, operand.dtype)
        else:
            zero_dim = _joined(zero_dim, operand.dtype)
    result = _combined(tensors, _combined(zero_dim, python))
    if result is None:
        raise ValueError("result_type_of() expects at least one operand, got none")
    return result


def _joined(a: dtype | None, b: dtype) -> dtype:
    return b if a is None else promote_types(a, b)


def _combined(strong: dtype | None, weak: dtype | None) -> dtype | None:
    """Combine the types of two classes: the weak one matters if its category is higher."""
    if strong is None or weak is None:
        return weak if strong is None else strong
    if weak.category <= strong.category:
        return strong
    if weak.category < COMPLEX:
        return promote_types(strong, weak)
    return strong.to_complex() if strong.category == FLOAT else weak


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of one type may be written to a tensor of another (spec T34).

    Raises TypeError for what is no dtype.
    """
    given, wanted = PYTHON_DTYPES.get(from_, from_), PYTHON_DTYPES.get(to, to)
    if not (isinstance(given, dtype) and isinstance(wanted, dtype)):
        raise TypeError(f"can_cast() takes two dtypes, got {from_!r} and {to!r}")
    return given.category <= wanted.category
