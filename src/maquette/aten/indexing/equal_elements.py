"""Which of several equal elements `topk` takes, and in which order.

PyTorch leaves it open, but programs see it: experts that tie in a router, an embedding that is zero
for padding. So lines with equal elements among the first are selected as PyTorch's cpu kernel does
it, by C++'s `nth_element` and `sort`, or by `partial_sort` where few of many are wanted. These are
quickselect with the median of three, and heaps, as libstdc++ has them; elements are compared by
their ranks in the line alone. `maquette.backends.loops.ties` compiles the very functions of this
module (`STEPS`), so a line is integers: an element's rank times 2**32, and where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array
from maquette.tensor.backend import backend_for

MOST = 1 << 15  # elements of such lines; 2 us each
_SHORT = 16  # what libstdc++ leaves to insertion
_BITS = 32
_PLACE = (1 << _BITS) - 1

_Line = list[int]  # or an array: its elements are only read and written


def mend_equal(x: Array, ahead: Array, order: Array, dim: int, largest: bool) -> None:
    """Choose anew in ``order`` among equal elements, in the lines along ``dim`` that have some.

    ahead: the first of each line, in order, and one more if there is one. order: where the first
    are. Where such lines have more than `MOST` elements they stay as they are.
    """
    ahead = np.moveaxis(ahead, dim, -1) if dim not in (-1, x.ndim - 1) else ahead
    one, next_ = ahead[..., :-1], ahead[..., 1:]
    clear = one > next_ if largest else one < next_  # not of equal ones, nor of NaN
    if clear.all():
        return
    tied = ~clear.all(-1)
    if np.count_nonzero(tied) * x.shape[dim] <= MOST:
        lines, where = np.moveaxis(x, dim, -1), np.moveaxis(order, dim, -1)
        where[tied] = _chosen(_lines(wide(lines[tied]), largest), where.shape[-1])


def _lines(values: Array, largest: bool) -> Array:
    """Each row's elements as a line's: with ranks that are smaller for what comes first."""
    if values.dtype == np.float32:
        bits = (values + np.float32(0)).view(np.int32).astype(np.int64)  # of one zero
        ranks = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
        ranks[np.isnan(values)] = 0x7FFFFFFF  # the largest value
    else:
        ranks = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    if largest:
        ranks = -ranks
    found: Array = (ranks << _BITS) | np.arange(values.shape[-1])
    return found


def _chosen(lines: Array, k: int) -> Array:
    """Where the first ``k`` of each line were, in order."""
    loops = backend_for(np).loops_if_worth(2 * lines.size)
    if loops is not None:
        loops.bring_first(lines, k)
        return lines[:, :k] & _PLACE
    rows = lines.tolist()
    for row in rows:
        bring_first(row, k)
    return np.array([row[:k] for row in rows]) & _PLACE


def bring_first(line: _Line, k: int) -> None:
    """Bring the first ``k`` of a line to its beginning, in order."""
    if k * 64 <= len(line):
        _partial_sort(line, 0, k, len(line))
    else:
        _nth_element(line, k - 1)
        _sort(line, k - 1)


def _is_before(one: int, other: int) -> bool:
    return (one >> _BITS) < (other >> _BITS)


def _depth(count: int) -> int:
    """Twice the logarithm: how often a range is parted before heaps take over."""
    depth = 0
    while count > 1:
        count >>= 1
        depth += 2
    return depth


def _insert(line: _Line, first: int, last: int) -> None:
    """Sort a range by insertion, which is stable."""
    for at in range(first + 1, last):
        value, hole = line[at], at
        while hole > first and _is_before(value, line[hole - 1]):
            line[hole] = line[hole - 1]
            hole -= 1
        line[hole] = value


def _nth_element(line: _Line, nth: int) -> None:
    """Partition the line about the element that belongs at ``nth``."""
    first, last = 0, len(line)
    depth = _depth(last)
    while last - first > 3:
        if depth == 0:
            _select_by_heap(line, first, nth + 1, last)
            line[first], line[nth] = line[nth], line[first]
            return
        depth -= 1
        cut = _partition(line, first, last)
        if cut <= nth:
            first = cut
        else:
            last = cut
    _insert(line, first, last)


def _sort(line: _Line, last: int) -> None:
    """Sort the line up to ``last``."""
    parts = [(0, last, _depth(last))]
    while len(parts) > 0:
        first, end, depth = parts.pop()
        while end - first > _SHORT:
            if depth == 0:
                _partial_sort(line, first, end, end)
                break
            depth -= 1
            cut = _partition(line, first, end)
            parts.append((cut, end, depth))
            end = cut
    _insert(line, 0, last)


def _partition(line: _Line, first: int, last: int) -> int:
    """Part a range about the median of three, which goes to ``first``; where the parts meet."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    one, two, three = line[a], line[b], line[c]
    if _is_before(one, two):
        middle = b if _is_before(two, three) else c if _is_before(one, three) else a
    else:
        middle = a if _is_before(one, three) else c if _is_before(two, three) else b
    line[first], line[middle] = line[middle], line[first]
    pivot = line[first]
    left, right = first + 1, last
    while True:
        while _is_before(line[left], pivot):
            left += 1
        right -= 1
        while _is_before(pivot, line[right]):
            right -= 1
        if left >= right:
            return left
        line[left], line[right] = line[right], line[left]
        left += 1


# --- heaps: of a range, the element that comes last is at its beginning --------------------------


def _partial_sort(line: _Line, first: int, middle: int, last: int) -> None:
    """Bring what comes first into the range up to ``middle``, sorted."""
    _select_by_heap(line, first, middle, last)
    while middle - first > 1:
        middle -= 1
        _pop(line, first, middle, middle)


def _select_by_heap(line: _Line, first: int, middle: int, last: int) -> None:
    length = middle - first
    for parent in range(length // 2 - 1, -1, -1):
        _sift(line, first, parent, length, line[first + parent])
    for at in range(middle, last):
        if _is_before(line[at], line[first]):
            _pop(line, first, middle, at)


def _pop(line: _Line, first: int, last: int, to: int) -> None:
    """Move the beginning of a heap to ``to``, and take in what is there."""
    value = line[to]
    line[to] = line[first]
    _sift(line, first, 0, last - first, value)


def _sift(line: _Line, first: int, hole: int, length: int, value: int) -> None:
    """Put a value into a heap with a hole: down to a leaf, and up to where it belongs."""
    top = child = hole
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if _is_before(line[first + child], line[first + child - 1]):
            child -= 1
        line[first + hole] = line[first + child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * child + 1
        line[first + hole] = line[first + child]
        hole = child
    parent = (hole - 1) // 2
    while hole > top and _is_before(line[first + parent], value):
        line[first + hole] = line[first + parent]
        hole, parent = parent, (parent - 1) // 2
    line[first + hole] = value


STEPS: tuple[Callable[..., Any], ...] = (
    _is_before, _depth, _insert, _sift, _pop, _select_by_heap, _partial_sort, _partition,
    _nth_element, _sort,
)  # fmt: skip
