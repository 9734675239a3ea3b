"""Two sparse tensors element by element, on arrays: what `elementwise.py` computes with.

Private operators (namespace ``maquette``), as in `primitives.py`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.sparse.places import (
    Sizes,
    compiled_tools,
    flat_index,
    majors_of_offsets,
    offsets_of,
    stable_order,
)
from maquette.core.meta import TensorMeta
from maquette.library.page import define
from maquette.library.sparse_kernels import counting_nothing
from maquette.tensor.backend import backend_for


def _matched(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Two sorted lists of numbers, each there once, as one; where each is in either, or -1.

    SciPy's sum of two sparse rows merges them; that of their positions, in two digits, tells both.
    """
    tools, bits = compiled_tools(), int(first.size).bit_length()
    count = first.size + second.size
    ends, numbers, codes = np.empty(2, np.int64), *np.empty((2, count), np.int64)
    extent = 1 + max(int(first[-1]) if first.size else 0, int(second[-1]) if second.size else 0)
    tools.csr_plus_csr(
        1, extent,
        np.array([0, first.size]), first, np.arange(1, first.size + 1),
        np.array([0, second.size]), second, np.arange(1, second.size + 1) << bits,
        ends, numbers, codes,
    )  # fmt: skip
    numbers, codes = numbers[: ends[1]], codes[: ends[1]]
    return numbers, (codes & ((1 << bits) - 1)) - 1, (codes >> bits) - 1


def _ranked(numbers: Array) -> tuple[Array, Array | None]:
    """Numbers in rising order, and where they were unless there."""
    if bool((numbers[1:] > numbers[:-1]).all()):
        return numbers, None
    order = stable_order(numbers)
    return numbers[order], order


def _taken_once(numbers: Array, values: Array) -> tuple[Array, Array]:
    ranked, order = _ranked(numbers)
    return ranked, values if order is None else values[order]


# --- sums and products ------------------------------------------------------------------------


def _combined(a: Array, b: Array, here: Array, there: Array) -> Array:
    """The sum of values at positions; what is at -1 is zero."""
    zero = np.zeros((1, *a.shape[1:]), a.dtype)  # the last one, which -1 finds
    found = np.take(np.concatenate([a, zero]), here, 0)
    found += np.take(np.concatenate([b, zero]), there, 0)
    return found


def _common(a: Array, b: Array, here: Array, there: Array) -> tuple[Array, Array]:
    """Which positions both have, and the product there."""
    both = np.flatnonzero((here >= 0) & (there >= 0))
    return both, np.take(a, here[both], 0) * np.take(b, there[both], 0)


compressed_pair = define(
    "maquette::compressed_pair(Tensor compressed, Tensor plain, Tensor values, Tensor "
    "other_compressed, Tensor other_plain, Tensor other_values, SymInt minors, bool product) -> "
    "(Tensor, Tensor, Tensor)"
)


@counting_nothing(
    compressed_pair,
    lambda compressed, plain, values, *rest: (
        compressed,
        plain.fresh((0,)),
        values.fresh((0, *values.shape[1:])),
    ),
)
@on_host
def compressed_pair_kernel(
    xp: ModuleType,
    compressed: Array,
    plain: Array,
    values: Array,
    other_compressed: Array,
    other_plain: Array,
    other_values: Array,
    minors: int,
    product: bool,
) -> tuple[Array, Array, Array]:
    """The sum or the product of two compressed matrices, or of blocks, whose values have a dtype.

    minors: how many columns, or columns of blocks, there are.
    """
    extent = max(int(minors), 1)
    first = majors_of_offsets(compressed) * extent + plain
    second = majors_of_offsets(other_compressed) * extent + other_plain
    (first, a), (second, b) = _taken_once(first, values), _taken_once(second, other_values)
    numbers, here, there = _matched(first, second)
    if product:
        both, found = _common(a, b, here, there)
        numbers = numbers[both]
    else:
        found = _combined(a, b, here, there)
    majors = numbers // extent
    kind = compressed.dtype
    offsets = offsets_of(majors, compressed.size - 1).astype(kind, copy=False)
    return offsets, (numbers - majors * extent).astype(kind, copy=False), found


coo_intersection = define(
    "maquette::coo_intersection(Tensor first, Tensor second, SymInt[] size) -> (Tensor, Tensor)"
)


def _no_positions(first: TensorMeta, *rest: object) -> tuple[TensorMeta, TensorMeta]:
    return first.fresh((0,)), first.fresh((0,))


@counting_nothing(coo_intersection, _no_positions)
@on_host
def coo_intersection_kernel(
    xp: ModuleType, first: Array, second: Array, size: Sizes
) -> tuple[Array, Array]:
    """Positions of equal columns: every one of the first that is in the second, which is sorted."""
    at = positions(flat_index(second, size), flat_index(first, size))
    hit = np.flatnonzero(at >= 0)
    return hit.astype(np.int64), at[hit].astype(np.int64)


def positions(known: Array, wanted: Array) -> Array:
    """Where each wanted number is among sorted ones; -1 where it is not."""
    if not known.size:
        return np.full(wanted.size, -1, np.int64)
    at = np.searchsorted(known, wanted)
    there = known[np.minimum(at, known.size - 1)] == wanted  # beyond the last one: the last one
    return np.where(there, at, -1).astype(np.int64, copy=False)


coo_product_of_two = define(
    "maquette::coo_product_of_two(Tensor indices, Tensor values, Tensor other_indices, Tensor "
    "other_values, SymInt[] size) -> (Tensor, Tensor)"
)


@counting_nothing(
    coo_product_of_two,
    lambda indices, values, *rest: (
        indices.fresh((indices.shape[0], 0)),
        values.fresh((0, *values.shape[1:])),
    ),
)
@on_host
def coo_product_of_two_kernel(
    xp: ModuleType,
    indices: Array,
    values: Array,
    other_indices: Array,
    other_values: Array,
    size: Sizes,
) -> tuple[Array, Array]:
    """The elements at equal places of two coalesced tensors, multiplied: one dtype, one shape."""
    first, second = flat_index(indices, size), flat_index(other_indices, size)
    _, here, there = _matched(first, second)
    both, found = _common(values, other_values, here, there)
    return np.take(indices, here[both], 1), found


coo_merge = define(
    "maquette::coo_merge(Tensor first, Tensor second, SymInt[] size) -> (Tensor, Tensor)"
)


@counting_nothing(coo_merge, _no_positions)
@on_host
def coo_merge_kernel(
    xp: ModuleType, first: Array, second: Array, size: Sizes
) -> tuple[Array, Array]:
    """Two lists of columns as one, by two pointers: positions in either, -1 where it has none.

    The lesser of the next columns of both goes first, equal ones become one: sorted lists give a
    sorted one, and what is not sorted is not coalesced.
    """
    a, b = flat_index(first, size), flat_index(second, size)
    loops = backend_for(np).loops if a.size + b.size >= _MANY else None
    if loops is not None:
        merged: tuple[Array, Array] = loops.merged_lists(a, b)
        return merged
    return _merged_plainly(a.tolist(), b.tolist())


_MANY = 1 << 10  # elements that take Python half a millisecond


def _merged_plainly(a: list[int], b: list[int]) -> tuple[Array, Array]:
    left: list[int] = []
    right: list[int] = []
    i = j = 0
    while i < len(a) and j < len(b):
        left.append(i if a[i] <= b[j] else -1)
        right.append(j if b[j] <= a[i] else -1)
        i, j = i + (left[-1] >= 0), j + (right[-1] >= 0)
    left += [*range(i, len(a)), *[-1] * (len(b) - j)]
    right += [*[-1] * (len(a) - i), *range(j, len(b))]
    return np.array(left, np.int64), np.array(right, np.int64)
