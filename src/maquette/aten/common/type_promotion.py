"""Operands of elementwise operators: their common type, on both sides of a page.

Shape rules promote metas, kernels promote arrays; both ask `core.promotion`, so they agree. The one
idea: a kernel gets its operands in the type that PyTorch computes in (bfloat16 and float16 in
float32) and never thinks of types again. The factories of pages are in `pointwise.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maquette.aten.common.large_arrays import LARGE, LARGE_HALVES
from maquette.aten.common.narrow_floats import converted, of_halves
from maquette.core.dtype import (
    bool_,
    complex32,
    dtype,
    float32,
    float64,
    from_numpy_dtype,
    get_default_dtype,
    result_type_of,
)
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import check_int
from maquette.core.meta import TensorMeta
from maquette.core.scalar_types import is_complex_type
from maquette.tensor.backend import backend_for

# To a type checker every array holds floats: what it must know is that they can be reckoned with.
Array: TypeAlias = npt.NDArray[np.float64]
Number = bool | int | float | complex
Operand = TensorMeta | Number
Kernel = Callable[..., Array]

BOOLS, INTS, FLOATS, COMPLEX = 0, 1, 2, 3
Takes: TypeAlias = frozenset[int] | frozenset[dtype]  # categories, or dtypes
REALS = frozenset((INTS, FLOATS))
NUMERIC = frozenset((INTS, FLOATS, COMPLEX))
FLOATING = frozenset((FLOATS, COMPLEX))
BITS = frozenset((BOOLS, INTS))
ORDERED = frozenset((BOOLS, INTS, FLOATS))
ANY = frozenset((BOOLS, INTS, FLOATS, COMPLEX))
REAL_FLOATS = frozenset((FLOATS,))
WIDE_FLOATS = frozenset((float32, float64))  # not those of 16 bits, which PyTorch's kernels lack

# --- result types ---------------------------------------------------------------------


def same(kind: dtype) -> dtype:
    """The result type of an operator that keeps its operand's."""
    return kind


def floating(kind: dtype) -> dtype:
    """The result type of a function of real numbers: the default dtype of integers and bools."""
    return kind if kind.category >= FLOATS else get_default_dtype()


def real(kind: dtype) -> dtype:
    """The result type of a magnitude: a complex operand gives its parts' type."""
    return kind.to_real()


def boolean(kind: dtype) -> dtype:
    """The result type of a predicate."""
    return bool_


def check_category(name: str, kind: dtype, takes: Takes) -> None:
    """Refuse a type that an operator has no kernel for, in PyTorch's words."""
    check_not_implemented(
        kind.category in takes or kind in takes,
        lambda: f"\"{name}_cpu\" not implemented for '{kind.scalar_name}'",
    )


def check_real_numbers(name: str, *numbers: object) -> None:
    """Refuse complex numbers for parameters of type Scalar with which real numbers are computed."""
    check(
        complex not in map(type, numbers),
        lambda: (
            f"value cannot be converted to type double without overflow: {name} computes with real "
            f"numbers, got {', '.join(map(str, numbers))}"
        ),
    )


def common_type(operands: Iterable[Operand], *, floats: bool = False) -> dtype:
    """The type that an elementwise operator computes in; ``floats``: never an integer type."""
    operands = tuple(operands)
    kind = result_type_of(operands)
    if not (kind.is_floating_point or kind.is_complex):
        for operand in operands:
            check_int(operand)
    return floating(kind) if floats else kind


# --- operands of kernels --------------------------------------------------------------

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
_C64 = np.dtype(np.complex64)


@cache
def _kind_of(numpy_dtype: np.dtype[np.generic]) -> dtype:
    return from_numpy_dtype(numpy_dtype)


@cache
def _meta_of(numpy_dtype: np.dtype[np.generic], has_dims: bool) -> TensorMeta:
    """What promotion asks of an array: its type, and whether it has dimensions."""
    return TensorMeta.of(_kind_of(numpy_dtype), (1,) if has_dims else ())


@cache
def wide_type(kind: dtype) -> np.dtype[np.generic]:
    """NumPy's type for computing with ``kind``: float32 for floats of fewer bits."""
    if kind.category == FLOATS and kind.itemsize < 4:
        return F32
    if kind is complex32:
        return _C64
    return kind.numpy


def widened(array: Array) -> Array:
    """The array in the type a function of real or complex numbers is computed in."""
    given = array.dtype
    if given is F32 or given is F64:
        return array
    wide = wide_type(floating(_kind_of(given)))
    return array if given is wide else converted(array, wide)


def computed(array: Array) -> Array:
    """The array in the type that arithmetic on it is done in: floats of few bits as float32."""
    given = array.dtype
    if given is F32 or given is F64:
        return array
    wide = wide_type(_kind_of(given))
    return array if given is wide else converted(array, wide)


def promoted(xp: ModuleType, *operands: Array | Number, floats: bool = False) -> Sequence[Array]:
    """Arrays and numbers in the one type that PyTorch computes in.

    Where they promote to a float of 16 bits, operands of other dtypes are rounded to it first: a
    bfloat16 0.1 equals the number 0.1.
    """
    first = getattr(operands[0], "dtype", None)
    if first is F32 or first is F64:
        if all(getattr(o, "dtype", None) is first for o in operands):
            return operands  # type: ignore[return-value]  # arrays, all of them
    kinds = tuple([_kind_and_rank(o) for o in operands])
    wide, narrow = _computing_types(kinds, floats, get_default_dtype())
    if narrow is None:
        return [cast(xp, o, wide) for o in operands]
    return [_rounded(xp, o, narrow, wide) for o in operands]


def in_result_type(xp: ModuleType, *operands: Array | Number) -> Sequence[Array]:
    """`promoted`, but a float of 16 bits is computed in itself."""
    kinds = tuple([_kind_and_rank(o) for o in operands])
    _, narrow = _computing_types(kinds, False, get_default_dtype())
    computed = promoted(xp, *operands)
    return computed if narrow is None else [converted(o, narrow) for o in computed]


def factors(
    xp: ModuleType, self: Array | Number, other: Array | Number, *, floats: bool = False
) -> Sequence[Array]:
    """`promoted` for products and quotients, where a single number on the right is not rounded."""
    a, b = promoted(xp, self, other, floats=floats)
    if a.dtype is F32 and getattr(other, "size", 1) == 1:
        b = cast(xp, other, F32)
    return a, b


def _rounded(
    xp: ModuleType,
    value: Array | Number,
    narrow: np.dtype[np.generic],
    wide: np.dtype[np.generic],
) -> Array:
    if getattr(value, "dtype", None) == narrow:
        return cast(xp, value, wide)
    return converted(converted(cast(xp, value, wide), narrow), wide)


def _kind_and_rank(value: Array | Number) -> object:
    """What promotion asks of an operand: a class, or an array's type and whether it has dims."""
    if isinstance(value, bool | int | float | complex):
        return value.__class__
    return value.dtype, value.ndim > 0


def narrow_type(*operands: Array | Number) -> np.dtype[np.generic] | None:
    """The float type of 16 bits that arrays and numbers promote to; None if it is another."""
    kinds = tuple([_kind_and_rank(o) for o in operands])
    return _computing_types(kinds, False, get_default_dtype())[1]


@lru_cache(maxsize=4096)
def _computing_types(
    kinds: tuple[object, ...], floats: bool, default: dtype
) -> tuple[np.dtype[np.generic], np.dtype[np.generic] | None]:
    """The type to compute in, and the float type of 16 bits that it stands for, if it does."""
    common = _promoted_kind(kinds, floats, default)
    narrow = common.category == FLOATS and common.itemsize == 2
    return wide_type(common), common.numpy if narrow else None


def _promoted_kind(kinds: tuple[object, ...], floats: bool, default: dtype) -> dtype:
    operands: list[Operand] = []
    for kind in kinds:
        if isinstance(kind, tuple):
            operands.append(_meta_of(*kind))
        else:
            assert isinstance(kind, type)
            operands.append(kind(0))
    return common_type(operands, floats=floats)


def _outer_of_complex(xp: ModuleType, column: Array, row: Array) -> Array | None:
    """The product of a column and a row of complex numbers; None where they are no such.

    NumPy multiplies a row by one number at a time (10⁶ complex64: 0.70 to 0.17 ms).
    """
    if column.dtype.kind != "c" or column.ndim != 2 or column.shape[1] != 1:
        return None
    if row.shape[-1:] != (row.size,) or row.ndim > 2 or xp is not np:
        return None
    loops = backend_for(xp).loops if column.size * row.size >= LARGE else None
    if loops is None:
        return None
    products: Array = loops.outer_sum(None, column[:, 0], row.reshape(-1))
    return products


def direct(act: Callable[[Array, Array], Array], *, floats: bool = False) -> Kernel:
    """The kernel of a product or quotient, which arrays of one type need no promotion for.

    floats: integers are promoted to the default dtype.
    """

    def kernel(xp: ModuleType, self: Array, other: Array) -> Array:
        kind = other.__class__
        try:
            given = self.dtype
            if kind is float or kind is int:
                if given is F32 or given is F64:
                    return act(self, other)
            elif given is other.dtype and (not floats or given.kind in "fc"):
                if given is F32 or given is F64:
                    return act(self, other)
                if given.itemsize == 2 and self.size >= LARGE_HALVES:
                    return of_halves(act, self, other)
                outer = _outer_of_complex(xp, self, other) if act is operator.mul else None
                return act(self, other) if outer is None else outer
        except AttributeError:  # another number than a float or int, or one on the left
            pass
        a, b = factors(xp, self, other, floats=floats)
        return act(a, b)

    return kernel


_UFUNCS = {operator.add: np.add, operator.sub: np.subtract}


def direct_sum(act: Callable[[Array, Array], Array]) -> Kernel:
    """`direct` for ``+`` and ``-``, whose second operand is scaled by ``alpha``."""

    def kernel(xp: ModuleType, self: Array, other: Array, alpha: Number) -> Array:
        kind = other.__class__
        if alpha == 1:
            # As in `direct`, written out: one call more costs 0.07 us of 1.6 (make bench).
            try:
                given = self.dtype
                if kind is float or kind is int:
                    if given is F32 or given is F64:
                        return act(self, other)
                elif given is other.dtype:
                    if given is F32 or given.itemsize != 2 or self.size < LARGE_HALVES:
                        return act(self, other)
                    return of_halves(act, self, other)
            except AttributeError:
                pass
        a, b = promoted(xp, self, other)
        if alpha == 1:
            return act(a, b)
        narrow = narrow_type(self, other)
        factor = cast(xp, alpha, b.dtype)
        if narrow is not None:
            factor = factor.astype(narrow).astype(b.dtype)
        scaled = xp.multiply(b, factor)
        if xp is np and b.ndim and b.shape == a.shape:
            return _UFUNCS[act](a, scaled, out=scaled)
        return act(a, scaled)

    return kernel


def cast(xp: ModuleType, value: Array | Number, wanted: np.dtype[np.generic]) -> Array:
    """A value in a type, integers wrapping as PyTorch's do; a number becomes a 0-dim array."""
    if isinstance(value, bool | int | float | complex):
        numbers: Array = xp.asarray(_wrapped(value, wanted))
        return numbers
    return value if value.dtype is wanted else converted(value, wanted)


def _wrapped(value: Number, wanted: np.dtype[np.generic]) -> Array:
    if value.__class__ is float and wanted.kind == "f":
        return np.asarray(value, wanted)
    check_int(value)
    if isinstance(value, complex) and not is_complex_type(wanted):
        value = value.real
    if wanted.kind in "iu" and isinstance(value, int):
        # NumPy refuses integers out of range, PyTorch takes them modulo two to the bits.
        value = int(value) & ((1 << (8 * wanted.itemsize)) - 1)
        return np.array(value, f"u{wanted.itemsize}").view(wanted)
    return np.asarray(value).astype(wanted)


def array_type(array: Array) -> dtype:
    """The dtype of a kernel's array."""
    return _kind_of(array.dtype)


def special(xp: ModuleType) -> ModuleType:
    """The special functions (erf, gamma ...) that go with an array namespace."""
    return backend_for(xp).special
