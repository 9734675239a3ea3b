"""Advanced indexing: ``index`` and ``index_put`` with tensors of positions and masks (T42-T47).

A mask stands for the positions where it is true, which only its data tells. So masks are turned
into positions before shape rule and kernel run; on tensors without data that is impossible for
``index``, whose result's size it decides. What Python's subscripts make of this is in
`subscripts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

from maquette.aten.common.array_libraries import assigned_at, combined_at, data_says
from maquette.aten.common.axes import Array
from maquette.aten.common.fresh_writes import into_fresh, zeros_beside
from maquette.aten.common.memory_overlap import refuse_overlap, warn_of_expanded
from maquette.aten.indexing.index_batching import (
    index_batching,
    index_put_batching,
    index_put_in_place_batching,
)
from maquette.core.broadcast import broadcast_shapes, expand_strides
from maquette.core.device_rules import any_elsewhere
from maquette.core.dtype import bool_, int32, int64, uint8
from maquette.core.elementwise import elementwise_strides
from maquette.core.errors import check, check_index, of_data
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape, Strides, contiguous_strides, has_no_elements
from maquette.core.symbols import expect_true, is_true
from maquette.core.views import view_strides
from maquette.core.warned import warn
from maquette.dispatch.tags import Tag
from maquette.library.infer import DependsOnData
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

Indices = tuple["TensorMeta | None", ...]
_MASKS = (bool_, uint8)
_POSITIONS = (int32, int64)

# --- the shape of what is indexed ----------------------------------------------------


def check_indices(self: TensorMeta, indices: Indices) -> None:
    """Refuse indices of other dtypes, masks of other shapes, and too many of them (T43, T44)."""
    taken = 0
    for position, index in enumerate(indices):
        if index is None:
            taken += 1
            continue
        kind = index.dtype
        check_index(
            kind in _MASKS or kind in _POSITIONS,
            lambda: "tensors used as indices must be long, int, byte or bool tensors",
        )
        if kind in _MASKS:
            _check_mask(self, index, taken, position)
        taken += index.ndim if kind in _MASKS else 1
    check_index(
        taken <= self.ndim,
        lambda: f"too many indices for tensor of dimension {self.ndim} (got {taken})",
    )


def _check_mask(self: TensorMeta, mask: TensorMeta, first: int, position: int) -> None:
    # A 0-dim mask covers no dimension; Python's subscripts give it one before.
    check_index(
        mask.ndim > 0,
        lambda: "a mask without dimensions indexes no dimension; use x[None][mask[None]]",
    )

    def mismatch(dim: int) -> str:
        return (
            f"The shape of the mask {list(mask.shape)} at index {dim} does not match the shape of "
            f"the indexed tensor {list(self.shape)} at index {first + dim} (index {position})"
        )

    covered = self.shape[first : first + mask.ndim]
    for dim, (size, wanted) in enumerate(zip(mask.shape, covered, strict=False)):
        check_index(size == wanted, partial(mismatch, dim))


def has_mask(indices: Indices) -> bool:
    """Whether some index is a mask, so that data decides how much it takes."""
    return any(i is not None and i.dtype in _MASKS for i in indices)


def _shape_of_positions(indices: Sequence[TensorMeta]) -> Shape:
    try:
        return broadcast_shapes(*[i.shape for i in indices])
    except RuntimeError:
        shapes = ", ".join(str(list(i.shape)) for i in indices)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


def indexed(self: TensorMeta, indices: Indices) -> TensorMeta:
    """The result of ``index``: the shape of the positions for the indexed dimensions (T45, T46)."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    positions = [i for i in indices if i is not None]
    if not positions:
        return self.like()
    shape = _shape_of_positions(positions)
    check_index(
        has_no_elements(shape) or all(expect_true(self.shape[d] != 0) for d in dims),
        lambda: "index is out of bounds for dimension with size 0",
    )
    rest = [d for d in range(self.ndim) if d not in dims]
    adjacent = dims[-1] - dims[0] == len(dims) - 1
    before = [d for d in rest if adjacent and d < dims[0]]
    after = [d for d in rest if d not in before]
    result = (
        *(self.shape[d] for d in before),
        *shape,
        *(self.shape[d] for d in after),
    )
    source = (
        *(self.strides[d] for d in before),
        *((0,) * len(shape)),
        *(self.strides[d] for d in after),
    )
    operands = [(result, source)]
    operands += [_position_operand(i, shape, len(before), len(after)) for i in positions]
    return self.fresh(result, strides=elementwise_strides(result, operands))


def _position_operand(
    index: TensorMeta, shape: Shape, before: int, after: int
) -> tuple[Shape, Strides]:
    """A tensor of positions, broadcast, with a dimension of size 1 for each that is not indexed."""
    wide = (1,) * before + shape + (1,) * after
    strides = view_strides(shape, expand_strides(index.shape, index.strides, shape), wide)
    return wide, contiguous_strides(wide) if strides is None else strides


# --- positions of masks --------------------------------------------------------------


def positions_of(xp: ModuleType, indices: Sequence[Array | None]) -> list[Array | None]:
    """Indices with every mask replaced by the positions where it is true."""
    found: list[Array | None] = []
    for index in indices:
        if index is not None and index.dtype.name == "uint8":
            warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
                "instead."
            )
        if index is not None and index.dtype.name in ("bool", "uint8"):
            found += xp.nonzero(index)
        else:
            found.append(index)
    return found


def _is_fill(indices: Indices, rest: Sequence[object]) -> bool:
    """Whether one number is written where one mask is true: its dtype may then be any (T47)."""
    if len(rest) < 2 or not isinstance(rest[0], TensorMeta) or rest[1]:
        return False
    given = [i for i in indices if i is not None]
    return len(given) == 1 and given[0].dtype in _MASKS and rest[0].numel == 1


def _needs_positions(self: TensorMeta, indices: Indices, *rest: object) -> bool:
    """Whether masks must become positions before shape rule and kernel run."""
    return has_mask(indices) and not _is_fill(indices, rest)


def in_bounds(xp: ModuleType, self: Array, indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """The indices as NumPy takes them; IndexError for a position out of range."""
    for dim, index in enumerate(indices):
        if index is None or index.size == 0 or index.dtype == bool:
            continue
        _check_bounds(index, dim, self.shape[dim])
    return tuple([slice(None) if i is None else i for i in indices])


def _check_bounds(index: Array, dim: int, size: int) -> None:
    if data_says(lambda: index.max() >= size or index.min() < -size):
        extreme = index.max() if index.max() >= size else index.min()
        raise of_data(
            IndexError(f"index {extreme} is out of bounds for dimension {dim} with size {size}")
        )


# --- where indices are ---------------------------------------------------------------


def _given(indices: Indices) -> list[TensorMeta]:
    return [index for index in indices if index is not None]


def _check_places(name: str, self: TensorMeta, indices: Indices) -> None:
    """Refuse indices that are neither on the cpu nor with self (F56)."""
    for index in _given(indices):
        check(
            index.device is self.device or index.device.type == "cpu",
            partial(_wrong_place, name, self, index),
        )


def _wrong_place(name: str, self: TensorMeta, index: TensorMeta) -> str:
    return (
        f"{name}: indices should be either on cpu or on the same device as the indexed tensor "
        f"({self.device}), got one on {index.device}"
    )


def _read_apart(self: TensorMeta, indices: Indices) -> bool:
    if not any_elsewhere((self, *_given(indices))):
        return False
    _check_places("index", self, indices)
    return True


def _put_apart(self: TensorMeta, indices: Indices, values: TensorMeta, *rest: object) -> bool:
    """As for reading; values with dimensions are with self."""
    if not any_elsewhere((self, values, *_given(indices))):
        return False
    _check_places("index_put", self, indices)
    check(
        values.device is self.device or not values.ndim,
        lambda: (
            f"index_put: expected the values with self on {self.device}, got {values}; move the "
            f"values with .to()"
        ),
    )
    return True


# --- reading -------------------------------------------------------------------------

index = define(
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    tags=[Tag.core, Tag.dynamic_output_shape],
)
index.describe("The elements that tensors of positions or masks select, as subscripts do.")
_unsafe_index = define("aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor")


@index.shape
def index_shape(self: TensorMeta, indices: Indices) -> TensorMeta:
    check_indices(self, indices)
    if has_mask(indices):
        raise DependsOnData("the number of positions where a mask is true")
    return indexed(self, indices)


@index.through_others
def index_by_positions(self: Tensor, indices: Sequence[Tensor | None]) -> object:
    """Masks as the positions where they are true, one tensor for each of their dimensions."""
    positions: list[Tensor | None] = []
    for i in indices:
        if i is not None and i.dtype in _MASKS:
            positions += i.nonzero().unbind(1)
        else:
            positions.append(i)
    return index(self, positions)


@index.kernel
def index_kernel(xp: ModuleType, self: Array, indices: Sequence[Array | None]) -> Array:
    taken: Array = self[in_bounds(xp, self, indices)]
    return taken


index.linear(
    self=lambda grad, self_meta, indices: into_fresh(
        "index_put", grad.new_zeros(self_meta.shape), list(indices), grad, True
    )
)
index.any_device(when=_read_apart)
_unsafe_index.shape(index_shape)
_unsafe_index.kernel(index_kernel)

# --- writing -------------------------------------------------------------------------

_PUT = "Tensor?[] indices, Tensor values, bool accumulate=False"
index_put_ = define(f"aten::index_put_(Tensor(a!) self, {_PUT}) -> Tensor(a!)", tags=[Tag.inplace])
index_put = define(f"aten::index_put(Tensor self, {_PUT}) -> Tensor", tags=[Tag.core])
index_put.describe(
    "`self` with `values` at the places that tensors of positions or masks select; accumulate adds."
)
index_put.autocast(cuda="promote")
_unsafe_index_put = define(f"aten::_unsafe_index_put(Tensor self, {_PUT}) -> Tensor")
_index_put_impl_ = define(
    f"aten::_index_put_impl_(Tensor(a!) self, {_PUT}, bool unsafe=False) -> Tensor(a!)",
    tags=[Tag.inplace],
)


@index_put_.shape
def index_put__shape(
    self: TensorMeta, indices: Indices, values: TensorMeta, accumulate: bool
) -> TensorMeta:
    check_indices(self, indices)
    masked = has_mask(indices)
    if not masked:
        _check_values(indexed(self, indices), values)
    if not (masked and is_true(values.numel == 1) and not accumulate):
        check_values_dtype(self, values)
    return self


def check_values_dtype(self: TensorMeta, values: TensorMeta) -> None:
    """RuntimeError where what is put has another dtype than where it is put."""
    check(
        self.dtype is values.dtype,
        lambda: (
            f"Index put requires the source and destination dtypes match, got "
            f"{self.dtype.scalar_name} for the destination and {values.dtype.scalar_name} for "
            f"the source."
        ),
    )


def _check_values(target: TensorMeta, values: TensorMeta) -> None:
    fits = values.ndim <= target.ndim and all(
        is_true(n == 1) or expect_true(n == wanted)
        for n, wanted in zip(reversed(values.shape), reversed(target.shape), strict=False)
    )
    check(
        fits,
        lambda: (
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(target.shape)}"
        ),
    )


@index_put.shape
def index_put_shape(
    self: TensorMeta, indices: Indices, values: TensorMeta, accumulate: bool
) -> TensorMeta:
    made = self.like()
    index_put__shape(made, indices, values, accumulate)
    return made


@_index_put_impl_.shape
def _index_put_impl__shape(
    self: TensorMeta, indices: Indices, values: TensorMeta, accumulate: bool, unsafe: bool
) -> TensorMeta:
    return index_put__shape(self, indices, values, accumulate)


@index_put_.kernel
def index_put__kernel(
    xp: ModuleType,
    self: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool,
    unsafe: bool = False,
) -> Array:
    warn_of_expanded("index_put_", self)
    where = in_bounds(xp, self, indices)
    if accumulate:
        return combined_at(xp, "add", self, where, values)
    given = values if values.dtype == self.dtype else values.astype(self.dtype)
    return assigned_at(xp, self, where, given)


@index_put.kernel
def index_put_kernel(
    xp: ModuleType,
    self: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool,
) -> Array:
    made: Array = xp.array(self, copy=True)
    return index_put__kernel(xp, made, indices, values, accumulate)


_unsafe_index_put.shape(index_put_shape)
_unsafe_index_put.kernel(index_put_kernel)
_index_put_impl_.kernel(index_put__kernel)
index_put_.batching(index_put_in_place_batching)
_index_put_impl_.batching(index_put_in_place_batching)


def _fills_by_mask(
    self: Tensor, indices: tuple[Tensor | None, ...], values: Tensor, accumulate: bool, *rest: bool
) -> bool:
    """Whether one value goes where masks say: it is read before anything is written."""
    masks = [i for i in indices if i is not None]
    one = not accumulate and is_true(values.meta.numel == 1)
    return one and all(i.meta.dtype in (bool_, uint8) for i in masks)


for _page in (index_put_, _index_put_impl_):
    _page.overlap_allowed()
    refuse_overlap(_page, "indices", "values", unless=_fills_by_mask, let_expanded=True)
for _page in (index_put_, index_put, _index_put_impl_):
    _page.any_device(when=_put_apart)
_unsafe_index_put.any_device(
    when=lambda self, indices, values, *rest: any_elsewhere((self, values, *_given(indices)))
)
index_put.batching(index_put_batching)
_unsafe_index_put.batching(index_put_batching)

for _page in (index_put_, index_put, _unsafe_index_put, _index_put_impl_):
    _page.linear(
        self=lambda grad, indices, values_meta, accumulate: (
            grad
            if accumulate
            else grad.index_put(list(indices), zeros_beside(grad, values_meta.shape), False)
        ),
        values=lambda grad, indices: index(grad, list(indices)),
    )
# As that of `index`, by the forms that check nothing.
_unsafe_index.linear(
    self=lambda grad, self_meta, indices: _unsafe_index_put(
        grad.new_zeros(self_meta.shape), list(indices), grad, True
    )
)
index.batching(index_batching)
_unsafe_index.batching(index_batching)
for _page in (index, _unsafe_index, index_put_, index_put, _unsafe_index_put, _index_put_impl_):
    _page.translated("indices", when=_needs_positions)(positions_of)
