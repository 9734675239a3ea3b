"""What the factorizations of matrices share: checks, layouts, loops over batches, failures.

Matrices stand in the last two dimensions, whatever is before is a batch. LAPACK works column by
column, so factors are column-major within each matrix: `column_major` gives their metas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import assigned_at
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import dtype, int32
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape, contiguous_strides
from maquette.tensor.backend import backend_for

_LOW = frozenset({"float16", "bfloat16"})


class LinAlgError(RuntimeError):
    """A matrix that has no such factorization: singular, not positive-definite, not converging."""

    reads_data = True  # the values decide: see `maquette.core.errors.of_data`


def check_matrix(name: str, *metas: TensorMeta) -> None:
    """Refuse tensors that are no matrices."""
    for meta in metas:
        if meta.ndim < 2:
            raise RuntimeError(
                f"{name}: The input tensor A must have at least 2 dimensions. Got {meta}"
            )


def check_square(name: str, *metas: TensorMeta) -> None:
    """Refuse tensors that are no square matrices."""
    check_matrix(name, *metas)
    for meta in metas:
        _check_sides(name, *meta.shape[-2:])


def _check_sides(name: str, rows: int, columns: int) -> None:
    check(
        rows == columns,
        lambda: (
            f"{name}: A must be batches of square matrices, but they are "
            f"{rows} by {columns} matrices"
        ),
    )


def check_inexact(name: str, *metas: TensorMeta) -> None:
    """Refuse integers, and floats narrower than LAPACK's."""
    for meta in metas:
        kind = meta.dtype
        if not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                f"{name}: Expected a floating point or complex tensor as input. Got "
                f"{kind.scalar_name}"
            )
        if kind.name in _LOW:
            raise RuntimeError(
                f"{name}: Low precision dtypes not supported. Got {kind.scalar_name}; convert to "
                f"float32 first"
            )


def check_same(name: str, a: TensorMeta, b: TensorMeta) -> None:
    """Refuse operands of two dtypes."""
    check(
        a.dtype is b.dtype,
        lambda: (
            f"{name}: Expected A and B to have the same dtype, but got {a.dtype.scalar_name} and "
            f"{b.dtype.scalar_name} instead"
        ),
    )


def column_major(like: TensorMeta, shape: Shape, kind: dtype | None = None) -> TensorMeta:
    """The meta of matrices laid out column by column, batches one after another."""
    if len(shape) < 2:
        return like.fresh(shape, kind)
    turned = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
    return like.fresh(shape, kind, (*turned[:-2], turned[-1], turned[-2]))


def info_of(like: TensorMeta, batch: Shape) -> TensorMeta:
    """The meta of LAPACK's status, a number for each matrix."""
    return like.fresh(batch, int32)


def batch_of(*metas: TensorMeta) -> Shape:
    """The batch dimensions of matrices that broadcast."""
    return tuple(broadcast_shapes(*[m.shape[:-2] for m in metas]))


def dagger(x: Array) -> Array:
    """The conjugate transpose of arrays of matrices."""
    return x.swapaxes(-1, -2).conj()


def identity(xp: ModuleType, like: Array, shape: Shape) -> Array:
    """Identity matrices of a shape, of the dtype of ``like``."""
    out: Array = xp.zeros(shape, like.dtype)
    diagonal = xp.arange(min(shape[-2:]))
    return assigned_at(xp, out, (..., diagonal, diagonal), 1)


@cache
def _routine(name: str, letter: str) -> Callable[..., Any]:
    from scipy.linalg.lapack import get_lapack_funcs

    (found,) = get_lapack_funcs((name,), dtype=np.dtype(letter))
    made: Callable[..., Any] = found
    return made


def routine(name: str, like: Array) -> Callable[..., Any]:
    """SciPy's wrapper of a routine of LAPACK for the type of an array; it is looked up once."""
    return _routine(name, like.dtype.char)


def each(function: Callable[..., object], batch: Shape, *operands: tuple[Array, int]) -> list[Any]:
    """Results of a function for each item of a batch, in order; operands come with its rank."""
    if not batch:
        return [function(*[array for array, _ in operands])]
    spread = []
    for array, rank in operands:
        item = array.shape[array.ndim - rank :]
        count = math.prod(batch)
        spread.append(np.broadcast_to(array, (*batch, *item)).reshape(count, *item))
    return [function(*items) for items in zip(*spread, strict=True)]


def stacked(items: Sequence[object], shape: Shape, kind: npt.DTypeLike) -> Array:
    """Results for the items of a batch as one array; the only one as it is laid out."""
    only = items[0] if len(items) == 1 else None
    if isinstance(only, np.ndarray) and only.shape == shape and only.dtype == kind:
        return only
    out: Array = np.zeros(shape, kind)
    if out.size and items:
        flat = out.reshape(len(items), -1)
        for row, item in zip(flat, items, strict=True):
            row[...] = np.asarray(item).reshape(-1)
    return out


_MANY = 8  # matrices from which compiled loops call LAPACK


def loops_of_matrices(batch: Shape, *operands: Array) -> ModuleType | None:
    """The compiled loops for many matrices of one type; else None."""
    kinds = {x.dtype for x in operands}
    if math.prod(batch) < _MANY or len(kinds) != 1 or operands[0].dtype.char not in "fdFD":
        return None
    return backend_for(np).loops


def by_columns(x: Array, batch: Shape) -> Array:
    """A copy of the matrices of a batch in one line, each column by column: transposed."""
    spread = np.broadcast_to(x, (*batch, *x.shape[-2:])).swapaxes(-1, -2)
    return np.array(spread, order="C").reshape(-1, *spread.shape[-2:])


def by_rows(columns: Array, batch: Shape) -> Array:
    """The matrices that `by_columns` copied, as a batch of a shape."""
    return columns.reshape(*batch, *columns.shape[-2:]).swapaxes(-1, -2)


def scratch(count: int, size: int, kind: npt.DTypeLike) -> Array:
    """Memory for a routine to work in, which all items of a batch share."""
    return np.broadcast_to(np.empty(size, kind), (count, size))


def column_major_array(x: Array) -> Array:
    """A writable copy of one matrix, column by column, as LAPACK takes it."""
    return np.array(x, order="F")


def refuse(info: Array, name: str, message: str, *, is_matrix: bool) -> None:
    """Raise for the first matrix that LAPACK could not treat, if there is one."""
    bad = np.flatnonzero(info)
    if bad.size:
        at = "" if is_matrix else f"(Batch element {bad[0]}): "
        code = int(info.reshape(-1)[bad[0]])
        raise LinAlgError(f"{name}: {at}{message.format(code=code)}")
