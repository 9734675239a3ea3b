"""Orders: stable sorts by digits, and the places of the first few.

A stable sort by digits of 8 or 11 bits takes a pass a digit, where a comparison sort takes one a
factor of two: 10⁶ float32 in 20 ms, NumPy's stable sort 140. NaN counts as the greatest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined

Array = npt.NDArray[Any]

_LONG = 1 << 14  # elements of a row from which more buckets pay

# --- keys: unsigned integers in the order of numbers ---------------------------------------


@compiled
def _float_keys(x: Array, bits: Array, top: Any, keys: Array) -> None:
    most = ~(top ^ top)
    for i in range(x.size):
        key = bits[i] if x[i] != 0 else top ^ top
        key = ~key if key & top else key | top
        keys[i] = most if x[i] != x[i] else key


@compiled
def _int_keys(bits: Array, top: Any, keys: Array) -> None:
    for i in range(bits.size):
        keys[i] = bits[i] ^ top


def _keys(x: Array) -> Array:
    bits = x.view(f"u{x.itemsize}")
    top = bits.dtype.type(1 << (8 * x.itemsize - 1))
    if x.dtype.kind == "u":
        return bits
    keys = np.empty_like(bits)
    if x.dtype.kind == "f":
        _float_keys(x.reshape(-1), bits.reshape(-1), top, keys.reshape(-1))
    else:
        _int_keys(bits.reshape(-1), top, keys.reshape(-1))
    return keys


# --- sorting -------------------------------------------------------------------------------


@compiled
def _sort_rows(keys: Array, digit: Any, digits: int, order: Array) -> None:
    size = keys.shape[1]
    buckets = 1 << np.int64(digit)
    mask = buckets - 1
    first, second = np.empty(size, np.int32), np.empty(size, np.int32)
    spare, starts = np.empty(size, keys.dtype), np.empty(buckets, np.int64)
    for r in range(keys.shape[0]):
        now, then = keys[r], spare
        places, moved = first, second
        for i in range(size):
            places[i] = i
        shift = digit ^ digit
        for _ in range(digits):
            starts[:] = 0
            for i in range(size):
                starts[np.int64(now[i] >> shift) & mask] += 1
            if starts[np.int64(now[0] >> shift) & mask] < size:
                before = 0
                for b in range(buckets):
                    count = starts[b]
                    starts[b] = before
                    before += count
                for i in range(size):
                    bucket = np.int64(now[i] >> shift) & mask
                    to = starts[bucket]
                    starts[bucket] = to + 1
                    then[to] = now[i]
                    moved[to] = places[i]
                now, then = then, now
                places, moved = moved, places
            shift += digit
        order[r] = places


def stable_order(x: Array, *, descending: bool) -> Array:
    """The positions that sort the rows of a matrix; equal elements stay in their order.

    x: float32, float64 or integers; fewer than 2**31 columns, at least one.
    """
    keys = _keys(np.ascontiguousarray(x))
    if descending:
        keys = ~keys
    elif keys.base is not None:
        keys = keys.copy()  # the loop sorts in the memory of the keys
    digit = 11 if x.shape[1] >= _LONG else 8
    order = np.empty(x.shape, np.int64)
    _sort_rows(keys, keys.dtype.type(digit), -(-8 * keys.itemsize // digit), order)
    return order


# --- repeats -------------------------------------------------------------------------------


@compiled
def _drop_repeats(x: Array, out: Array) -> int:
    count: Any = 1
    last = x[0]
    out[0] = last
    for i in range(1, x.size):
        v = x[i]
        out[count] = v
        count += np.int64(v != last)
        last = v
    return count


def without_repeats(x: Array) -> Array:
    """A vector of at least one element without those that equal the one before."""
    found = np.empty(x.size + 1, x.dtype)
    count = _drop_repeats(x, found)
    return found[:count].copy()


# --- the first few -------------------------------------------------------------------------


@inlined
def _is_better(a: Any, b: Any, largest: bool) -> Any:
    return ((a > b) | ((a != a) & (b == b))) if largest else ((a < b) | ((b != b) & (a == a)))


@inlined
def _is_worse(values: Array, places: Array, at: int, v: Any, place: int, largest: bool) -> Any:
    """Whether a kept element goes before ``v``: it is less good, or as good and further on."""
    better = _is_better(values[at], v, largest)
    return _is_better(v, values[at], largest) | ((not better) & (places[at] > place))


@compiled
def _sink(values: Array, places: Array, start: int, v: Any, place: int, largest: bool) -> None:
    """Put an element into a heap, from a place down: the worst of all stands first."""
    count, at = values.size, start
    while 2 * at + 1 < count:
        child = 2 * at + 1
        other = child + 1
        if other < count and _is_worse(
            values, places, other, values[child], places[child], largest
        ):
            child = other
        if not _is_worse(values, places, child, v, place, largest):
            break
        values[at], places[at] = values[child], places[child]
        at = child
    values[at], places[at] = v, place


@compiled
def _find_best(x: Array, largest: bool, found: Array) -> None:
    count = found.shape[1]
    values = np.empty(count, x.dtype)
    for r in range(x.shape[0]):
        row, places = x[r], found[r]
        for i in range(count):
            values[i], places[i] = row[i], i
        for i in range(count // 2, -1, -1):
            _sink(values, places, i, values[i], places[i], largest)
        for i in range(count, row.size):
            if _is_better(row[i], values[0], largest):
                _sink(values, places, 0, row[i], i, largest)


def best_places(x: Array, count: int, *, largest: bool) -> Array:
    """Where the ``count`` largest or smallest elements of each row are, in the order of places.

    Of equal elements the first ones count.
    """
    found = np.empty((x.shape[0], count), np.int64)
    _find_best(x, largest, found)
    found.sort(axis=1)
    return found
