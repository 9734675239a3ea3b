"""Which of several equal elements `topk` takes, and in which order.

PyTorch leaves it open, but programs see it: experts that tie in a router, an embedding that is zero
for padding. So lines with equal elements among the first are selected as PyTorch's cpu kernel does
it, by C++'s `nth_element` and `sort`, or by `partial_sort` where few of many are wanted. These are
quickselect with the median of three, and heaps, as libstdc++ has them; elements are compared by
their ranks in the line alone.
"""

from __future__ import annotations

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array

MOST = 1 << 15  # elements of such lines; 2 us each
_SHORT = 16  # what libstdc++ leaves to insertion


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
        where[tied] = [_first(_ranks(line, largest), where.shape[-1]) for line in wide(lines[tied])]


def _ranks(line: Array, largest: bool) -> list[int]:
    """Numbers that are smaller for what comes first; NaN is the largest value."""
    ranks = np.unique(line, return_inverse=True)[1].reshape(-1)
    return list((-ranks if largest else ranks).tolist())


def _first(ranks: list[int], k: int) -> list[int]:
    """Where the first ``k`` of a line are, in order."""
    line = [*zip(ranks, range(len(ranks)), strict=True)]
    if k * 64 <= len(line):
        _partial_sort(line, 0, k, len(line))
    else:
        _nth_element(line, k - 1)
        _sort(line, k - 1)
    return [at for _, at in line[:k]]


_Line = list[tuple[int, int]]  # an element's rank, and where it was


def _nth_element(line: _Line, nth: int) -> None:
    """Partition the line about the element that belongs at ``nth``."""
    first, last = 0, len(line)
    if nth == last:
        return
    depth = 2 * (last.bit_length() - 1)
    while last - first > 3:
        if not depth:
            _select_by_heap(line, first, nth + 1, last)
            line[first], line[nth] = line[nth], line[first]
            return
        depth -= 1
        cut = _partition(line, first, last)
        first, last = (cut, last) if cut <= nth else (first, cut)
    line[first:last] = sorted(line[first:last], key=_rank)  # insertion, which is stable


def _sort(line: _Line, last: int) -> None:
    """Sort the line up to ``last``."""

    def halve(first: int, last: int, depth: int) -> None:
        while last - first > _SHORT:
            if not depth:
                _partial_sort(line, first, last, last)
                return
            depth -= 1
            cut = _partition(line, first, last)
            halve(cut, last, depth)
            last = cut

    if last > 0:
        halve(0, last, 2 * (last.bit_length() - 1))
        line[:last] = sorted(line[:last], key=_rank)  # insertion, which is stable


def _rank(element: tuple[int, int]) -> int:
    return element[0]


def _partition(line: _Line, first: int, last: int) -> int:
    """Part a range about the median of three, which goes to ``first``; where the parts meet."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    ra, rb, rc = line[a][0], line[b][0], line[c][0]
    if ra < rb:
        middle = b if rb < rc else c if ra < rc else a
    else:
        middle = a if ra < rc else c if rb < rc else b
    line[first], line[middle] = line[middle], line[first]
    pivot = line[first][0]
    left, right = first + 1, last
    while True:
        while line[left][0] < pivot:
            left += 1
        right -= 1
        while pivot < line[right][0]:
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
    for parent in reversed(range(length // 2)):
        _sift(line, first, parent, length, line[first + parent])
    for at in range(middle, last):
        if line[at][0] < line[first][0]:
            _pop(line, first, middle, at)


def _pop(line: _Line, first: int, last: int, to: int) -> None:
    """Move the beginning of a heap to ``to``, and take in what is there."""
    value = line[to]
    line[to] = line[first]
    _sift(line, first, 0, last - first, value)


def _sift(line: _Line, first: int, hole: int, length: int, value: tuple[int, int]) -> None:
    """Put a value into a heap with a hole: down to a leaf, and up to where it belongs."""
    top = child = hole
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if line[first + child][0] < line[first + child - 1][0]:
            child -= 1
        line[first + hole] = line[first + child]
        hole = child
    if not length & 1 and child == (length - 2) // 2:
        child = 2 * child + 1
        line[first + hole] = line[first + child]
        hole = child
    parent = (hole - 1) // 2
    while hole > top and line[first + parent][0] < value[0]:
        line[first + hole] = line[first + parent]
        hole, parent = parent, (parent - 1) // 2
    line[first + hole] = value
