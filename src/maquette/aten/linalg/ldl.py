"""LDL factors of symmetric or Hermitian matrices, which need not be positive-definite.

Only the lower triangle is read. A factored matrix is packed: D on the diagonal, in blocks of one or
two rows, L below it. Pivots count rows from one, as LAPACK's do; those of a block of two are
negative. As in PyTorch, these operators have no derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.batching_forms import leading_matrices, solving
from maquette.aten.linalg.factorizations import (
    batch_of,
    by_columns,
    by_rows,
    check_square,
    column_major,
    column_major_array,
    each,
    info_of,
    loops_of_matrices,
    refuse,
    routine,
    scratch,
    stacked,
)
from maquette.aten.linalg.lapack_status import _linalg_check_errors
from maquette.core.dtype import int32
from maquette.core.errors import check, check_data, check_index, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define
from maquette.tensor.tensor import Tensor

Metas = tuple[TensorMeta, ...]
Arrays = tuple[Array, ...]
Routine = Callable[..., tuple[Array, ...]]

_SINGULAR = (
    "the block of D at row {code} is exactly zero: the factors are complete, but cannot be used to "
    "solve equations"
)


def _check_kind(name: str, label: str, meta: TensorMeta) -> None:
    """Refuse integers; narrow floats have no routine, where there is something to compute."""
    kind = meta.dtype
    check(
        kind.is_floating_point or kind.is_complex,
        lambda: (
            f"{name}: Expected a floating point or complex tensor as input. Got {kind.scalar_name}"
        ),
    )
    check_not_implemented(
        kind.name not in ("float16", "bfloat16") or not meta.numel,
        lambda: f"\"{label}\" not implemented for '{kind.scalar_name}'",
    )


def _named(symmetric: str, like: Array, hermitian: bool) -> str:
    """What LAPACK calls a routine: ``sytrf``, or ``hetrf`` for Hermitian complex matrices."""
    if hermitian and like.dtype.kind == "c":
        return symmetric.replace("sy", "he")
    return symmetric


def _lapack(symmetric: str, like: Array, hermitian: bool) -> Routine:
    found: Routine = routine(_named(symmetric, like, hermitian), like)
    return found


# --- factoring -----------------------------------------------------------------------

_EX = "Tensor self, *, bool hermitian=False, bool check_errors=False"
_FACTORS = "Tensor(a!) LD, Tensor(b!) pivots"
linalg_ldl_factor_ex = define(
    f"aten::linalg_ldl_factor_ex({_EX}) -> (Tensor LD, Tensor pivots, Tensor info)",
    variants=[
        f"aten::linalg_ldl_factor_ex.out({_EX}, {_FACTORS}, Tensor(c!) info) "
        f"-> ({_FACTORS}, Tensor(c!) info)"
    ],
).exact_out()
linalg_ldl_factor_ex.describe("`ldl_factor`, with LAPACK's status for each matrix.")


@linalg_ldl_factor_ex.shape
def ldl_factor_ex_shape(self: TensorMeta, hermitian: bool, check_errors: bool) -> Metas:
    name = "torch.linalg.ldl_factor_ex"
    check_square(name, self)
    _check_kind(name, "ldl_factor_kernel_cpu", self)
    pivots = self.fresh(self.shape[:-1], int32)
    return column_major(self, self.shape), pivots, info_of(self, self.shape[:-2])


@linalg_ldl_factor_ex.kernel
@on_host
def ldl_factor_ex_kernel(
    xp: ModuleType, self: Array, hermitian: bool, check_errors: bool
) -> Arrays:
    if not self.size:
        return self, np.zeros(self.shape[:-1], np.int32), np.zeros(self.shape[:-2], np.int32)
    packed, pivots, info = _factored(self, hermitian)
    if check_errors:
        refuse(info, "torch.linalg.ldl_factor_ex", _SINGULAR, is_matrix=self.ndim == 2)
    return np.tril(packed), pivots, info


def _factored(A: Array, hermitian: bool) -> Arrays:
    """Packed factors, with something above the diagonal, pivots and status."""
    batch, rows = A.shape[:-2], A.shape[-1]
    work = 64 * rows  # by blocks of 64 columns, as LAPACK's own choice is
    loops = loops_of_matrices(batch, A)
    if loops is not None:
        columns = by_columns(A, batch)
        count = len(columns)
        pivots, info = np.empty((count, rows), np.int32), np.empty(count, np.int32)
        given = (rows, columns, rows, pivots, scratch(count, work, A.dtype), work, info)
        loops.for_each(_named("sytrf", A, hermitian), A, count, "L", *given)
        return by_rows(columns, batch), pivots.reshape(A.shape[:-1]), info.reshape(batch)
    factor = _lapack("sytrf", A, hermitian)
    found = each(lambda a: factor(a, lower=1, lwork=work), batch, (A, 2))
    packed = stacked([f for f, _, _ in found], A.shape, A.dtype)
    pivots = stacked([p for _, p, _ in found], A.shape[:-1], np.int32)
    return packed, pivots, stacked([i for _, _, i in found], batch, np.int32)


linalg_ldl_factor_ex.batching(leading_matrices)


_FACTOR = "Tensor self, *, bool hermitian=False"
linalg_ldl_factor = define(f"aten::linalg_ldl_factor({_FACTOR}) -> (Tensor LD, Tensor pivots)")
linalg_ldl_factor.describe(
    "The factors of Hermitian matrices ``L D L^T`` in one matrix, and the pivots."
)
linalg_ldl_factor_out = define(
    f"aten::linalg_ldl_factor.out({_FACTOR}, {_FACTORS}) -> ({_FACTORS})", tags=[Tag.out]
)


@linalg_ldl_factor.composite
def ldl_factor_composite(self: Tensor, hermitian: bool) -> tuple[Tensor, Tensor]:
    packed, pivots, info = linalg_ldl_factor_ex(self, hermitian=hermitian)
    _linalg_check_errors(info, "torch.linalg.ldl_factor", is_matrix=self.meta.ndim == 2)
    return packed, pivots


@linalg_ldl_factor_out.composite
def ldl_factor_out_composite(
    self: Tensor, hermitian: bool, LD: Tensor, pivots: Tensor
) -> tuple[Tensor, Tensor]:
    info = self.new_empty((0,), dtype=int32)
    linalg_ldl_factor_ex.variants[0](self, hermitian=hermitian, LD=LD, pivots=pivots, info=info)
    _linalg_check_errors(info, "torch.linalg.ldl_factor", is_matrix=self.meta.ndim == 2)
    return LD, pivots


# --- solving -------------------------------------------------------------------------

linalg_ldl_solve = define(
    "aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    variants=[Variant.OUT],
).exact_out()
linalg_ldl_solve.describe(
    "The X of ``A @ X = B``, with A given by `ldl_factor`: of the shape of `B`."
)


@linalg_ldl_solve.shape
def ldl_solve_shape(
    LD: TensorMeta, pivots: TensorMeta, B: TensorMeta, hermitian: bool
) -> TensorMeta:
    name = "torch.linalg.ldl_solve"
    check_square(name, LD)
    check_index(
        B.ndim >= 2,
        lambda: f"{name}: B must have at least 2 dimensions, it is {B}. For a vector, unsqueeze it",
    )
    check(
        LD.shape[-1] == B.shape[-2],
        lambda: (
            f"Incompatible matrix sizes for {name}: each A matrix is {LD.shape[-1]} by "
            f"{LD.shape[-1]} but each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        ),
    )
    check(
        LD.dtype is B.dtype,
        lambda: f"{name}: Expected b and A to have the same dtype, but found {B} and {LD}",
    )
    check(
        pivots.shape == LD.shape[:-1],
        lambda: (
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots "
            f"{pivots} for LD {LD}"
        ),
    )
    check(
        pivots.dtype.category == 1,
        lambda: f"{name}: Expected pivots to be integers. Got {pivots.dtype.scalar_name}",
    )
    _check_kind(name, "ldl_solve_kernel_cpu", LD)
    return column_major(B, (*batch_of(LD, B), *B.shape[-2:]))


def _check_pivots(pivots: Array) -> None:
    """Refuse pivots that LAPACK would follow out of the matrix: blocks of two have two rows."""
    rows = pivots.shape[-1]
    known = not pivots.size or bool((abs(pivots) >= 1).all() and (abs(pivots) <= rows).all())
    check_data(
        known and _in_pairs(pivots),
        lambda: (
            f"torch.linalg.ldl_solve: every pivot must be between 1 and {rows} in size, and "
            f"negative ones come in pairs; got {pivots.tolist()}. Pass those that ldl_factor gives."
        ),
    )


def _in_pairs(pivots: Array) -> bool:
    """Whether every run of negative pivots is of an even length."""
    negative = pivots < 0
    place = np.arange(pivots.shape[-1])
    before = np.maximum.accumulate(np.where(negative, -1, place), axis=-1)  # the run begins after
    ends = negative & ~np.concatenate([negative[..., 1:], negative[..., :1] & False], axis=-1)
    return not ((place - before) & ends).any()


@linalg_ldl_solve.kernel
@on_host
def ldl_solve_kernel(xp: ModuleType, LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    shape = (*batch, *B.shape[-2:])
    if not LD.size or not B.size:
        return np.zeros(shape, B.dtype)
    _check_pivots(pivots)
    loops = loops_of_matrices(batch, LD, B)
    if loops is not None:
        columns, packed = by_columns(B, batch), by_columns(LD, batch)
        count, (rows, width) = len(columns), B.shape[-2:]
        order = np.array(np.broadcast_to(pivots, (*batch, rows)), np.int32, order="C")
        info = np.empty(count, np.int32)
        given = (rows, width, packed, rows, order.reshape(count, rows), columns, rows, info)
        loops.for_each(_named("sytrs", LD, hermitian), B, count, "L", *given)
        return by_rows(columns, batch)
    solve = _lapack("sytrs", LD, hermitian)

    def one(packed: Array, rows: Array, b: Array) -> Array:
        return solve(column_major_array(packed), rows.astype(np.int32), b, lower=1)[0]

    return stacked(each(one, batch, (LD, 2), (pivots, 1), (B, 2)), shape, B.dtype)


linalg_ldl_solve.batching(solving)
