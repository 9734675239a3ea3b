"""What the sparse kernels compute with: operators on the parts, each one loop over arrays.

They are private (namespace ``maquette``): pages of this package call them on indices and values, so
that fake parts are answered by shape rules as all operators are. Those that find elements give as
many as there are; where there is no data they find none. Conversions are in `layouts.py`, products
in `matrix_products.py`, what takes two tensors or some of the elements in `merging.py` and
`picking.py`.
"""

from __future__ import annotations

from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.large_arrays import added_at
from maquette.aten.sparse.merging import positions
from maquette.aten.sparse.places import (
    Sizes,
    checked_offsets,
    checked_within,
    flat_index,
    sorted_order,
)
from maquette.core.dtype import int64
from maquette.core.errors import check_data
from maquette.library.page import define
from maquette.library.sparse_kernels import counting_nothing


def summed_at(groups: Array, count: int, values: Array) -> Array:
    """The sum of the values of each group, in the type that sums are made in."""
    if values.dtype == np.bool_:
        found: Array = np.zeros((count, *values.shape[1:]), np.bool_)
        np.logical_or.at(found, groups, values)
        return found
    found = np.zeros((count, *values.shape[1:]), wide(values).dtype)
    added_at(found, groups, wide(values))
    return found.astype(values.dtype, copy=False)


def _repeats(indices: Array, order: Array) -> Array:
    """Which columns of indices, in a sorted order, are equal to the one before."""
    again = np.ones(max(order.size - 1, 0), np.bool_)
    for row in indices:
        ranked = row[order]
        again &= ranked[1:] == ranked[:-1]
    return again


# --- finding elements -----------------------------------------------------------------------

coo_coalesce = define(
    "maquette::coo_coalesce(Tensor indices, Tensor values, SymInt[] size) -> (Tensor, Tensor)"
)


@counting_nothing(
    coo_coalesce,
    lambda indices, values, size: (
        indices.fresh((indices.shape[0], 0)),
        values.fresh((0, *values.shape[1:])),
    ),
)
@on_host
def coo_coalesce_kernel(
    xp: ModuleType, indices: Array, values: Array, size: Sizes
) -> tuple[Array, Array]:
    order = sorted_order(indices, size)
    again = _repeats(indices, order)
    if not again.any():
        return np.take(indices, order, 1), values[order]
    first = np.ones(order.size, np.bool_)
    np.logical_not(again, out=first[1:])
    groups = np.empty(order.size, np.int64)
    groups[order] = np.cumsum(first) - 1
    kept = order[first]
    return np.take(indices, kept, 1), summed_at(groups, kept.size, values)


compressed_places = define("maquette::compressed_places(Tensor mask) -> (Tensor, Tensor)")


@counting_nothing(
    compressed_places,
    lambda mask: (
        mask.fresh((*mask.shape[:-2], mask.shape[-2] + 1), int64),
        mask.fresh((*mask.shape[:-2], 0), int64),
    ),
)
@on_host
def compressed_places_kernel(xp: ModuleType, mask: Array) -> tuple[Array, Array]:
    batch = mask.shape[:-2]
    counts = mask.sum((-2, -1))
    check_data(
        counts.size == 0 or bool((counts == counts.flat[0]).all()),
        lambda: "Expect the same number of specified elements per batch.",
    )
    offsets = np.zeros((*batch, mask.shape[-2] + 1), np.int64)
    np.cumsum(mask.sum(-1), -1, out=offsets[..., 1:])
    plain = np.nonzero(mask)[-1].astype(np.int64, copy=False)
    return offsets, plain.reshape((*batch, plain.size // max(prod(batch), 1)))


# --- elements of known number ---------------------------------------------------------------

coo_lookup = define("maquette::coo_lookup(Tensor indices, Tensor wanted, SymInt[] size) -> Tensor")
coo_lookup.shape(lambda indices, wanted, size: wanted.fresh((wanted.shape[1],)))


@coo_lookup.kernel
@on_host
def coo_lookup_kernel(xp: ModuleType, indices: Array, wanted: Array, size: Sizes) -> Array:
    """For each wanted column where it is among sorted indices; -1 where it is not."""
    return positions(flat_index(indices, size), flat_index(wanted, size))


coo_softmax = define(
    "maquette::coo_softmax(Tensor indices, Tensor values, SymInt[] size, int dim, bool log) -> "
    "Tensor"
)
coo_softmax.shape(lambda indices, values, *rest: values.fresh(values.shape))


def _pools(indices: Array, size: Sizes, dim: int) -> tuple[Array, int]:
    """The group of each column: those that differ along ``dim`` alone are one group."""
    rest = [i for i in range(len(size)) if i != dim]
    flat = flat_index(indices[rest], tuple(size[i] for i in rest))
    found, groups = np.unique(flat, return_inverse=True)
    return groups.reshape(-1), found.size


@coo_softmax.kernel
@on_host
def coo_softmax_kernel(
    xp: ModuleType, indices: Array, values: Array, size: Sizes, dim: int, log: bool
) -> Array:
    groups, count = _pools(indices, size, dim)
    x = wide(values)
    most = np.full((count, *values.shape[1:]), -np.inf, x.dtype)
    np.maximum.at(most, groups, x)
    most[~np.isfinite(most)] = 0
    shifted = x - most[groups]
    e = np.exp(shifted)
    total = np.zeros(most.shape, x.dtype)
    np.add.at(total, groups, e)
    result = shifted - np.log(total)[groups] if log else e / total[groups]
    return result.astype(values.dtype)


coo_softmax_backward = define(
    "maquette::coo_softmax_backward(Tensor indices, Tensor grad, Tensor result, SymInt[] size, "
    "int dim, bool log) -> Tensor"
)
coo_softmax_backward.shape(lambda indices, grad, result, *rest: result.fresh(result.shape))


@coo_softmax_backward.kernel
@on_host
def coo_softmax_backward_kernel(
    xp: ModuleType, indices: Array, grad: Array, result: Array, size: Sizes, dim: int, log: bool
) -> Array:
    groups, count = _pools(indices, size, dim)
    g, y = wide(grad), wide(result)
    total = np.zeros((count, *y.shape[1:]), y.dtype)
    np.add.at(total, groups, g if log else g * y)
    found = g - np.exp(y) * total[groups] if log else y * (g - total[groups])
    return found.astype(result.dtype)


# --- sums -----------------------------------------------------------------------------------

compressed_sums = define(
    "maquette::compressed_sums(Tensor compressed, Tensor plain, Tensor values, SymInt minors, bool "
    "majors_too, bool minors_too) -> (Tensor, Tensor, Tensor)"
)
compressed_sums.describe(
    "Sums of a compressed matrix along its compressed dimension, the other one or both: compressed."
)


@counting_nothing(
    compressed_sums,
    lambda compressed, plain, values, minors, majors_too, minors_too: (
        compressed.fresh((2,)) if majors_too else compressed,
        plain.fresh((0,)),
        values.fresh((0,)),
    ),
)
@on_host
def compressed_sums_kernel(
    xp: ModuleType,
    compressed: Array,
    plain: Array,
    values: Array,
    minors: int,
    majors_too: bool,
    minors_too: bool,
) -> tuple[Array, Array, Array]:
    """Sums of what is stored: a row that stores nothing has none."""
    checked_offsets(compressed, plain.size)
    x, kind = wide(values), compressed.dtype
    if majors_too and minors_too:
        count = min(plain.size, 1)
        total = x.sum(keepdims=True, dtype=x.dtype)[:count]
        return np.array([0, count], kind), np.zeros(count, kind), total.astype(values.dtype)
    if majors_too:
        checked_within(plain, minors)
        there = np.flatnonzero(np.bincount(plain, minlength=minors))
        sums = summed_at(plain, minors, values)[there]
        return np.array([0, there.size], kind), there.astype(kind, copy=False), sums
    stored = compressed[1:] > compressed[:-1]
    starts = compressed[:-1][stored]
    offsets = np.zeros(compressed.size, kind)
    np.cumsum(stored, out=offsets[1:])
    sums = np.add.reduceat(x, starts) if starts.size else x[:0]
    return offsets, np.zeros(starts.size, kind), sums.astype(values.dtype, copy=False)
