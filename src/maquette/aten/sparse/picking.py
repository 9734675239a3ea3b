"""Elements of COO tensors chosen, moved and joined, on arrays: what `shaping.py` computes with.

Private operators (namespace ``maquette``), as in `primitives.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.sparse.places import Sizes, stable_order
from maquette.core.dtype import int64
from maquette.library.page import define
from maquette.library.sparse_kernels import counting_nothing

index_rows = define("maquette::index_rows(Tensor indices, int[] rows) -> Tensor")
index_rows.shape(lambda indices, rows: indices.fresh((len(rows), indices.shape[1])))


@index_rows.kernel
@on_host
def index_rows_kernel(xp: ModuleType, indices: Array, rows: Sequence[int]) -> Array:
    """These rows of indices, one after the other; a row of zeros for -1."""
    found = np.empty((len(rows), indices.shape[1]), indices.dtype)
    for i, row in enumerate(rows):
        found[i] = 0 if row < 0 else indices[row]
    return found


joined_indices = define(
    "maquette::joined_indices(Tensor[] indices, int dim, SymInt[] begin) -> Tensor"
)
joined_indices.shape(
    lambda indices, dim, begin: indices[0].fresh(
        (indices[0].shape[0], sum(i.shape[1] for i in indices))
    )
)


@joined_indices.kernel
@on_host
def joined_indices_kernel(
    xp: ModuleType, indices: Sequence[Array], dim: int, begin: Sequence[int]
) -> Array:
    """All columns of indices, with what each list begins at added to one row; none to row -1."""
    found = np.concatenate(indices, 1)
    end = 0
    for each, offset in zip(indices, begin, strict=True):
        start, end = end, end + each.shape[1]
        if dim >= 0 and offset:
            found[dim, start:end] += offset
    return found


elements_between = define(
    "maquette::elements_between(Tensor indices, Tensor values, int dim, SymInt start, SymInt "
    "length, bool drop) -> (Tensor, Tensor)"
)


@counting_nothing(
    elements_between,
    lambda indices, values, dim, start, length, drop: (
        indices.fresh((indices.shape[0] - drop, 0)),
        values.fresh((0, *values.shape[1:])),
    ),
)
@on_host
def elements_between_kernel(
    xp: ModuleType, indices: Array, values: Array, dim: int, start: int, length: int, drop: bool
) -> tuple[Array, Array]:
    """The elements whose index in a dimension is in a range, from its start; or without it."""
    row = indices[dim]
    here = np.flatnonzero(row == start if length == 1 else (row >= start) & (row < start + length))
    if drop:
        kept = np.empty((len(indices) - 1, here.size), indices.dtype)
        kept[:dim] = np.take(indices[:dim], here, 1)
        kept[dim:] = np.take(indices[dim + 1 :], here, 1)
    else:
        kept = np.take(indices, here, 1)
        if start:
            kept[dim] -= start
    return kept, values[here]


selected_elements = define(
    "maquette::selected_elements(Tensor indices, Tensor values, int dim, Tensor wanted) -> "
    "(Tensor, Tensor)"
)


@counting_nothing(
    selected_elements,
    lambda indices, values, dim, wanted: (
        indices.fresh((indices.shape[0], 0)),
        values.fresh((0, *values.shape[1:])),
    ),
)
@on_host
def selected_elements_kernel(
    xp: ModuleType, indices: Array, values: Array, dim: int, wanted: Array
) -> tuple[Array, Array]:
    """For each wanted index in a dimension, in order, the elements there, with its position."""
    row = indices[dim]
    order = stable_order(row)
    begin, end = np.searchsorted(row[order], np.stack([wanted, wanted + 1]))
    counts = end - begin
    which = np.repeat(np.arange(wanted.size), counts)
    within = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
    here = order[np.repeat(begin, counts) + within]
    found = np.take(indices, here, 1)
    found[dim] = which
    return found, values[here]


diagonal_places = define(
    "maquette::diagonal_places(Tensor offsets, SymInt columns, SymInt[] size) -> (Tensor, Tensor)"
)


@counting_nothing(
    diagonal_places,
    lambda offsets, columns, size: (offsets.fresh((2, 0), int64), offsets.fresh((0,), int64)),
)
@on_host
def diagonal_places_kernel(
    xp: ModuleType, offsets: Array, columns: int, size: Sizes
) -> tuple[Array, Array]:
    """Where diagonals are in a matrix, one after the other; where each element comes from.

    columns: how many elements a diagonal has, those outside of the matrix included.
    """
    begin = np.maximum(offsets, 0)
    counts = np.maximum(np.minimum(offsets + size[0], min(columns, int(size[1]))) - begin, 0)
    total = int(counts.sum())
    indices, source = np.empty((2, total), np.int64), np.arange(total)
    # What goes before a diagonal leads from the elements' numbers to their columns.
    np.subtract(source, np.repeat(np.cumsum(counts) - counts - begin, counts), out=indices[1])
    np.subtract(indices[1], np.repeat(offsets, counts), out=indices[0])
    source = np.repeat(np.arange(offsets.size) * columns, counts)
    source += indices[1]
    return indices, source
