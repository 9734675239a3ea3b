"""LU factors with row pivots, and what is solved by them or by a triangular matrix.

A factored matrix is packed: U on and above the diagonal, L below it with ones left out. Pivots
count rows from one, as LAPACK's do.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.backward_checks import check_sizes
from maquette.aten.common.batching_forms import leading_matrices, solving
from maquette.aten.common.operators import aten
from maquette.aten.linalg.factorizations import (
    batch_of,
    by_columns,
    by_rows,
    check_inexact,
    check_matrix,
    check_same,
    check_square,
    column_major,
    column_major_array,
    dagger,
    each,
    info_of,
    loops_of_matrices,
    refuse,
    routine,
    stacked,
)
from maquette.aten.linalg.lapack_status import ZERO_PIVOT, _linalg_check_errors
from maquette.aten.linalg.triangles import triangle_of
from maquette.aten.view.copies import write_exact_out
from maquette.aten.view.joining import cat
from maquette.core.dtype import int32
from maquette.core.errors import check, check_data, of_data
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import is_known, smaller
from maquette.dispatch.guards import AutoDispatchBelowADInplaceOrView
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.library.variants import check_castable, check_writable
from maquette.tensor.tensor import Tensor

Metas = tuple[TensorMeta, ...]
Arrays = tuple[Array, ...]
Grads = list[Tensor | None]


# --- factoring -----------------------------------------------------------------------


def lu_metas(name: str, A: TensorMeta) -> Metas:
    """Packed factors, pivots and status of a matrix."""
    check_matrix(name, A)
    check_inexact(name, A)
    pivots = A.fresh((*A.shape[:-2], smaller(*A.shape[-2:])), int32)
    return column_major(A, A.shape), pivots, info_of(A, A.shape[:-2])


def packed_lu(A: Array) -> Arrays:
    """Packed factors, pivots and LAPACK's status."""
    batch = A.shape[:-2]
    pivots_shape = (*batch, smaller(*A.shape[-2:]))
    if not A.size:
        return A, np.zeros(pivots_shape, np.int32), np.zeros(batch, np.int32)
    loops = loops_of_matrices(batch, A)
    if loops is not None:
        return _packed_by_loop(loops, A, pivots_shape)
    found = each(routine("getrf", A), batch, (A, 2))
    pivots = stacked([p for _, p, _ in found], pivots_shape, np.int32) + 1
    packed = stacked([f for f, _, _ in found], A.shape, A.dtype)
    return packed, pivots, stacked([i for _, _, i in found], batch, np.int32)


def _packed_by_loop(loops: ModuleType, A: Array, pivots_shape: Shape) -> Arrays:
    (*batch, rows, columns), count = A.shape, math.prod(A.shape[:-2])
    packed = by_columns(A, tuple(batch))
    pivots, info = np.zeros((count, pivots_shape[-1]), np.int32), np.zeros(count, np.int32)
    loops.for_each("getrf", A, count, rows, columns, packed, rows, pivots, info)
    return by_rows(packed, tuple(batch)), pivots.reshape(pivots_shape), info.reshape(batch)


_EX = "Tensor A, *, bool pivot=True, bool check_errors=False"
_EX_OUT = "Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info"
linalg_lu_factor_ex = define(
    f"aten::linalg_lu_factor_ex({_EX}) -> (Tensor LU, Tensor pivots, Tensor info)",
    variants=[f"aten::linalg_lu_factor_ex.out({_EX}, {_EX_OUT}) -> ({_EX_OUT})"],
).exact_out()
linalg_lu_factor_ex.describe("`lu_factor`, with LAPACK's status for each matrix.")


def _check_pivot(name: str, pivot: bool, A: TensorMeta) -> None:
    check(
        pivot or A.device.type == "cuda",
        lambda: f"{name}: LU without pivoting is not implemented on the CPU; got pivot=False",
    )


@linalg_lu_factor_ex.shape
def lu_factor_ex_shape(A: TensorMeta, pivot: bool, check_errors: bool) -> Metas:
    metas = lu_metas("torch.lu_factor_ex", A)
    _check_pivot("linalg.lu_factor", pivot, A)
    return metas


@linalg_lu_factor_ex.kernel
@on_host
def lu_factor_ex_kernel(xp: ModuleType, A: Array, pivot: bool, check_errors: bool) -> Arrays:
    packed, pivots, info = packed_lu(A)
    if check_errors:
        refuse(info, "torch.linalg.lu_factor_ex", ZERO_PIVOT, is_matrix=A.ndim == 2)
    return packed, pivots, info


def lu_grad(
    along_lower: Tensor | None, along_upper: Tensor | None, parts: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    """The gradient of ``P L U`` by those of L and U."""
    permutation, lower, upper = parts
    m, n = lower.meta.shape[-2], upper.meta.shape[-1]
    k = smaller(m, n)
    if m == n == k and along_lower is not None and along_upper is not None:
        below = (lower.mH @ along_lower).tril(-1)
        core = below + (along_upper @ upper.mH).triu()
        whole = aten.linalg_solve_triangular(upper.mH, core, upper=False, left=False)
        whole = aten.linalg_solve_triangular(lower.mH, whole, upper=True, unitriangular=True)
        return permutation @ whole
    if m == k and n > k and along_upper is not None:
        return permutation @ _wide_lu_grad(along_lower, along_upper, lower, upper)
    # What the triangles hold of no factor counts for nothing.
    gl = lower.new_zeros(lower.meta.shape) if along_lower is None else along_lower.tril(-1)
    gu = upper.new_zeros(upper.meta.shape) if along_upper is None else along_upper.triu()
    square_lower, square_upper = lower.narrow(-2, 0, k), upper.narrow(-1, 0, k)
    below = square_lower.mH @ gl.narrow(-2, 0, k)
    above = gu.narrow(-1, 0, k) @ square_upper.mH
    if n > k:
        below = below - gu.narrow(-1, k, n - k) @ upper.narrow(-1, k, n - k).mH
    if m > k:
        above = above - lower.narrow(-2, k, m - k).mH @ gl.narrow(-2, k, m - k)
    core = below.tril(-1) + above.triu()
    whole = aten.linalg_solve_triangular(square_upper.mH, core, upper=False, left=False)
    if n > k:
        whole = cat([whole, gu.narrow(-1, k, n - k)], -1)
    whole = aten.linalg_solve_triangular(square_lower.mH, whole, upper=True, unitriangular=True)
    if m > k:
        rest = aten.linalg_solve_triangular(
            square_upper.mH, gl.narrow(-2, k, m - k), upper=False, left=False
        )
        whole = cat([whole, rest], -2)
    return permutation @ whole


def _wide_lu_grad(
    along_lower: Tensor | None, along_upper: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """The same of ``L U`` with more columns than rows: beside its square part U has a rest."""
    m, n = upper.meta.shape[-2:]
    below = None if along_lower is None else lower.mH @ along_lower
    opposed = along_upper.triu() @ upper.mH
    core = (-opposed if below is None else below - opposed).tril(-1)
    square = upper.narrow(-1, 0, m)
    core = aten.linalg_solve_triangular(square.mH, core, upper=False, left=False)
    core = core + along_upper.narrow(-1, 0, m).triu()
    whole = cat([core, along_upper.narrow(-1, m, n - m)], -1)
    found: Tensor = aten.linalg_solve_triangular(lower.mH, whole, upper=True, unitriangular=True)
    return found


@linalg_lu_factor_ex.derivative("A")
def lu_factor_ex_grad(grads: Grads, result0: Tensor, result1: Tensor) -> tuple[Tensor | None]:
    if grads[0] is None:
        return (None,)
    permutation, lower, upper = lu_unpack(result0, result1)
    k = min(result0.meta.shape[-2:])
    along_lower, along_upper = grads[0].narrow(-1, 0, k), grads[0].narrow(-2, 0, k)
    return (lu_grad(along_lower, along_upper, (permutation, lower, upper)),)


linalg_lu_factor_ex.nondifferentiable(1, 2)
linalg_lu_factor_ex.batching(leading_matrices)

_lu_with_info = define(
    "aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) "
    "-> (Tensor LU, Tensor pivots, Tensor info)"
)
_lu_with_info.autocast(cpu="float32")
_lu_with_info.composite(
    lambda self, pivot, check_errors: linalg_lu_factor_ex(
        self, pivot=pivot, check_errors=check_errors
    )
)
linalg_lu_factor = define(
    "aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)"
)
linalg_lu_factor.describe(
    "L and U of matrices in one matrix, and the pivots; `lu_unpack` takes them apart."
)
linalg_lu_factor_out = define(
    "aten::linalg_lu_factor.out(Tensor A, *, bool pivot=True, Tensor(a!) LU, Tensor(b!) pivots) "
    "-> (Tensor(a!) LU, Tensor(b!) pivots)",
    tags=[Tag.out],
)


@linalg_lu_factor.composite
def lu_factor_composite(A: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    packed, pivots, info = linalg_lu_factor_ex(A, pivot=pivot)
    _linalg_check_errors(info, "torch.linalg.lu_factor", is_matrix=A.meta.ndim == 2)
    return packed, pivots


@linalg_lu_factor_out.composite
def lu_factor_out_composite(
    A: Tensor, pivot: bool, LU: Tensor, pivots: Tensor
) -> tuple[Tensor, Tensor]:
    info = A.new_empty((0,), dtype=int32)
    linalg_lu_factor_ex.variants[0](A, pivot=pivot, LU=LU, pivots=pivots, info=info)
    _linalg_check_errors(info, "torch.linalg.lu_factor", is_matrix=A.meta.ndim == 2)
    return LU, pivots


# --- the three factors ---------------------------------------------------------------


def unpacked(packed: Array) -> Arrays:
    """L and U of packed factors."""
    m, n = packed.shape[-2:]
    k = smaller(m, n)
    lower = triangle_of(packed[..., :, :k], -1, lower=True)
    lower[..., np.arange(k), np.arange(k)] = 1
    return lower, triangle_of(packed[..., :k, :], lower=False)


def permutations(pivots: Array, size: int) -> Array:
    """The row order that pivots make, for each matrix."""
    batch = pivots.shape[:-1]
    check_data(
        not pivots.size or bool(pivots.min() >= 1 and pivots.max() <= size),
        lambda: f"lu_unpack: every value of pivots must be between 1 and {size}",
    )
    order = np.broadcast_to(np.arange(size), (*batch, size)).copy()
    flat = order.reshape(math.prod(batch), size)
    if len(flat) <= _FEW:
        return _swapped(pivots, size)
    every = np.arange(len(flat))
    for i in range(pivots.shape[-1]):  # one swap in all matrices at once
        places = pivots[..., i].reshape(-1) - 1
        kept = flat[:, i].copy()
        flat[:, i] = flat[every, places]
        flat[every, places] = kept
    return order


_FEW = 64  # matrices whose swaps are faster one by one


def _swapped(pivots: Array, size: int) -> Array:
    rows = []
    for swaps in pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1]).tolist():
        row = list(range(size))
        for i, place in enumerate(swaps):
            row[i], row[place - 1] = row[place - 1], row[i]
        rows.append(row)
    return np.array(rows, np.int64).reshape(*pivots.shape[:-1], size)


def permutation_matrices(xp: ModuleType, pivots: Array, like: Array, size: int) -> Array:
    """P with ``A = P L U``."""
    order = permutations(pivots, size)
    out = np.zeros((*order.shape, size), like.dtype)
    np.put_along_axis(out, order[..., None, :], 1, -2)
    return out


def _factor_metas(A: TensorMeta) -> Metas:
    *batch, m, n = A.shape
    k = smaller(m, n)
    return A.fresh((*batch, m, m)), A.fresh((*batch, m, k)), A.fresh((*batch, k, n))


_PLU = "(Tensor P, Tensor L, Tensor U)"
_PLU_OUT = "Tensor(a!) P, Tensor(b!) L, Tensor(c!) U"
linalg_lu = define(
    f"aten::linalg_lu(Tensor A, *, bool pivot=True) -> {_PLU}",
    variants=[f"aten::linalg_lu.out(Tensor A, *, bool pivot=True, {_PLU_OUT}) -> ({_PLU_OUT})"],
).exact_out()
linalg_lu.describe("Factors P, L and U of matrices: a permutation, a lower and an upper triangle.")


@linalg_lu.shape
def lu_shape(A: TensorMeta, pivot: bool) -> Metas:
    lu_metas("linalg.lu", A)
    _check_pivot("linalg.lu", pivot, A)
    return _factor_metas(A)


@linalg_lu.kernel
@on_host
def lu_kernel(xp: ModuleType, A: Array, pivot: bool) -> Arrays:
    packed, pivots, _ = packed_lu(A)
    return permutation_matrices(xp, pivots, A, A.shape[-2]), *unpacked(packed)


linalg_lu.nondifferentiable(0)


@linalg_lu.derivative("A")
def linalg_lu_grad(
    grads: Grads, result0: Tensor, result1: Tensor, result2: Tensor
) -> tuple[Tensor]:
    return (lu_grad(grads[1], grads[2], (result0, result1, result2)),)


linalg_lu.batching(leading_matrices)


_UNPACK = "Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True"
lu_unpack = define(
    f"aten::lu_unpack({_UNPACK}) -> {_PLU}",
    variants=[f"aten::lu_unpack.out({_UNPACK}, *, {_PLU_OUT}) -> ({_PLU_OUT})"],
).exact_out()
lu_unpack.describe("The factors P, L and U that `lu_factor` packed.")


@lu_unpack.shape
def lu_unpack_shape(
    LU_data: TensorMeta, LU_pivots: TensorMeta, unpack_data: bool, unpack_pivots: bool
) -> Metas:
    check_matrix("torch.lu_unpack", LU_data)
    check(
        not unpack_pivots or LU_pivots.dtype is int32,
        lambda: (
            f"torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            f"dtype, got {LU_pivots.dtype}. Note: this function is intended to be used with the "
            f"output produced by torch.linalg.lu_factor"
        ),
    )
    if unpack_pivots:
        pivots = (*LU_data.shape[:-2], smaller(*LU_data.shape[-2:]))
        check_sizes("torch.lu_unpack", "pivots", LU_pivots, pivots)
    permutation, lower, upper = _factor_metas(LU_data)
    none = LU_data.fresh((0,))
    if not unpack_data:
        lower = upper = none
    return permutation if unpack_pivots else none, lower, upper


@lu_unpack.kernel
@on_host
def lu_unpack_kernel(
    xp: ModuleType, LU_data: Array, LU_pivots: Array, unpack_data: bool, unpack_pivots: bool
) -> Arrays:
    none = xp.zeros(0, LU_data.dtype)
    lower, upper = unpacked(LU_data) if unpack_data else (none, none)
    if not unpack_pivots:
        return none, lower, upper
    return permutation_matrices(xp, LU_pivots, LU_data, LU_data.shape[-2]), lower, upper


lu_unpack.nondifferentiable(0)


@lu_unpack.derivative("LU_data")
def lu_unpack_grad(grads: Grads, LU_data_meta: TensorMeta) -> tuple[Tensor | None]:
    m, n = LU_data_meta.shape[-2:]
    k = smaller(m, n)
    by_lower, by_upper = grads[1:]
    if m == n and by_lower is not None and by_upper is not None:
        by_upper = by_upper.triu()
        return (by_lower.tril(-1) + by_upper,)
    if n > k and by_lower is not None and by_upper is not None:
        square = by_upper.narrow(-1, 0, k).triu()
        square = by_lower.tril(-1) + square
        return (cat([square, by_upper.narrow(-1, k, n - k)], -1),)
    parts: list[Tensor] = []
    if by_lower is not None:
        parts.append(aten.constant_pad_nd(by_lower.tril(-1), (0, n - k)))
    if by_upper is not None:
        parts.append(aten.constant_pad_nd(by_upper.triu(), (0, 0, 0, m - k)))
    if not parts:
        return (None,)
    return (parts[0] + parts[1] if len(parts) == 2 else parts[0],)


lu_unpack.batching(leading_matrices)


# --- solving by packed factors -------------------------------------------------------

linalg_lu_solve = define(
    "aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, "
    "bool adjoint=False) -> Tensor"
)
linalg_lu_solve.describe(
    "The X of ``A @ X = B``, with A given by `lu_factor`: of the shape of `B`."
)
linalg_lu_solve_out = define(
    "aten::linalg_lu_solve.out(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, "
    "bool adjoint=False, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


def lu_solve_shape(
    LU: TensorMeta, pivots: TensorMeta, B: TensorMeta, left: bool, adjoint: bool
) -> TensorMeta:
    check_square("torch.linalg.lu_solve", LU)
    check_inexact("torch.linalg.lu_solve", LU)
    check_same("linalg.lu_solve", LU, B)
    check(
        pivots.dtype is int32,
        lambda: "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32",
    )
    check_matrix("linalg.lu_solve", B)
    check_fits("linalg.lu_solve", LU, B, left)
    check(
        pivots.shape == LU.shape[:-1],
        lambda: (
            f"linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
            f"matrix; got LU {LU}, pivots {pivots}"
        ),
    )
    shape = (*batch_of(LU, B), *B.shape[-2:])
    return column_major(B, shape) if left else B.fresh(shape)


def check_fits(name: str, A: TensorMeta, B: TensorMeta, left: bool) -> None:
    """Refuse right-hand sides of other sizes than the matrices."""
    check(
        A.shape[-1] == B.shape[-2 if left else -1],
        lambda: (
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        ),
    )


def solved_by_lu(packed: Array, pivots: Array, b: Array, *, left: bool, adjoint: bool) -> Array:
    """X of ``A X = B`` (or ``X A = B``), A given by its packed factors."""
    if not left:
        turned = solved_by_lu(packed, pivots, dagger(b), left=True, adjoint=not adjoint)
        return dagger(turned)
    batch = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    shape = (*batch, *b.shape[-2:])
    if not packed.size or not b.size:
        return np.zeros(shape, b.dtype)
    rows = packed.shape[-1]
    if pivots.min() < 1 or pivots.max() > rows:  # LAPACK would follow them out of the matrix
        raise of_data(
            RuntimeError(
                "linalg.lu_solve: every value of pivots must be greater or equal to 1 and "
                f"smaller or equal to {rows}, the size of "
                f"the matrix; they range from {pivots.min()} to {pivots.max()}. Pass those that "
                f"lu_factor gives."
            )
        )
    loops = loops_of_matrices(batch, packed, b)
    if loops is not None:
        columns, count = by_columns(b, batch), math.prod(batch)
        rows_of = np.array(np.broadcast_to(pivots, (*batch, rows)), np.int32, order="C")
        factors, letter = by_columns(packed, batch), "C" if adjoint else "N"
        info = np.zeros(count, np.int32)
        sizes = rows, b.shape[-1]
        loops.for_each(
            "getrs",
            b,
            count,
            letter,
            *sizes,
            factors,
            rows,
            rows_of.reshape(count, rows),
            columns,
            rows,
            info,
        )
        return by_rows(columns, batch)
    getrs = routine("getrs", packed)
    form = 2 if adjoint else 0

    def one(f: Array, p: Array, x: Array) -> Array:
        return getrs(column_major_array(f), p - 1, x, trans=form)[0]

    return stacked(each(one, batch, (packed, 2), (pivots, 1), (b, 2)), shape, b.dtype)


@linalg_lu_solve_out.shape
def lu_solve_out_shape(
    LU: TensorMeta, pivots: TensorMeta, B: TensorMeta, left: bool, adjoint: bool, out: TensorMeta
) -> TensorMeta:
    result = lu_solve_shape(LU, pivots, B, left, adjoint)
    check_castable("linalg.lu_solve", result.dtype, out.dtype)
    if result.shape == out.shape:
        check_writable("linalg.lu_solve", out)
        return out
    return TensorMeta.of(out.dtype, result.shape, result.strides, out.offset, out.device)


@linalg_lu_solve_out.kernel
def lu_solve_out_kernel(
    xp: ModuleType, LU: Array, pivots: Array, B: Array, left: bool, adjoint: bool, out: Array
) -> None:
    out[...] = _solved(xp, LU, pivots, B, left, adjoint)


@on_host
def _solved(xp: ModuleType, LU: Array, pivots: Array, B: Array, left: bool, adjoint: bool) -> Array:
    return solved_by_lu(LU, pivots, B, left=left, adjoint=adjoint)


@linalg_lu_solve.explicit
def lu_solve_explicit(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """Complex systems ``X A = B`` give X conjugated lazily, as PyTorch's do."""
    lazy = not left and B.meta.dtype.is_complex and B.meta.numel and LU.meta.numel
    with AutoDispatchBelowADInplaceOrView():  # X is new: neither mutated nor a view
        out = B.new_empty((0,))
        if not lazy:
            linalg_lu_solve_out(LU, pivots, B, left=left, adjoint=adjoint, out=out)
            return out
        lu_solve_shape(LU.meta, pivots.meta, B.meta, left, adjoint)
        linalg_lu_solve_out(LU, pivots, B.mH, left=True, adjoint=not adjoint, out=out)
        return out.mH


@linalg_lu_solve.derivative("LU", "B")
def lu_solve_grad(
    grad: Tensor,
    LU: Tensor,
    pivots: Tensor,
    result: Tensor,
    left: bool,
    adjoint: bool,
    needs: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    by = None
    if needs[1]:
        by = linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    return (_packed_grad(grad, LU, pivots, result, left, adjoint) if needs[0] else None), by


linalg_lu_solve.batching(solving)


def _packed_grad(
    grad: Tensor, LU: Tensor, pivots: Tensor, result: Tensor, left: bool, adjoint: bool
) -> Tensor:
    if not left:
        grad, result, adjoint = grad.mH, result.mH, not adjoint
    if is_known(result.numel() == 0):  # no pivots were read, so they may be anything
        return LU.new_zeros(LU.shape)
    permutation, lower, upper = lu_unpack(LU, pivots)
    if not adjoint:
        # L U X = P^H B.
        along = aten.linalg_solve_triangular(upper.mH, grad, upper=False)
        along_upper = -(along @ result.mH)
        inner = aten.linalg_solve_triangular(lower.mH, along, upper=True, unitriangular=True)
        along_lower = -(inner @ (upper @ result).mH)
    else:
        # U^H L^H (P^H X) = B.
        turned = permutation.mH @ result
        along = aten.linalg_solve_triangular(
            lower, permutation.mH @ grad, upper=False, unitriangular=True
        )
        inner = aten.linalg_solve_triangular(upper, along, upper=True)
        along_upper = -((lower.mH @ turned) @ inner.mH)
        along_lower = -(turned @ along.mH)
    return along_lower.tril(-1) + along_upper.triu()


lu_solve = define("aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor")
lu_solve.describe("The X of ``A @ X = self``, with A given by `lu_factor`: of the shape of `self`.")
lu_solve.autocast(cpu="float32")
lu_solve.composite(lambda self, LU_data, LU_pivots: linalg_lu_solve(LU_data, LU_pivots, self))
lu_solve_out = define(
    "aten::lu_solve.out(Tensor self, Tensor LU_data, Tensor LU_pivots, *, Tensor(a!) out) "
    "-> Tensor(a!)",
    tags=[Tag.out],
)
lu_solve_out.composite(
    lambda self, LU_data, LU_pivots, out: write_exact_out(
        out, linalg_lu_solve(LU_data, LU_pivots, self)
    )
)
