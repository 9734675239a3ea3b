"""Stride arithmetic on plain tuples: contiguity, memory formats, density, order.

Everything here is a pure function of a shape and strides, in elements. Sizes may be symbolic:
a question that then depends on data counts as answered no.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, TypeAlias

from maquette.core.errors import check
from maquette.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from maquette.core.remembered import remembered
from maquette.core.symbols import at_least_one, intern_key, is_known, is_true, plain, sorted_by

Shape: TypeAlias = tuple[int, ...]
Strides: TypeAlias = tuple[int, ...]

#: By number of dimensions, the channels-last order from the fastest dimension: C, W, H, N.
CHANNELS_LAST_ORDERS: Final = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}
#: The rank that a channels-last format is for.
CHANNELS_LAST_RANKS: Final = {channels_last: 4, channels_last_3d: 5}


def contiguous_strides(shape: Shape) -> Strides:
    """Row-major strides; a size of 0 counts as 1 (spec T11)."""
    try:
        return _contiguous_strides_of_ints(shape)
    except TypeError:  # symbolic sizes cannot be hashed
        return ordered_strides(shape, range(len(shape) - 1, -1, -1))


@remembered
def _contiguous_strides_of_ints(shape: Shape) -> Strides:
    return ordered_strides(tuple(map(plain, shape)), range(len(shape) - 1, -1, -1))


def ordered_strides(shape: Shape, order: Iterable[int]) -> Strides:
    """Dense strides for dimensions named from the fastest; a size of 0 counts as 1."""
    strides = [0] * len(shape)
    running = 1
    inner = None  # no product by 1 and none of the outermost size: symbolic ones cost 15 us each
    for dim in order:
        if inner is not None:
            size = at_least_one(shape[inner])
            running = size if running.__class__ is int and running == 1 else running * size
        strides[dim] = running
        inner = dim
    return tuple(strides)


def packed_strides(shape: Shape, order: Iterable[int]) -> Strides:
    """Dense strides for dimensions named from the fastest; after a size of 0 they are 0."""
    strides = [0] * len(shape)
    running = 1
    for dim in order:
        strides[dim] = running
        running = running * shape[dim]
    return tuple(strides)


def channels_last_strides(shape: Shape) -> Strides:
    """Strides of the channels-last format of a 4-D or 5-D shape (spec T13)."""
    return packed_strides(shape, CHANNELS_LAST_ORDERS[len(shape)])


def format_strides(shape: Shape, strides: Strides, wanted: memory_format) -> Strides:
    """Strides of a copy in a memory format; RuntimeError if it wants another rank."""
    if wanted is contiguous_format:
        return contiguous_strides(shape)
    if wanted is preserve_format:
        return preserve_strides(shape, strides)
    rank = CHANNELS_LAST_RANKS[wanted]
    check(
        len(shape) == rank,
        lambda: f"required rank {rank} tensor to use {wanted.name} format",
    )
    return channels_last_strides(shape)


def is_contiguous(shape: Shape, strides: Strides) -> bool:
    """Whether the strides are row-major where they matter (spec T12)."""
    return has_no_elements(shape) or _runs(shape, strides, range(len(shape) - 1, -1, -1))


def is_channels_last(shape: Shape, strides: Strides, ndim: int) -> bool:
    """Whether a tensor of rank `ndim`, 4 or 5, is channels-last; another rank is not (T13)."""
    return len(shape) == ndim and _runs(shape, strides, CHANNELS_LAST_ORDERS[ndim])


def has_no_elements(shape: Shape) -> bool:
    """Whether some size is 0."""
    for size in shape:  # a frame for each size would cost three times as much
        if is_true(size == 0) if size.__class__ is not int else not size:
            return True
    return False


def _runs(shape: Shape, strides: Strides, order: Iterable[int]) -> bool:
    """Whether, dimension by dimension in this order, strides are the running product of sizes."""
    running = 1
    for dim in order:
        # Of plain sizes, which are nearly all, the comparisons are answers: a call for each took
        # as long as the rest.
        size, stride = shape[dim], strides[dim]
        one = size == 1
        if one is True or (one is not False and is_true(one)):
            continue
        same = stride == running
        if same is False or (same is not True and not is_true(same)):
            return False
        running = running * size
    return True


def is_dense(shape: Shape, strides: Strides) -> bool:
    """Whether elements fill their range of memory without gap or overlap (spec T14)."""
    if is_contiguous(shape, strides):
        return True
    dims = [dim for dim, size in enumerate(shape) if not is_true(size == 1)]
    return _runs(shape, strides, sorted_by(dims, strides))


def preserve_strides(shape: Shape, strides: Strides) -> Strides:
    """Strides of a copy that keeps the order of dimensions (spec T16)."""
    if is_dense(shape, strides):
        return strides
    return ordered_strides(shape, stride_order(shape, [strides]))


def suggested_format(shape: Shape, strides: Strides) -> memory_format:
    """The memory format that the strides suggest: channels-last or contiguous (spec T17)."""
    ndim = len(shape)
    if ndim in CHANNELS_LAST_ORDERS and _ascend_channels_last(shape, strides):
        return channels_last if ndim == 4 else channels_last_3d
    return contiguous_format


def _ascend_channels_last(shape: Shape, strides: Strides) -> bool:
    if is_true(strides[1] == 0):
        return False
    least = 0
    for dim in CHANNELS_LAST_ORDERS[len(shape)]:
        size, stride = shape[dim], strides[dim]
        if is_true(size == 0) or is_true(stride < least):
            return False
        if dim == 0 and is_true(least == strides[1]):
            return False  # N, C, 1, 1 and the like: both formats, contiguous preferred
        least = stride * size
    return True


def repeats(shape: Shape, strides: Strides) -> bool:
    """Whether several elements of a dimension are one place in memory (spec T41)."""
    return any(is_true(s == 0) and is_true(n > 1) for s, n in zip(strides, shape))


def overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may lie in one place in memory, for sizes and strides without symbols.

    Exact for what views of dense tensors give; True where only a closer look could tell.
    """
    if 0 in shape:
        return False
    reach = 1
    for stride, size in sorted((s, n) for s, n in zip(strides, shape) if n != 1):
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def storage_elements(shape: Shape, strides: Strides, offset: int) -> int:
    """The elements that the storage must hold: 0 for an empty tensor (spec T2).

    A symbolic size is taken for 1 or more unless it is known to be 0: bytes are no reason to guard.
    """
    if any(is_known(size == 0) for size in shape):
        return 0
    if shape and shape[0].__class__ is not int and _is_row_major(shape, strides):
        return offset + shape[0] * strides[0]  # one symbolic product, where the sum takes seven
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))


def _is_row_major(shape: Shape, strides: Strides) -> bool:
    """Whether each stride is written as the next one times its size: no symbols are compared."""
    if strides[-1].__class__ is not int or strides[-1] != 1:
        return False
    inner = None  # a product by 1 would be a symbolic one
    for size, stride in zip(reversed(shape[1:]), reversed(strides[:-1])):
        inner = size if inner is None else inner * size
        if intern_key(stride) != intern_key(inner):
            return False
    return True


def stride_order(shape: Shape, operands: Sequence[Strides]) -> list[int]:
    """Dimensions from the fastest to the slowest, as operands of this shape agree (spec T38).

    An insertion sort from the last dimension on. Earlier operands decide first; a pair of
    dimensions that no operand can tell apart does not stop the search.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        current = i
        for j in range(i - 1, -1, -1):
            comparison = _compare(order[j], order[current], shape, operands)
            if comparison > 0:
                order[j], order[current] = order[current], order[j]
                current = j
            elif comparison < 0:
                break
    return order


def _compare(a: int, b: int, shape: Shape, operands: Sequence[Strides]) -> int:
    """-1 if dimension a is the faster, 1 if b is, 0 if that is not known."""
    for strides in operands:
        first, second = strides[a], strides[b]
        if is_true(first == 0) or is_true(second == 0):
            continue
        if is_true(first < second):
            return -1
        if is_true(first > second) or is_true(shape[a] > shape[b]):
            return 1
    return 0


def numel(shape: Shape) -> int:
    """The number of elements."""
    return prod(shape)
