"""Least squares: ``linalg.lstsq`` with LAPACK's four drivers.

The values decide which results there are: residuals are given only if every matrix has full rank.
So the shape rule checks and gives up, and on fake tensors the operator raises
`DynamicOutputShapeException`, as PyTorch's does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.batching_forms import leading_matrices
from maquette.aten.common.operators import aten
from maquette.aten.linalg.factorizations import (
    LinAlgError,
    batch_of,
    by_columns,
    by_rows,
    column_major,
    each,
    loops_of_matrices,
    refuse,
    routine,
    scratch,
    stacked,
)
from maquette.aten.linalg.householder import as_made
from maquette.aten.linalg.matrix_functions import pinv_grad
from maquette.aten.linalg.solving import is_vector
from maquette.aten.view.copies import check_outs, write_outs
from maquette.core.dtype import int64
from maquette.core.errors import check, check_data, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

Grads = list[Tensor | None]
Driver = Callable[[Array, Array, float], "Solved"]

_NAME = "torch.linalg.lstsq"
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
_WITH_VALUES = ("gelsd", "gelss")
_RANK = (
    "The least squares solution could not be computed because the input matrix does not have full "
    "rank (error code: {code})."
)
_NOT_CONVERGED = (
    f"{_NAME}: The algorithm for computing the SVD failed to converge. Try driver='gelsy'"
)
_LSTSQ = "Tensor self, Tensor b, float? rcond=None, *, str? driver=None"
_WRITTEN = "Tensor(a!) solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values"
linalg_lstsq = define(
    f"aten::linalg_lstsq({_LSTSQ}) "
    "-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    tags=[Tag.dynamic_output_shape],
)
linalg_lstsq.describe(
    "The X that makes ``A @ X - B`` least, its residuals, the rank and singular values of A."
)
linalg_lstsq.autocast(cpu="float32")


class Solved(NamedTuple):
    """What a driver gives for a matrix, m by n, or for each one of a batch.

    n rows of solutions, a residual for each of their columns, singular values.
    """

    x: Array
    residuals: Array
    values: Array
    rank: Any = 0
    info: Any = 0


# --- what is asked -------------------------------------------------------------------


def lstsq_checks(self: TensorMeta, b: TensorMeta, rcond: float | None, driver: str | None) -> None:
    """All that can be refused without data.

    Batches broadcast by their last dimensions; PyTorch 2.13 takes the first ones of an ``other``
    that has one dimension less, and refuses ``(2, 5, 3), (5, 2)``.
    """
    check_advised(
        check,
        self.ndim >= 2,
        lambda: f"{_NAME}: input must have at least 2 dimensions.",
        lambda: f"It is {self}.",
    )
    check_advised(
        check,
        b.ndim >= 1,
        lambda: f"{_NAME}: other must have at least 1 dimension.",
        lambda: f"It is {b}.",
    )
    check(
        0 <= self.ndim - b.ndim <= 1,
        lambda: (
            f"{_NAME}: input.dim() must be greater or equal to other.dim() and "
            f"(input.dim() - other.dim()) <= 1; got {self}, {b}"
        ),
    )
    check(
        driver is None or driver in _DRIVERS,
        lambda: (
            f"{_NAME}: parameter `driver` should be one of ({', '.join(_DRIVERS)}); got {driver!r}"
        ),
    )
    columns = b.fresh((*b.shape, 1)) if is_vector(self, b) else b
    check(
        self.shape[-2] == columns.shape[-2],
        lambda: f"{_NAME}: input.size(-2) should match that of other; got {self}, {b}",
    )
    check(
        self.dtype is b.dtype,
        lambda: f"{_NAME}: Expected input and other to have the same dtype, but got {self}, {b}",
    )
    wide = self.dtype.name in ("float32", "float64", "complex64", "complex128")
    check(
        wide or rcond is not None,
        lambda: f"{_NAME}: no rcond is known for {self}; convert it to float32 or float64 first",
    )
    check_not_implemented(
        wide, lambda: f"\"linalg_lstsq_cpu\" not implemented for '{self.dtype.scalar_name}'"
    )
    batch_of(self, columns)


# --- LAPACK's drivers ----------------------------------------------------------------


def _gels(A: Array, b: Array, rcond: float) -> Solved:
    """By QR factors; takes it that the matrix has full rank."""
    m, n = A.shape
    gels = routine("gels", A)
    padded = np.zeros((max(m, n), b.shape[1]), b.dtype, order="F")
    padded[:m] = b
    _, x, info = gels(A, padded, lwork=_work_of_gels(m, n, b.shape[1]))
    # Below the solution LAPACK leaves what the columns of the matrix could not reach.
    return Solved(x[:n], (abs(x[n:]) ** 2).sum(0), np.zeros(0), info=info)


def _work_of_gels(m: int, n: int, width: int) -> int:
    """For blocks of 64 columns, as LAPACK's own choice is."""
    return min(m, n) + 64 * max(m, n, width)


def _with_rank(name: str) -> Driver:
    """The drivers that find the rank; SciPy calls them for us."""

    def solve(A: Array, b: Array, rcond: float) -> Solved:
        import scipy.linalg

        try:
            x, residuals, rank, values = scipy.linalg.lstsq(
                A, b, rcond, check_finite=False, lapack_driver=name
            )
        except np.linalg.LinAlgError:
            raise LinAlgError(_NOT_CONVERGED) from None
        left = residuals if len(residuals) else np.zeros(b.shape[1])
        return Solved(x, left, np.zeros(0) if values is None else values, int(rank))

    return solve


_SOLVE: dict[str, Driver] = {
    "gels": _gels,
    **{name: _with_rank(name) for name in _DRIVERS if name != "gels"},
}


def _solved(A: Array, b: Array, rcond: float, driver: str) -> Solved:
    """Each item of the common batch."""
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-2])
    m, n = A.shape[-2:]

    def nothing(a: Array, c: Array) -> Solved:
        # Nothing to fit by, or nothing to fit: all that was asked is left over.
        return Solved(np.zeros((n, c.shape[1])), (abs(c) ** 2).sum(0), np.zeros(min(m, n)))

    if not A.size or not b.size:
        return _joined(each(nothing, batch, (A, 2), (b, 2)), A, b, batch)
    check_data(
        bool(np.isfinite(A).all()) and not np.isnan(b).any(),
        lambda: f"{_NAME}: input must be finite, and other must have no NaN",
    )
    loops = loops_of_matrices(batch, A, b)
    if loops is not None:
        found = _by_loop(loops, A, b, batch, rcond, driver)
    else:
        one = _SOLVE[driver]
        found = _joined(each(lambda a, c: one(a, c, rcond), batch, (A, 2), (b, 2)), A, b, batch)
    refuse(found.info, _NAME, _RANK, is_matrix=not batch)
    return found


def _joined(found: Sequence[Solved], A: Array, b: Array, batch: Shape) -> Solved:
    """What was found for the items of a batch."""
    (m, n), count, real = A.shape[-2:], b.shape[-1], A.real.dtype
    return Solved(
        stacked([f.x for f in found], (*batch, n, count), A.dtype),
        stacked([f.residuals for f in found], (*batch, count), real),
        # `gels` and `gelsy` find none.
        stacked([f.values for f in found if f.values.size], (*batch, min(m, n)), real),
        np.array([f.rank for f in found], np.int64).reshape(batch),
        np.array([f.info for f in found], np.int32).reshape(batch),
    )


def _by_loop(
    loops: ModuleType, A: Array, b: Array, batch: Shape, rcond: float, driver: str
) -> Solved:
    (m, n), width, real = A.shape[-2:], b.shape[-1], A.real.dtype
    matrices = by_columns(A, batch)
    count, longer, least = len(matrices), max(m, n), min(m, n)
    columns = np.zeros((count, width, longer), b.dtype)
    columns[..., :m] = by_columns(b, batch)
    values, rank = np.zeros((count, least), real), np.zeros(count, np.int32)
    info, order = np.zeros(count, np.int32), np.zeros((count, n), np.int32)
    given = (m, n, width, matrices, m, columns, longer)
    if driver == "gels":
        work = _work_of_gels(m, n, width)
        loops.for_each("gels", A, count, "N", *given, scratch(count, work, A.dtype), work, info)
    else:
        found = order if driver == "gelsy" else values, np.array(rcond, real), rank
        memory = _memory(A, width, rcond, driver, count)
        loops.for_each(driver, A, count, *given, *found, *memory, info)
        if info.any():
            raise LinAlgError(_NOT_CONVERGED)
    left = (abs(columns[..., n:]) ** 2).sum(-1)
    if driver != "gels":
        left[rank < n] = 0
    return Solved(
        by_rows(columns[..., :n], batch),
        left.reshape(*batch, width),
        values.reshape(*batch, least),
        rank.astype(np.int64).reshape(batch),
        info.reshape(batch),
    )


def _memory(A: Array, width: int, rcond: float, driver: str, count: int) -> list[Array | int]:
    """What a driver works in: as much as it asks for, its size, and what else its type needs."""
    m, n = A.shape[-2:]
    sizes_of = routine(f"{driver}_lwork", A)
    work, *more, _ = sizes_of(m, n, width, rcond)
    size = int(work.real)
    whole = int(more[-1]) if driver == "gelsd" else 0
    memory: list[Array | int] = [scratch(count, size, A.dtype), size]
    if A.dtype.kind == "c":
        parts = {"gelsy": 2 * n, "gelss": 5 * min(m, n)}
        real = parts[driver] if driver in parts else int(more[0])
        memory.append(scratch(count, real, A.real.dtype))
    return [*memory, scratch(count, whole, np.int32)] if whole else memory


# --- results -------------------------------------------------------------------------


def _of_matrices(found: Array, own: tuple[int, ...]) -> Array:
    """What the matrices alone decide, for their own batch where the common one is larger."""
    batch = found.shape[: len(own)]
    here = tuple(slice(None) if n == m else slice(0, 1) for n, m in zip(own, batch, strict=True))
    return found[here]


def lstsq_layout(
    shapes: Sequence[Shape], A: TensorMeta, b: TensorMeta, rcond: float | None, driver: str | None
) -> tuple[TensorMeta, ...]:
    """The solution is a window into LAPACK's array, which has a row for each of the longer side."""
    vector = is_vector(A, b)
    shape = (*shapes[0], 1) if vector else shapes[0]
    whole = column_major(A, (*shape[:-2], max(A.shape[-2:]), shape[-1]))
    strides = whole.strides[:-1] if vector else whole.strides
    solution = TensorMeta.of(A.dtype, shapes[0], strides, 0, A.device)
    residuals, rank, values = shapes[1:]
    kind = A.dtype.to_real()
    return solution, A.fresh(residuals, kind), A.fresh(rank, int64), A.fresh(values, kind)


@linalg_lstsq.data_dependent(lstsq_checks, layout=lstsq_layout)
@on_host
def lstsq_kernel(
    xp: ModuleType, A: Array, b: Array, rcond: float | None, driver: str | None
) -> tuple[Array, Array, Array, Array]:
    """Solution, residuals, rank and singular values; empty where they are not given.

    Residuals are also right for matrices without columns, for which PyTorch's `gels` gives zeros.
    """
    driver = driver or "gelsy"
    m, n = A.shape[-2:]
    vector = is_vector(A, b)
    columns = b[..., None] if vector else b
    if rcond is None:
        rcond = float(np.finfo(A.dtype).eps) * max(m, n)
    found = _solved(A, columns, rcond, driver)
    real = A.real.dtype
    residuals, rank, values = np.zeros(0, real), np.zeros(0, np.int64), np.zeros(0, real)
    full = driver == "gels" or (driver in _WITH_VALUES and bool((found.rank == n).all()))
    if m > n and full:
        residuals = found.residuals
    if driver != "gels":
        rank = _of_matrices(found.rank, A.shape[:-2])
    if driver in _WITH_VALUES:
        values = _of_matrices(found.values, A.shape[:-2])
    return found.x[..., 0] if vector else found.x, residuals, rank, values


@linalg_lstsq.derivative("self", "b")
def lstsq_grad(
    grads: Grads,
    self: Tensor,
    b: Tensor,
    rcond: float | None,
    driver: str | None,
    result0: Tensor,
    needs: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """By ``X = A^+ B`` and ``residuals = |A X - B|^2``, where X is at its best."""
    vector = is_vector(self.meta, b.meta)
    along, right, x = grads[0], b, result0
    if vector:
        along = None if along is None else along.unsqueeze(-1)
        right, x = b.unsqueeze(-1), result0.unsqueeze(-1)
    by_self: list[Tensor] = []
    by_b: list[Tensor] = []
    if along is not None:
        # What counts as zero is LAPACK's choice for `gels` (nothing) and for a negative rcond.
        least = None if driver == "gels" or (rcond or 0) < 0 else rcond
        inverse = aten.linalg_pinv(self, rtol=least)
        if needs[0]:
            by_self.append(pinv_grad(along @ right.mH, self, inverse)[0])
        by_b.append(inverse.mH @ along)
    if grads[1] is not None and grads[1].meta.numel:
        change = 2 * grads[1].unsqueeze(-2) * (self @ x - right)
        by_b.append(-change)
        by_self.append(change @ x.mH)
    back = sum(by_b[1:], by_b[0]) if by_b else None
    if vector and back is not None:
        back = back.squeeze(-1)
    return sum(by_self[1:], by_self[0]) if by_self else None, back


linalg_lstsq.nondifferentiable(2, 3)
linalg_lstsq.batching(leading_matrices)


# --- written to ----------------------------------------------------------------------

linalg_lstsq_out = define(
    f"aten::linalg_lstsq.out({_LSTSQ}, {_WRITTEN}) -> ({_WRITTEN})",
    tags=[Tag.dynamic_output_shape, Tag.out],
)


@linalg_lstsq_out.composite
def lstsq_out_composite(
    self: Tensor,
    b: Tensor,
    rcond: float | None,
    driver: str | None,
    solution: Tensor,
    residuals: Tensor,
    rank: Tensor,
    singular_values: Tensor,
) -> tuple[Tensor, ...]:
    found = linalg_lstsq(self, b, rcond, driver=driver)
    outs = (solution, residuals, rank, singular_values)
    check_outs(outs, found)
    direct = all(as_made(r.meta, o.meta) for o, r in zip(outs, found, strict=True))
    if direct and not solution.meta.numel:
        # An empty one is laid out as LAPACK's own array.
        solution.resize_((found[0].meta.storage_bytes // found[0].meta.itemsize,))
        solution.as_strided_(found[0].meta.shape, found[0].meta.strides)
    return write_outs(outs, found)
