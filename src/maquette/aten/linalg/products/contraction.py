"""Sums of products of arrays over named dimensions, two arrays at a time, as matrix products.

NumPy's einsum takes what is no plain matrix product, a batch of them above all, element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from types import ModuleType
from typing import TypeAlias

from maquette.aten.common.accumulation import Array

Factor: TypeAlias = tuple[Array, list[int]]
"""An array and the names of its dimensions."""


def contracted(xp: ModuleType, first: Factor, second: Factor, kept: set[int]) -> Factor:
    """The sum of the products of two arrays over the dimensions that are not ``kept``."""
    (a, of_a), (b, of_b) = (
        _alone_summed(f, kept, o) for f, o in ((first, second), (second, first))
    )
    summed = [d for d in of_a if d in of_b and d not in kept]
    batch = [d for d in of_a if d in of_b and d in kept]
    left, right = [d for d in of_a if d not in of_b], [d for d in of_b if d not in of_a]
    a = a.transpose([of_a.index(d) for d in (*batch, *left, *summed)])
    b = b.transpose([of_b.index(d) for d in (*batch, *summed, *right)])
    rows, terms = a.shape[len(batch) : a.ndim - len(summed)], a.shape[a.ndim - len(summed) :]
    columns, many = b.shape[len(batch) + len(summed) :], a.shape[: len(batch)]
    matrix = a.reshape(*many, prod(rows), prod(terms))
    other = b.reshape(*many, prod(terms), prod(columns))
    product = xp.matmul(matrix, other) if summed else matrix * other
    return product.reshape((*many, *rows, *columns)), [*batch, *left, *right]


def _alone_summed(factor: Factor, kept: set[int], other: Factor) -> Factor:
    """A factor summed over the dimensions that neither the other one nor the result has."""
    array, dims = factor
    alone = tuple([i for i, d in enumerate(dims) if d not in kept and d not in other[1]])
    if not alone:
        return factor
    return array.sum(axis=alone), [d for i, d in enumerate(dims) if i not in alone]


def contracted_in_order(xp: ModuleType, factors: Sequence[Factor], kept: set[int]) -> Factor:
    """`contracted` of three arrays, first the two that take the fewest steps in all."""
    sizes = {d: n for a, dims in factors for d, n in zip(dims, a.shape, strict=True)}

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        (third,) = {0, 1, 2} - {*pair}
        joint = {*factors[pair[0]][1], *factors[pair[1]][1]}
        between = joint & (kept | {*factors[third][1]})
        last = between | {*factors[third][1]}
        steps = prod(sizes[d] for d in joint) + prod(sizes[d] for d in last)
        return steps, prod(sizes[d] for d in between)

    pair = min(combinations(range(3), 2), key=cost)
    (third,) = {0, 1, 2} - {*pair}
    first = contracted(xp, factors[pair[0]], factors[pair[1]], kept | {*factors[third][1]})
    return contracted(xp, first, factors[third], kept)
