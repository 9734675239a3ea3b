"""Two lists of places as one, by two pointers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled

Array = npt.NDArray[Any]


@compiled
def _merge(a: Array, b: Array, left: Array, right: Array) -> int:
    i = j = count = 0
    while i < a.size or j < b.size:
        mine = j == b.size or (i < a.size and a[i] <= b[j])
        other = i == a.size or (j < b.size and b[j] <= a[i])
        left[count] = i if mine else -1
        right[count] = j if other else -1
        i += mine
        j += other
        count += 1
    return count


def merged_lists(a: Array, b: Array) -> tuple[Array, Array]:
    """Where each number of the merged list is in ``a`` and in ``b``; -1 where it is not.

    The lesser of the next numbers of both goes first, equal ones become one.
    """
    left, right = np.empty((2, a.size + b.size), np.int64)
    count = _merge(np.ascontiguousarray(a), np.ascontiguousarray(b), left, right)
    return left[:count].copy(), right[:count].copy()
