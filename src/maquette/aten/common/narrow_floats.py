"""Conversions to and from floats of 16 and 8 bits, and arithmetic of 16-bit floats.

PyTorch goes through float32: a double is rounded twice, and float8_e4m3fn, which has no infinity,
holds its largest number where another is too large. NumPy and ml_dtypes convert each number by
itself: large arrays are given to compiled loops, and 8 bits are looked up in tables of what
ml_dtypes makes of every number of 16.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.common.large_arrays import LARGE, LARGE_HALVES
from maquette.tensor.backend import backend_for

Array = npt.NDArray[Any]

_SINGLE = np.dtype(np.float32)
_SIXTEEN = frozenset({"float16", "bfloat16"})
_EIGHT = frozenset({"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"})
_MOST = 448.0  # of float8_e4m3fn


def converted(array: Array, kind: np.dtype[Any]) -> Array:
    """``array.astype(kind)``, through float32 where one of the types is a narrow float."""
    if array.__class__ is np.ndarray and (kind.itemsize <= 2 or array.itemsize <= 2):
        return _way(array.dtype, kind)(array)
    return array.astype(kind)


@cache
def _way(given: np.dtype[Any], kind: np.dtype[Any]) -> Callable[[Array], Array]:
    """How arrays of one type are made arrays of another, of which one may be narrow."""

    def plainly(array: Array) -> Array:
        return array.astype(kind)

    def through_single(array: Array) -> Array:
        real = array.real if given.kind == "c" else array
        return converted(real.astype(_SINGLE), kind)

    def from_single(array: Array) -> Array:
        return (
            converted(converted(array, _SINGLE), kind)
            if array.size >= LARGE_HALVES
            else plainly(array)
        )

    def by_loop(array: Array) -> Array:
        loops = backend_for(np).loops if array.size >= LARGE_HALVES else None
        return array.astype(kind) if loops is None else loops.converted(array, kind)

    def looked_up(array: Array) -> Array:
        if array.size < LARGE:
            return _saturated(array, kind).astype(kind)
        loops, table = backend_for(np).loops, _table(given, kind)
        if loops is not None:
            return loops.looked_up(array, table)
        bits = np.asarray(array, order="C").view(f"u{given.itemsize}")
        places = _with_what_is_cut(bits) if given == _SINGLE else bits
        return np.take(table, places)

    def truth(array: Array) -> Array:
        found: Array = np.asarray(array, order="C").view(np.uint16) << np.uint16(1) != 0
        return found

    narrow = _SIXTEEN | _EIGHT
    if kind.kind == "b" and given.name in _SIXTEEN:
        return truth
    if not {given.name, kind.name} & narrow or given == kind or kind.kind == "b":
        return plainly
    if kind.name in narrow and given.name not in narrow and given != _SINGLE:
        return through_single
    if (given.name in _EIGHT) != (kind.name in _EIGHT):
        wider = kind if given.name in _EIGHT else given
        return looked_up if wider == _SINGLE or wider.name in _SIXTEEN else from_single
    return by_loop if _SINGLE in (given, kind) else from_single


def _saturated(array: Array, kind: np.dtype[Any]) -> Array:
    if kind.name != "float8_e4m3fn":
        return array
    most = array.dtype.type(_MOST)
    return np.minimum(np.maximum(array, -most), most)


def _with_what_is_cut(bits: Array) -> Array:
    """The upper 16 bits of single numbers, the last of them set if a lower one is.

    No float of 8 bits is halfway between two numbers that such a one stands for.
    """
    cut = bits & np.uint32(0xFFFF) != 0
    return (bits >> np.uint32(16)).astype(np.uint16) | cut


@cache
def _table(given: np.dtype[Any], kind: np.dtype[Any]) -> Array:
    """What becomes of each pattern of bits; of those that begin single numbers for float32."""
    if given.itemsize == 1:
        every = np.arange(1 << 8, dtype=np.uint8).view(given)
    else:
        every = np.arange(1 << 16, dtype=np.uint16)
        every = every.view(given) if given != _SINGLE else _beginnings(every)
    return _saturated(every, kind).astype(kind)


def _beginnings(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(_SINGLE)


def write(target: Array, values: Array) -> None:
    """``target[...] = values`` in the target's type, whatever is lost."""
    kind = target.dtype
    if values.dtype is not kind and (kind.itemsize <= 2 or values.itemsize <= 2):
        loops = backend_for(np).loops if values.size >= LARGE_HALVES else None
        if loops is not None and loops.converted_into(target, values):
            return
        values = converted(values, kind)
    if is_foreign(np, kind):
        target, values = as_bits(target), as_bits(values)
    np.copyto(target, values, casting="unsafe")


def as_bits(x: Array) -> Array:
    """16-bit floats as their bits: those NumPy spreads and strides over ten times as fast."""
    return x.view(np.uint16)


# NumPy fills another library's type an element at a time (10⁶ bfloat16: 0.5 to 0.04 ms).


def is_foreign(xp: ModuleType, kind: np.dtype[Any]) -> bool:
    """Whether NumPy is to copy a 16-bit type of another library, bfloat16."""
    return xp is np and kind.kind == "V" and kind.itemsize == 2


def _words(xp: ModuleType, kind: np.dtype[Any]) -> np.dtype[Any] | None:
    """As what words NumPy fills a type faster: complex64 as 64 bits, 10⁶ 0.29 to 0.15 ms."""
    if is_foreign(xp, kind):
        return _HALF_WORDS
    return _PAIR_WORDS if xp is np and kind is _PAIR else None


_HALF_WORDS, _PAIR_WORDS, _PAIR = np.dtype(np.uint16), np.dtype(np.uint64), np.dtype(np.complex64)


def full_of(xp: ModuleType, shape: Sequence[int], value: Any, kind: np.dtype[Any]) -> Array:
    """``xp.full``."""
    made: Array
    words = _words(xp, kind)
    if words is not None:
        bits = np.asarray(value).astype(kind).view(words)
        made = np.full(shape, bits, words).view(kind)
    else:
        made = xp.full(shape, value, kind)
    return made


def full_like(xp: ModuleType, like: Array, value: Any, kind: np.dtype[Any]) -> Array:
    """``xp.full_like``."""
    made: Array
    words = _words(xp, kind)
    if words is not None:
        bits = np.asarray(value).astype(kind).view(words)
        made = np.full_like(like, bits, words, subok=False).view(kind)
    else:
        made = xp.full_like(like, value, kind)
    return made


# Steps of the compiled loops, and the first of their numbers: the factor of what is added.
_STEPS = {
    operator.add: ("add", 1.0),
    operator.sub: ("add", -1.0),
    operator.mul: ("multiply", 0.0),
    operator.truediv: ("divide", 0.0),
}


def of_halves(act: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """``act(a, b)``, of `operator`, on arrays of one type of 16 bits; of floats in float32.

    NumPy and ml_dtypes convert each number by itself (float16: 5.6 to 0.5 ms).
    """
    narrow = a.__class__ is np.ndarray and a.dtype.kind not in "iu"
    loops = backend_for(np).loops if narrow else None
    if loops is None:
        return act(a, b)
    step, factor = _STEPS[act]
    found = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    loops.computed_on_halves(step, (a, b), (factor,), found)
    return found
