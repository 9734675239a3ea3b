"""What operators along dimensions share: which dimensions, the reduced shape, accurate sums.

Shape rules take dimensions as users give them (`reduced`), kernels turn them into axes (`axes_of`)
and accumulate in a wider type than they were given (`accumulator`, `total`), derivative formulas
bring a gradient back to the rank of the input (`spread`). The operators themselves are in
`sums.py`, `variance.py`, `cumulative.py`, `softmax.py`, `layer_norm.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maquette.aten.common.array_libraries import byte_strides
from maquette.aten.common.large_arrays import SMALL, without_repeats
from maquette.aten.common.long_sums import sums_by_products
from maquette.aten.common.narrow_floats import converted
from maquette.core.broadcast import wrap_dim, wrap_dims
from maquette.core.dtype import dtype
from maquette.core.errors import check, check_index
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import is_true
from maquette.library.advice import check_advised
from maquette.tensor.tensor import Tensor

Array: TypeAlias = npt.NDArray[Any]  # NumPy types arithmetic of known dtypes only
Dims: TypeAlias = int | Sequence[int] | None

# NumPy adds pairwise along memory only; across it, errors grow with the count.
LONG_SUM = 1024
# PyTorch keeps the dimensions of a reduction as bits of a word.
_MOST_DIMS = 64


def wrap_existing_dim(dim: int, ndim: int) -> int:
    """As `wrap_dim`, for operators that need a dimension to work along: 0-dim tensors have none."""
    check_index(ndim > 0, lambda: f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def dims_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions named by ``dim``, from the front; None and an empty list name all."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    check(ndim <= _MOST_DIMS, lambda: "only tensors with up to 64 dims are supported")
    return wrap_dims((dim,) if isinstance(dim, int) else dim, ndim)


def reduced_shape(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    """The shape left when ``dims`` (from the front) are reduced."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def reduced(
    self: TensorMeta, dim: Dims, keepdim: bool = False, kind: dtype | None = None
) -> TensorMeta:
    """The result of a reduction over ``dim``: contiguous, of dtype ``kind`` or the input's own."""
    return self.fresh(reduced_shape(self.shape, dims_of(dim, self.ndim), keepdim), kind)


def check_reducible(name: str, self: TensorMeta, dim: Dims) -> None:
    """Refuse to choose an element of none: IndexError if a reduced dimension has size 0."""
    if not is_true(self.numel == 0):
        return
    if dim is None or dim == ():
        check_index(
            False,
            lambda: (
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                f"Specify the reduction dim with the 'dim' argument. The input is {self}."
            ),
        )
    empty = [d for d in dims_of(dim, self.ndim) if is_true(self.shape[d] == 0)]
    check_advised(
        check_index,
        not empty,
        lambda: f"{name}(): Expected reduction dim {empty[0]} to have non-zero size.",
        lambda: f"The input is {self}.",
    )


def axes_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """Axes of an array for dimensions that the shape rule has accepted; a scalar has none."""
    if not ndim:
        return ()
    return dims_of(dim, ndim)


def axis_of(dim: int, ndim: int) -> int:
    """The axis of an array of at least one dimension."""
    return wrap_dim(dim, ndim)


def accumulator(kind: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The type in which to accumulate: float32 for the 16- and 8-bit floats, else the same."""
    if kind.itemsize < 4 and kind.kind in "fV":
        return np.dtype(np.float32)
    return kind


def total(xp: ModuleType, x: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """The sum over axes, accurate however long they are; 16-bit floats give float32."""
    kind = accumulator(x.dtype)
    once = without_repeats(xp, x) if kind.kind == "f" else None
    if once is not None:
        times = prod([x.shape[a] for a in axes if once.shape[a] != x.shape[a]])
        sums = total(xp, once, axes, True) * kind.type(times)
        shape = reduced_shape(x.shape, axes, True)
        every = sums if sums.shape == shape else np.broadcast_to(sums, shape).copy()
        return every if keepdims else every.reshape(reduced_shape(x.shape, axes, False))
    if xp is np and x.size >= SMALL and kind.kind in "fc":
        x = x if kind is x.dtype else converted(x, kind)
        summed = sums_by_products(x, axes)
        if summed is not None:
            return summed.reshape(reduced_shape(x.shape, axes, True)) if keepdims else summed
    if x.size > LONG_SUM and kind == np.float32 and not _runs_along_memory(x, axes):
        if prod(x.shape[a] for a in axes) > LONG_SUM:
            kind = np.dtype(np.float64)
            wide: Array = xp.add.reduce(x, axis=axes, dtype=kind, keepdims=keepdims)
            return wide.astype(np.float32)
    result: Array = xp.add.reduce(x, axis=axes, dtype=kind, keepdims=keepdims)
    return result


def _runs_along_memory(x: Array, axes: tuple[int, ...]) -> bool:
    """Whether the fastest axis of memory is among those summed."""
    strides = [abs(s) if n > 1 else 1 << 62 for s, n in zip(byte_strides(x), x.shape, strict=True)]
    return not strides or strides.index(min(strides)) in axes


def spread(t: Tensor, dim: Dims, keepdim: bool, ndim: int) -> Tensor:
    """A reduced tensor with the reduced dimensions back in place, of size 1."""
    if keepdim or not ndim:
        return t
    for d in sorted(dims_of(dim, ndim)):
        t = t.unsqueeze(d)
    return t
