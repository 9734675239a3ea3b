"""View arithmetic: the geometry of a view from that of its tensor.

Each `*_view` takes a shape, strides and an offset and returns the view's, all in elements. Nothing
is copied or allocated: an operator's shape rule turns the triple into a meta.
"""

from collections.abc import Sequence
from math import prod
from typing import Final, TypeAlias

from maquette.core.broadcast import wrap_dim, wrap_dims
from maquette.core.errors import check, check_index
from maquette.core.scalar_types import dtype as DType
from maquette.core.strides import (
    Shape,
    Strides,
    contiguous_strides,
    has_no_elements,
    storage_elements,
)
from maquette.core.symbols import (
    alike,
    at_least_one,
    expect_true,
    fresh_size,
    is_true,
    larger,
    node_of,
    smaller,
)

_LARGEST: Final = 2**63 - 1
Geometry: TypeAlias = tuple[Shape, Strides, int]


def view_shape_infer(sizes: Sequence[int], numel: int, shape: Shape | None = None) -> Shape:
    """The requested sizes with a -1 replaced by what is left of `numel` elements (spec T20).

    shape: the tensor's own; PyTorch's message does without it. RuntimeError for a second -1,
    another negative size, a -1 that could be anything, or a product other than numel.
    """
    inferred = _inferred_dim(sizes)
    known = prod(size for dim, size in enumerate(sizes) if dim != inferred)

    def mismatch() -> str:
        return f"shape '{list(sizes)}' is invalid for input of size {numel}"

    if inferred is None:
        check(known == numel, mismatch)
        return tuple(sizes)
    if is_true(known == 0):
        check(numel == 0, mismatch)
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the "
            f"unspecified dimension size -1 can be any value and is ambiguous"
        )
    check(numel % known == 0, mismatch)
    return (*sizes[:inferred], numel // known, *sizes[inferred + 1 :])


def _inferred_dim(sizes: Sequence[int]) -> int | None:
    """Which size is -1, if any."""
    inferred = None
    for dim, size in enumerate(sizes):
        if is_true(size == -1):
            check(inferred is None, lambda: "only one dimension can be inferred")
            inferred = dim
            continue
        if not expect_true(size >= 0):
            raise RuntimeError(
                f"invalid shape dimension {size} at index {dim} of shape {list(sizes)}"
            )
    return inferred


def view_strides(old_shape: Shape, old_strides: Strides, new_shape: Shape) -> Strides | None:
    """Strides that show the elements in another shape of equal numel (spec T20).

    None if there are none: a new dimension would cross a jump in memory.
    """
    if has_no_elements(old_shape):
        return old_strides if alike(old_shape, new_shape) else contiguous_strides(new_shape)
    if not old_shape:
        return (1,) * len(new_shape)
    strides = _strides_by_runs(old_shape, old_strides, new_shape)
    if strides is None and alike(old_strides, contiguous_strides(old_shape)):
        # Whole, though a size that may be 0 hides it: its stride is ``max(size, 1)``.
        return contiguous_strides(new_shape)
    return strides


def _strides_by_runs(old_shape: Shape, old_strides: Strides, new_shape: Shape) -> Strides | None:
    strides: list[int] = []
    remaining = len(new_shape) - 1
    runs = _runs_from_the_right(old_shape, old_strides)
    for number, (run_numel, run_stride) in enumerate(runs):
        taken = 1
        if number == len(runs) - 1:  # what is left is all of it: the numbers of elements agree
            for size in reversed(new_shape[: remaining + 1]):
                strides.append(taken * run_stride)
                taken = taken * at_least_one(size)
            remaining = -1
            break
        while remaining >= 0 and (is_true(taken < run_numel) or is_true(new_shape[remaining] == 1)):
            strides.append(taken * run_stride)
            taken = taken * new_shape[remaining]
            remaining -= 1
        if not is_true(taken == run_numel):
            return None
    return tuple(reversed(strides)) if remaining < 0 else None


def _runs_from_the_right(shape: Shape, strides: Strides) -> list[tuple[int, int]]:
    """Numel and last stride of each run of dimensions without a jump between them."""
    runs: list[tuple[int, int]] = []
    run_numel = 1
    run_stride = strides[-1]
    for dim in range(len(shape) - 1, -1, -1):
        run_numel = run_numel * shape[dim]
        starts_here = dim == 0 or not (
            is_true(shape[dim - 1] == 1) or is_true(strides[dim - 1] == run_numel * run_stride)
        )
        if starts_here:
            runs.append((run_numel, run_stride))
            run_numel = 1
            run_stride = strides[dim - 1] if dim else 1
    return runs


def expand_view(shape: Shape, strides: Strides, offset: int, sizes: Sequence[int]) -> Geometry:
    """Stretch dimensions of size 1 and add leading ones, without copying (spec T21, T36).

    A size of -1 keeps the dimension's. All strides are 0 when the tensor is 0-dim.
    """
    missing = len(sizes) - len(shape)
    check(
        missing >= 0,
        lambda: (
            f"expand({list(shape)}, size={list(sizes)}): the number of sizes provided "
            f"({len(sizes)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(shape)})"
        ),
    )
    new_shape = list(sizes)
    new_strides = [0] * len(sizes)
    for dim in range(len(sizes) - 1, -1, -1):
        if dim < missing:
            _check_new_size(sizes[dim], dim)
            if shape and is_true(sizes[dim] == 1):
                new_strides[dim] = _stride_before(new_shape, new_strides, dim)
            continue
        old = dim - missing
        if is_true(sizes[dim] == -1):
            new_shape[dim] = shape[old]
        if is_true(new_shape[dim] == shape[old]):
            new_strides[dim] = strides[old]
        else:
            _check_stretch(shape, sizes, dim)
    return tuple(new_shape), tuple(new_strides), offset


def _stride_before(shape: Sequence[int], strides: Sequence[int], dim: int) -> int:
    """The stride of a dimension of size 1 put in front of the one at dim + 1."""
    return shape[dim + 1] * strides[dim + 1] if dim + 1 < len(shape) else 1


def _check_new_size(size: int, dim: int) -> None:
    check(
        size >= 0,
        lambda: (
            f"The expanded size of the tensor ({size}) isn't allowed in a leading, "
            f"non-existing dimension {dim}"
        ),
    )


def _check_stretch(shape: Shape, sizes: Sequence[int], dim: int) -> None:
    old = shape[dim - len(sizes) + len(shape)]
    check(
        expect_true(old == 1) and expect_true(sizes[dim] >= 0),
        lambda: (
            f"The expanded size of the tensor ({sizes[dim]}) must match the existing size "
            f"({old}) at non-singleton dimension {dim}.  Target sizes: {list(sizes)}.  "
            f"Tensor sizes: {list(shape)}"
        ),
    )


def select_view(shape: Shape, strides: Strides, offset: int, dim: int, index: int) -> Geometry:
    """One slice of a dimension, which goes; IndexError out of range."""
    check_index(bool(shape), lambda: "select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    size = shape[dim]
    check_index(
        expect_true(-size <= index) and expect_true(index < size),
        lambda: (
            f"select(): index {index} out of range for tensor of size {list(shape)} at "
            f"dimension {dim}"
        ),
    )
    return _without(shape, dim), _without(strides, dim), _place(index, size, strides[dim], offset)


def _place(index: int, size: int, stride: int, offset: int) -> int:
    """The offset of an element of a dimension; a fresh symbol if the index has no sign (F79)."""
    if is_true(index < 0):
        return offset + (index + size) * stride
    if is_true(index >= 0):
        return offset + index * stride
    return fresh_size(index, offset + larger(size - 1, 0) * stride)


def _without(values: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return values[:dim] + values[dim + 1 :]


def _with(values: tuple[int, ...], dim: int, value: int) -> tuple[int, ...]:
    return (*values[:dim], value, *values[dim + 1 :])


def slice_view(
    shape: Shape,
    strides: Strides,
    offset: int,
    dim: int,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Geometry:
    """Every step-th element of a range of a dimension; the range is clamped as in Python.

    A bound of which only data tells the sign gives a fresh size and a fresh offset (F79).
    """
    check_index(bool(shape), lambda: "slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    check(step > 0, lambda: "slice step must be positive")
    size = shape[dim]
    unclear = next((b for b in (start, end) if b is not None and _has_no_sign(b)), None)
    if unclear is not None:
        return (
            _with(shape, dim, fresh_size(unclear, size)),
            _with(strides, dim, strides[dim] * step),
            fresh_size(unclear, offset + size * strides[dim]),
        )
    first = 0 if start is None else _clamp_bound(start, size)
    last = size if end is None or _is_largest(end) else _clamp_bound(end, size)
    length = last - first
    if not is_true(length >= 0):
        length = 0 if node_of(length) is None or is_true(length < 0) else larger(length, 0)
    count = (length + step - 1) // step
    return (
        _with(shape, dim, count),
        _with(strides, dim, strides[dim] * step),
        offset + first * strides[dim],
    )


def _is_largest(end: int) -> bool:
    """Whether an end is how programs write "to the end", which no size passes."""
    return end.__class__ is int and end >= _LARGEST


def _clamp_bound(bound: int, size: int) -> int:
    """A bound as a position from 0 to ``size``."""
    if is_true(bound < 0):
        bound = bound + size
        return 0 if is_true(bound < 0) else bound if is_true(bound >= 0) else larger(bound, 0)
    if is_true(bound > size):
        return size
    if is_true(bound <= size) and is_true(bound >= 0):
        return bound
    return smaller(bound, size)


def _has_no_sign(bound: int) -> bool:
    """Whether only data could tell from which end a bound counts."""
    return node_of(bound) is not None and not (is_true(bound >= 0) or is_true(bound < 0))


def permute_view(shape: Shape, strides: Strides, offset: int, dims: Sequence[int]) -> Geometry:
    """Dimensions in another order; RuntimeError unless each is named once."""
    ndim = len(shape)
    check(
        len(dims) == ndim,
        lambda: (
            f"permute(sparse_coo): number of dimensions in the tensor input does not match "
            f"the length of the desired ordering of dimensions i.e. input.dim() = {ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        ),
    )
    order = [wrap_dim(dim, ndim) for dim in dims]
    check(len(set(order)) == ndim, lambda: "permute(): duplicate dims are not allowed.")
    return tuple(shape[dim] for dim in order), tuple(strides[dim] for dim in order), offset


def transpose_view(shape: Shape, strides: Strides, offset: int, dim0: int, dim1: int) -> Geometry:
    """Two dimensions swapped; a 0-dim tensor stays as it is."""
    ndim = len(shape)
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    if ndim == 0:
        return shape, strides, offset
    order = list(range(ndim))
    order[dim0], order[dim1] = dim1, dim0
    return permute_view(shape, strides, offset, order)


def unsqueeze_view(shape: Shape, strides: Strides, offset: int, dim: int) -> Geometry:
    """A new dimension of size 1; its stride is what a contiguous one would have (spec T21)."""
    dim = wrap_dim(dim, len(shape) + 1)
    stride = shape[dim] * strides[dim] if dim < len(shape) else 1
    return (
        (*shape[:dim], 1, *shape[dim:]),
        (*strides[:dim], stride, *strides[dim:]),
        offset,
    )


def squeeze_view(
    shape: Shape, strides: Strides, offset: int, dims: Sequence[int] | None = None
) -> Geometry:
    """Without dimensions of size 1: all of them, or those among `dims`."""
    ndim = len(shape)
    candidates = range(ndim) if dims is None else wrap_dims(dims, ndim)
    kept = [dim for dim in range(ndim) if dim not in candidates or not is_true(shape[dim] == 1)]
    return tuple(shape[dim] for dim in kept), tuple(strides[dim] for dim in kept), offset


def unfold_view(
    shape: Shape, strides: Strides, offset: int, dim: int, size: int, step: int
) -> Geometry:
    """Windows of a dimension, step apart; the last dimension runs within a window (spec T21)."""
    dim = wrap_dim(dim, len(shape))
    whole, stride = (shape[dim], strides[dim]) if shape else (1, 1)
    check(size >= 0, lambda: f"size is {size} but must be >= 0")
    check(
        size <= whole,
        lambda: f"maximum size for tensor at dimension {dim} is {whole} but size is {size}",
    )
    check(step > 0, lambda: f"step is {step} but must be > 0")
    if not shape:
        return (size,), (1,), offset
    return (
        (*_with(shape, dim, (whole - size) // step + 1), size),
        (*_with(strides, dim, stride * step), stride),
        offset,
    )


def diagonal_view(
    shape: Shape, strides: Strides, offset: int, diagonal: int = 0, dim1: int = 0, dim2: int = 1
) -> Geometry:
    """The diagonal of two dimensions as the last one; size 0 if it lies outside (spec T21)."""
    ndim = len(shape)
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    check(
        first != second,
        lambda: f"diagonal dimensions cannot be identical {dim1}, {dim2}",
    )
    rows, columns = shape[first], shape[second]
    if is_true(diagonal >= 0):
        length, start = smaller(rows, columns - diagonal), diagonal * strides[second]
    else:
        length, start = smaller(rows + diagonal, columns), -diagonal * strides[first]
    if is_true(length <= 0):
        length, start = 0, 0
    kept = [dim for dim in range(ndim) if dim not in (first, second)]
    return (
        (*(shape[dim] for dim in kept), length),
        (*(strides[dim] for dim in kept), strides[first] + strides[second]),
        offset + start,
    )


def as_strided_check(
    shape: Shape, strides: Strides, offset: int, itemsize: int, storage_bytes: int
) -> None:
    """Raise RuntimeError unless the geometry is one and lies within the storage (spec T7)."""
    check(len(shape) == len(strides), lambda: "mismatch in length of strides and shape")
    check(
        all(expect_true(stride >= 0) for stride in strides),
        lambda: (
            f"as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(strides)}"
        ),
    )
    check(
        all(expect_true(size >= 0) for size in shape),
        lambda: f"as_strided: expected sizes of 0 or more, got sizes: {list(shape)}",
    )
    check(offset >= 0, lambda: f"Tensor: invalid storage offset {offset}")
    needed = itemsize * storage_elements(shape, strides, offset)
    check(
        needed <= storage_bytes,
        lambda: (
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset "
            f"{offset}, and itemsize {itemsize} requiring a storage size of {needed} are out of "
            f"bounds for storage of size {storage_bytes}"
        ),
    )


def view_dtype(shape: Shape, strides: Strides, offset: int, old: DType, new: DType) -> Geometry:
    """The same bytes as elements of another type (spec T22).

    RuntimeError, naming the quantity, if a size, stride or the offset does not divide.
    """
    if old.itemsize == new.itemsize:
        return shape, strides, offset
    doing = f"to view {old.scalar_name} as {new.scalar_name} (different element sizes)"
    check(bool(shape), lambda: f"self.dim() cannot be 0 {doing}")
    if old.itemsize > new.itemsize:
        _check_last_stride(strides, doing)
        ratio = old.itemsize // new.itemsize
        outer = tuple(stride * ratio for stride in strides[:-1])
        return (*shape[:-1], shape[-1] * ratio), (*outer, 1), offset * ratio
    ratio = new.itemsize // old.itemsize
    _check_divisible("size(-1)", shape[-1], ratio, doing)
    _check_divisible("storage_offset()", offset, ratio, doing)
    _check_last_stride(strides, doing)
    for dim, stride in enumerate(strides[:-1]):
        _check_divisible(f"stride({dim})", stride, ratio, doing)
    outer = tuple(stride // ratio for stride in strides[:-1])
    return (*shape[:-1], shape[-1] // ratio), (*outer, 1), offset // ratio


def _check_last_stride(strides: Strides, doing: str) -> None:
    check(strides[-1] == 1, lambda: f"self.stride(-1) must be 1 {doing}, but got {strides[-1]}")


def _check_divisible(name: str, given: int, ratio: int, doing: str) -> None:
    check(
        given % ratio == 0,
        lambda: f"self.{name} must be divisible by {ratio} {doing}, but got {given}",
    )
