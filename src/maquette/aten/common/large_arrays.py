"""What NumPy's own functions do slowly on large arrays, done by others of NumPy's functions.

NumPy chooses between two values, and rounds a quotient down, with a branch an element, which costs
7 to 40 times as much as arithmetic without one where the outcome is random; its sums at repeated
positions are slow for all but flat arrays; SciPy's ``erf`` takes 20 ns an element. Each function
here gives what the plain one gives; figures are for 10⁶ float32 on one core (NumPy 2.4). On other
array libraries, and on arrays that do not fit, the plain function is called.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.tensor.backend import backend_for

Array = npt.NDArray[Any]

SMALL = 4096  # elements below which the plain functions are as fast
BLOCK = 1 << 14  # elements that stay in a core's cache between the passes over them
WIDE_ROW = 256  # elements from which a row is added at once: 0.6 us, or 2.2 ns an element

# Elements from which a compiled loop is called: the first call imports, and may compile.
LARGE = 1 << 13
LARGE_HALVES = 1 << 12  # of 16-bit floats, which NumPy takes at 2 to 5 ns each

_BITS = {4: np.int32, 8: np.int64}


def loops_for(xp: ModuleType, *arrays: Array | None) -> ModuleType | None:
    """The compiled loops (`maquette.backends.loops`) for arrays of which the first is large.

    None where another library computes, Numba is not installed, or an array that is given is not of
    single precision.
    """
    first = arrays[0]
    if xp is not np or first is None or first.size < LARGE:
        return None
    if any(a is not None and a.dtype != np.float32 for a in arrays):
        return None
    return backend_for(xp).loops


def loops_for_floats(xp: ModuleType, *arrays: Array | None) -> ModuleType | None:
    """`loops_for` arrays of one type, which may be double."""
    first = arrays[0]
    if first is None or any(a is not None and a.dtype != first.dtype for a in arrays):
        return None
    return loops_of_floats(xp, first)


def loops_for_alike(xp: ModuleType, *arrays: Array) -> ModuleType | None:
    """`loops_for` arrays that are taken element by element; None where their shapes differ."""
    if any(a.shape != arrays[0].shape for a in arrays):
        return None
    return loops_for(xp, *arrays)


def loops_of_places(xp: ModuleType, count: int, *arrays: Array) -> ModuleType | None:
    """The compiled loops for ``count`` positions in arrays of one type of numbers.

    None where `loops_for` gives None, and where there are few positions.
    """
    if xp is not np or count < LARGE:
        return None
    kind = arrays[0].dtype
    if kind.name not in _LOOPED or any(a.dtype != kind for a in arrays):
        return None
    return backend_for(xp).loops


def loops_of_floats(xp: ModuleType, x: Array) -> ModuleType | None:
    """The compiled loops for a large array of single or double precision; else None."""
    if xp is not np or x.size < LARGE or x.dtype not in _FLOATS:
        return None
    return backend_for(xp).loops


def loops_worth(xp: ModuleType, x: Array, microseconds: float) -> ModuleType | None:
    """`loops_of_floats`, which give the plain path's bits, for small arrays too where they pay.

    microseconds: how long the plain path takes for a small array.
    """
    if xp is not np or x.dtype.char not in "fd":
        return None
    backend = backend_for(xp)
    return backend.loops if x.size >= LARGE else backend.loops_if_worth(microseconds)


def loops_of_inexact(xp: ModuleType, x: Array) -> ModuleType | None:
    """`loops_of_floats`, for complex numbers too."""
    if xp is not np or x.size < LARGE or x.dtype.char not in "fdFD":
        return None
    return backend_for(xp).loops


def loops_of_numbers(xp: ModuleType, x: Array) -> ModuleType | None:
    """The compiled loops for a large array of a float or integer type that they take."""
    if xp is not np or x.size < LARGE or x.dtype.name not in _LOOPED or x.dtype.kind == "c":
        return None
    return backend_for(xp).loops


def without_repeats(xp: ModuleType, x: Array) -> Array | None:
    """A large array with one element along each dimension that is expanded; None without such."""
    if xp is not np or x.size < SMALL or 0 not in x.strides:
        return None
    repeated = [step == 0 and n > 1 for n, step in zip(x.shape, x.strides)]
    if not any(repeated):
        return None
    return x[tuple([slice(1) if again else slice(None) for again in repeated])]


def rows_along(x: Array, axes: tuple[int, ...]) -> Array | None:
    """The array with the axes to reduce as its last one; None where that would take a copy."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    by_memory = x.transpose(kept + sorted(axes, key=lambda axis: -abs(x.strides[axis])))
    if not by_memory.flags.c_contiguous:
        return None
    return by_memory.reshape(*[x.shape[axis] for axis in kept], -1)


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_LOOPED = frozenset("float32 float64 int8 int16 int32 int64 uint8 complex64 complex128".split())


def chosen(xp: ModuleType, mask: Array, a: Any, b: Any) -> Array:
    """``xp.where(mask, a, b)`` without a branch: of bit patterns, 3.6 to 0.5 ms."""
    if xp is np and type(a) is np.ndarray and a.size >= SMALL:
        a = np.ascontiguousarray(a)  # a gradient may be one number, expanded
        kind = a.dtype
        other = b if type(b) is np.ndarray else np.asarray(b, kind)
        plain = kind.kind in "fiu" and kind.itemsize in _BITS and other.dtype == kind
        if plain and mask.shape == a.shape and a.flags.c_contiguous and mask.dtype == np.bool_:
            if other.ndim == 0 or (other.shape == a.shape and other.flags.c_contiguous):
                loops = backend_for(xp).loops if a.size >= LARGE else None
                if loops is None:
                    return _by_bits(mask, a, other)
                picked: Array = loops.chosen(mask, a, other)
                return picked
    found: Array = xp.where(mask, a, b)
    return found


def _by_bits(mask: Array, a: Array, b: Array) -> Array:
    bits = _BITS[a.dtype.itemsize]
    every = np.negative(mask.view(np.int8)).astype(bits)  # all ones where the mask holds
    second = b.view(bits)
    found = np.bitwise_xor(a.view(bits), second)
    found &= every
    found ^= second
    return found.view(a.dtype)


def clipped(xp: ModuleType, x: Array, low: Array | None, high: Array | None) -> Array:
    """``minimum(maximum(x, low), high)``, NaN kept: numbers as bounds at once (2.7 to 0.5 ms)."""
    bounds = [bound for bound in (low, high) if bound is not None]
    whole = x.dtype.kind in "iu" and all(b.dtype == x.dtype for b in bounds)
    plain = xp is np and x.size >= SMALL and all(b.ndim == 0 for b in bounds)
    if plain and whole:
        # With one bound alone, or one of another type, np.clip of bytes takes 20 times as long.
        ends, kind = np.iinfo(x.dtype), x.dtype.type
        least = kind(ends.min) if low is None else low[()]
        return np.clip(x, least, kind(ends.max) if high is None else high[()])
    if plain and x.dtype.kind == "f":
        below = -np.inf if low is None else low[()]
        above = np.inf if high is None else high[()]
        if below <= above:
            return np.clip(x, x.dtype.type(below), x.dtype.type(above))
    if low is not None:
        x = xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


def taken_along(xp: ModuleType, array: Array, index: Array, axis: int) -> Array:
    """``xp.take_along_axis`` of positions from 0; of rows in flat memory (9 to 5 ms)."""
    if xp is np and array.dtype == np.bool_:
        bits: Array = taken_along(xp, array.view(np.uint8), index, axis).view(np.bool_)
        return bits
    slices = places_of_slices(xp, index, axis)
    if slices is not None and _without(array.shape, axis) == _without(index.shape, axis):
        return np.take(array, slices, axis)
    worth = array.size <= 2 * index.size or (xp is np and array.flags.c_contiguous)
    loops = loops_of_places(xp, index.size, array) if worth else None  # which copies to rows
    if loops is not None and _without(array.shape, axis) == _without(index.shape, axis):
        axis %= array.ndim
        last = axis == array.ndim - 1
        taken: Array = (
            loops.taken_from_rows(array, index) if last else loops.taken_across(array, index, axis)
        )
        return taken
    if _is_by_rows(xp, array, index, axis):
        return np.take(array.reshape(-1), _row_places(array.shape, index))
    found: Array = xp.take_along_axis(array, index, axis)
    return found


def places_of_slices(xp: ModuleType, index: Array, axis: int) -> Array | None:
    """The positions, from 0, of whole slices that a large index is expanded from; else None."""
    if xp is not np or index.size < SMALL or index.shape[axis] == index.size:
        return None
    axis %= index.ndim
    if any(
        step and n > 1 for d, (n, step) in enumerate(zip(index.shape, index.strides)) if d != axis
    ):
        return None
    return index[tuple([slice(None) if d == axis else 0 for d in range(index.ndim)])]


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple([n for d, n in enumerate(shape) if d != axis % len(shape)])


def _is_by_rows(xp: ModuleType, array: Array, index: Array, axis: int) -> bool:
    """Whether positions are in the rows of a row-major array, and worth another way."""
    last = axis in (-1, array.ndim - 1)
    if not (xp is np and last and index.size >= SMALL and array.flags.c_contiguous):
        return False
    return array.shape[:-1] == index.shape[:-1]


def added_along(xp: ModuleType, target: Array, index: Array, values: Array, axis: int) -> bool:
    """Add values at positions from 0 along an axis of ``target``, the last one: in flat memory.

    False where that is no gain: then nothing was done.
    """
    if not _is_by_rows(xp, target, index, axis):
        return False
    loops = loops_of_places(xp, index.size, target, values)
    if loops is not None:
        loops.add_to_rows(target, index, values)
    else:
        places = _row_places(target.shape, index)
        np.add.at(target.reshape(-1), places.reshape(-1), values.reshape(-1))
    return True


def _row_places(shape: tuple[int, ...], index: Array) -> Array:
    """Where positions in the rows of a row-major array of a shape are in its memory."""
    rows = np.arange(0, index.size // index.shape[-1] * shape[-1], shape[-1])
    return index + rows.reshape(*index.shape[:-1], 1)


def least_places(xp: ModuleType, x: Array, k: int, axis: int, *, largest: bool) -> Array | None:
    """Where the ``k`` smallest or largest elements of each line are, in any order.

    Without sorting the rest (80 to 7 ms for 10 of 1,000); NaN counts as the largest. None where
    sorting is as good: few elements, or another library's.
    """
    size = x.shape[axis]
    if xp is not np or x.size < SMALL or not 0 < k <= size // 2:
        return None
    loops = loops_of_numbers(xp, x) if k <= size // _FEW else None
    if loops is not None:
        best = loops.best_places(rows_of_lines(x, axis), k, largest=largest)
        return lines_of_rows(best, x, axis)
    cut = size - k if largest else k - 1
    order = np.argpartition(x, cut, axis=axis)
    ends = slice(cut, None) if largest else slice(0, k)
    return order[(*[slice(None)] * (axis % x.ndim), ends)]


def rows_of_lines(x: Array, axis: int) -> Array:
    """The lines along an axis as the rows of a row-major matrix."""
    return np.ascontiguousarray(np.moveaxis(x, axis, -1)).reshape(-1, x.shape[axis])


def lines_of_rows(rows: Array, x: Array, axis: int) -> Array:
    """The rows of a matrix as the lines along an axis of an array like ``x``."""
    others = [n for d, n in enumerate(x.shape) if d != axis % x.ndim]
    return np.moveaxis(rows.reshape(*others, rows.shape[1]), -1, axis)


_FEW = 16  # what part of a line is few enough to be kept in a heap


def place_of_rank(xp: ModuleType, x: Array, rank: int, axis: int) -> Array | None:
    """Where the element of a rank from 0 is in each line; None where sorting is as good."""
    if xp is not np or x.size < SMALL:
        return None
    return np.take(np.argpartition(x, rank, axis=axis), rank, axis=axis)


def compressed(xp: ModuleType, array: Array, mask: Array) -> Array:
    """``array[mask]`` for a mask of the array's shape (12.5 to 0.8 ms)."""
    if xp is np and array.size >= SMALL and array.flags.c_contiguous and mask.flags.c_contiguous:
        return np.compress(mask.reshape(-1), array.reshape(-1))
    return array[mask]


def added_at(target: Array, index: Any, values: Any) -> None:
    """``np.add.at``: on positions in flat memory, or a row at a time where rows are wide."""
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if isinstance(index, tuple) and _is_full(target, index):
        flat = np.ravel_multi_index(index, target.shape, mode="wrap").reshape(-1)
        given = np.broadcast_to(np.asarray(values, target.dtype), index[0].shape).reshape(-1)
        if not added_slices(target.reshape(-1), 0, flat, given):
            np.add.at(target.reshape(-1), flat, given)
    elif (
        type(index) is np.ndarray
        and index.dtype.kind in "iu"
        and (target.ndim > 1 or (target.ndim == 1 and target.dtype == np.bool_))
    ):
        _add_rows(target, index, values)
    else:
        np.add.at(target, index, values)


def added_slices(target: Array, axis: int, places: Array, values: Array) -> bool:
    """Add slices at positions along an axis, as many as places; of 16-bit floats each sum rounded.

    False where there is no loop for it: then nothing was done.
    """
    kind = target.dtype
    if not target.flags.c_contiguous or values.dtype != kind or not places.size:
        return False
    halves = kind.itemsize == 2 and kind.kind not in "iu"
    truths = kind.kind == "b" and axis == 0  # their sums are the larger of two bytes
    if halves:
        loops = backend_for(np).loops if values.size >= LARGE_HALVES else None
    else:
        target, values = (
            (target.view(np.uint8), values.view(np.uint8)) if truths else (target, values)
        )
        loops = loops_of_places(np, values.size, target)
    if loops is None or places.min() < 0 or places.max() >= target.shape[axis]:
        return False
    given = values.copy() if np.may_share_memory(target, values) else values
    if halves:
        loops.add_slices_of_halves(target, axis, places, given)
    elif truths and target.size == len(target):
        loops.combine_along(target.reshape(-1), 0, places, given.reshape(-1), "maximum")
    elif truths:
        loops.combine_rows(target, places, given, "maximum")
    else:
        loops.add_slices(target, axis, places.astype(np.int64, copy=False), given)
    return True


def _is_full(target: Array, index: tuple[Any, ...]) -> bool:
    """Whether an index has positions of one shape for every dimension of flat memory."""
    if len(index) != target.ndim or not target.flags.c_contiguous or not target.size:
        return False
    whole = all(type(i) is np.ndarray and i.dtype.kind in "iu" for i in index)
    return whole and len({i.shape for i in index}) == 1


def _add_rows(target: Array, index: Array, values: Any) -> None:
    rows = index.reshape(-1)
    given = np.broadcast_to(np.asarray(values, target.dtype), index.shape + target.shape[1:])
    given = given.reshape(rows.size, *target.shape[1:])
    width = target[0].size if target.shape[0] else 0
    if target.flags.c_contiguous and width:
        _add_flat_rows(target.reshape(len(target), width), rows, given.reshape(rows.size, width))
    elif width >= WIDE_ROW:
        _add_row_by_row(target, rows, given)
    else:
        np.add.at(target, index, values)


def _add_flat_rows(target: Array, rows: Array, values: Array) -> None:
    starts = np.where(rows < 0, rows + len(target), rows)
    if added_slices(target, 0, starts, values):
        return
    if target.shape[1] >= WIDE_ROW:
        _add_row_by_row(target, rows, values)
    else:
        at = starts[:, None] * target.shape[1] + np.arange(target.shape[1])
        np.add.at(target.reshape(-1), at.reshape(-1), values.reshape(-1))


def _add_row_by_row(target: Array, rows: Array, values: Array) -> None:
    for row, value in zip(rows.tolist(), values, strict=True):
        target[row] += value


def loops_of_pairs(xp: ModuleType, a: Array, b: Array) -> ModuleType | None:
    """The compiled loops for a large array of floats and one of its shape, or a number; or None."""
    plain = a.dtype == b.dtype and (b.ndim == 0 or a.shape == b.shape)
    return loops_of_floats(xp, a) if plain else None


def reciprocal(xp: ModuleType, x: Array) -> Array:
    """``1 / x``; of complex64 without a branch (7.4 to 1.2 ms)."""
    loops = loops_of_inexact(xp, x) if x.dtype.char == "F" else None
    found: Array = xp.divide(1, x) if loops is None else loops.reciprocals(x)
    return found


def fmod(xp: ModuleType, a: Array, b: Array) -> Array:
    """``xp.fmod(a, b)``, of the sign of ``a`` (15 to 2 ms)."""
    loops = loops_of_pairs(xp, a, b)
    found: Array = xp.fmod(a, b) if loops is None else loops.fmod(a, b)
    return found


def remainder(xp: ModuleType, a: Array, b: Array) -> Array:
    """``a - floor(a / b) * b`` from the exact `fmod` (80 to 5 ms); zero has the sign of ``a``."""
    if xp is not np or a.dtype.kind != "f":
        found: Array = xp.remainder(a, b)
        return found
    loops = loops_of_pairs(xp, a, b)
    if loops is not None:
        looped: Array = loops.remainder(a, b)
        return looped
    rest = np.asarray(np.fmod(a, b))
    np.add(rest, b, out=rest, where=(rest != 0) & ((rest < 0) != (b < 0)))
    return rest


def floor_quotient(xp: ModuleType, a: Array, b: Array) -> Array:
    """``xp.floor_divide(a, b)`` of floats, from the exact `fmod` (90 to 8 ms)."""
    if xp is not np or a.dtype.kind != "f" or max(a.size, b.size) < SMALL:
        found: Array = xp.floor_divide(a, b)
        return found
    loops = loops_of_pairs(xp, a, b)
    if loops is not None:
        looped: Array = loops.floor_quotient(a, b)
        return looped
    rest = np.fmod(a, b)
    quotient: Array = (a - rest) / b
    quotient -= (rest != 0) & ((rest < 0) != (b < 0))
    whole = np.floor(quotient)
    whole += quotient - whole > 0.5
    exact = a / b
    np.copysign(whole, exact, out=whole, where=quotient == 0)
    np.copyto(whole, exact, where=b == 0)
    return whole


def tabulated(
    xp: ModuleType, name: str, plain: Callable[[Array], Array], x: Array, *, odd: bool = False
) -> Array:
    """``plain(x)``, a smooth function, from a table of its values (`i1e`: 40 to 4 ms)."""
    loops = loops_of_floats(xp, x)
    found: Array = plain(x) if loops is None else loops.tabulated(name, plain, x, odd=odd)
    return found


# erf(x) / x as a quotient of polynomials of x² on [0, ERF_FAR²]: fitted to SciPy's values in
# float64 by reweighted least squares. The relative error is 2e-8, and 8 ulp once it is computed in
# float32.
ERF_FAR = np.float32(3.95)
ERF_ABOVE = (
    np.float32(1.12837914),
    np.float32(0.191541073),
    np.float32(0.052874214),
    np.float32(0.00380776179),
    np.float32(0.000284678217),
    np.float32(2.02597263e-06),
)
ERF_BELOW = (
    np.float32(1),
    np.float32(0.503081534),
    np.float32(0.114555795),
    np.float32(0.0150542907),
    np.float32(0.00117062778),
    np.float32(3.7831972e-05),
)


def erf(xp: ModuleType, x: Array) -> Array:
    """The error function; float32 by a quotient of polynomials (20 to 3.3 ms)."""
    loops = loops_of_floats(xp, x)
    if xp is not np or x.dtype != np.float32:
        found: Array = backend_for(xp).special.erf(x) if loops is None else loops.erf_of_doubles(x)
        return found
    if loops is not None:
        by_loop: Array = loops.erf(x)
        return by_loop
    out = np.empty(x.shape, np.float32)
    source, result = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    square, sums = np.empty((2, min(BLOCK, source.size)), np.float32)
    for start in range(0, source.size, BLOCK):
        y = result[start : start + BLOCK]
        t, s = square[: y.size], sums[: y.size]
        np.clip(source[start : start + BLOCK], -ERF_FAR, ERF_FAR, out=y)
        np.multiply(y, y, out=t)
        y *= _polynomial(ERF_ABOVE, t, s)
        y /= _polynomial(ERF_BELOW, t, s)
        np.clip(y, -1, 1, out=y)
    return out


def erfc(xp: ModuleType, x: Array) -> Array:
    """One minus the error function (16 to 1.2 ms)."""
    loops = loops_of_floats(xp, x)
    found: Array = backend_for(xp).special.erfc(x) if loops is None else loops.erfc(x)
    return found


def _polynomial(coefficients: tuple[np.float32, ...], t: Array, out: Array) -> Array:
    """Horner's rule in the memory of ``out``; the last coefficient is of the highest power."""
    np.multiply(t, coefficients[-1], out=out)
    for c in coefficients[-2:0:-1]:
        out += c
        out *= t
    out += coefficients[0]
    return out
