"""Searching, sorting and sets, as the array API standard has them.

What is here: positions of elements, order, distinct values. PyTorch's functions serve; where the
standard asks for less than they need, as an order that is stable, they are told so.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from maquette.api import functions as mq
from maquette.array_api.data_types import Number, promoted
from maquette.core.dtype import bool_, int64
from maquette.tensor.tensor import Tensor


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, where each element went, and how many there are."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values, and how many there are of each."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values, and where each element went."""

    values: Tensor
    inverse_indices: Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the greatest element, the first of several."""
    return mq.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the least element, the first of several."""
    return mq.argmin(x, axis, keepdims)


def count_nonzero(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """How many elements are not zero."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return (x != 0).to(int64).sum(axes, keepdims) if axes else (x != 0).to(int64)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of elements that are not zero, an array for each axis."""
    if not x.ndim:
        raise ValueError("nonzero: expected an array of at least one dimension, got one of none")
    return tuple(mq.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Tensor,
    x2: Tensor | Number,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Where elements would stand in a sorted array."""
    values, wanted = promoted("searchsorted", x1, x2)
    return mq.searchsorted(values, wanted, side=side, sorter=sorter)


def where(condition: Tensor, x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Elements of the first array where the condition holds, else of the second."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return mq.where(condition, x1, x2)
    return mq.where(condition, *promoted("where", x1, x2))


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions of elements in order."""
    return mq.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order."""
    values: Tensor = mq.sort(x, dim=axis, descending=descending, stable=stable)[0]
    return values


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values, in order; each NaN counts for itself."""
    return unique_all(x).values


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values, and how many there are of each."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values, and for each element the place of its value among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values, where each stands first, their places, and how many there are."""
    flat = x.reshape(-1)
    order = _in_order(flat)
    ordered = flat[order]
    starts = mq.ones_like(ordered, dtype=bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    places = starts.to(int64).cumsum(0) - 1
    first = mq.nonzero(starts, as_tuple=True)[0]
    inverse = mq.empty_like(order)
    inverse[order] = places
    ends = mq.cat([first[1:], mq.full((1,), flat.shape[0], dtype=int64, device=x.device)])
    counts = ends[: first.shape[0]] - first
    return UniqueAll(ordered[first], order[first], inverse.reshape(x.shape), counts)


def _in_order(flat: Tensor) -> Tensor:
    """Positions of elements in order, the first of equal ones first; complex ones by real part."""
    if not flat.dtype.is_complex:
        return mq.argsort(flat, stable=True)
    order = mq.argsort(flat.imag, stable=True)
    return order[mq.argsort(flat.real[order], stable=True)]
