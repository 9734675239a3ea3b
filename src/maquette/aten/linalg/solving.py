"""Linear equations, inverses and determinants.

Functions that end in ``_ex`` report what failed in a status tensor; the others look at it and raise
`LinAlgError`. Fake tensors have no status to look at and never raise it.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.batching_forms import leading_matrices, rank_of, solving, to_front
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
    each,
    identity,
    info_of,
    loops_of_matrices,
    refuse,
    routine,
    stacked,
)
from maquette.aten.linalg.lapack_status import SINGULAR, UNSOLVABLE, _linalg_check_errors
from maquette.aten.linalg.lu import (
    check_fits,
    linalg_lu_solve,
    lu_metas,
    packed_lu,
    solved_by_lu,
)
from maquette.aten.view.copies import write_exact_out, write_outs
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.dtype import int32
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape, is_contiguous
from maquette.core.warned import warn_once
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Metas = tuple[TensorMeta, ...]
Arrays = tuple[Array, ...]
Grads = list[Tensor | None]


# --- solving -------------------------------------------------------------------------

_SOLVE = "Tensor A, Tensor B, *, bool left=True, bool check_errors=False"
_SOLVED = "Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots, Tensor(d!) info"
_linalg_solve_ex = define(
    f"aten::_linalg_solve_ex({_SOLVE}) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    variants=[f"aten::_linalg_solve_ex.result({_SOLVE}, {_SOLVED}) -> ({_SOLVED})"],
).exact_out()


def is_vector(A: TensorMeta | Array, B: TensorMeta | Array) -> bool:
    """Whether B is a vector for each matrix of A, rather than a matrix."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


@_linalg_solve_ex.shape
def solve_ex_shape(A: TensorMeta, B: TensorMeta, left: bool, check_errors: bool) -> Metas:
    check_inexact("linalg.solve", A)
    check_same("linalg.solve", A, B)
    check_square("linalg.solve", A)
    vector = is_vector(A, B)
    check(
        left or not vector,
        lambda: (
            f"linalg.solve: Vector broadcasting of the left hand side is not supported for "
            f"left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1); got {A}, "
            f"{B}"
        ),
    )
    columns = B.fresh((*B.shape, 1)) if vector else B
    check_matrix("linalg.solve", columns)
    check_fits("linalg.solve", A, columns, left)
    shape = (*batch_of(A, columns), *columns.shape[-2:])
    shape = shape[:-1] if vector else shape
    return column_major(B, shape) if left else B.fresh(shape), *lu_metas("linalg.solve", A)


def transposed_first(contiguous: bool, is_complex: bool) -> bool:
    """Whether PyTorch factors the transpose: of contiguous real matrices, which saves a copy."""
    return contiguous and not is_complex


def _is_contiguous(A: Array) -> bool:
    steps = tuple([step // A.itemsize for step in A.strides])
    return is_contiguous(A.shape, steps)


def _factored(A: Array) -> tuple[Array, Array, Array, bool]:
    turned = transposed_first(_is_contiguous(A), A.dtype.kind == "c")
    return *packed_lu(A.swapaxes(-1, -2) if turned else A), turned  # type: ignore[return-value]  # three arrays


@_linalg_solve_ex.kernel
@on_host
def solve_ex_kernel(xp: ModuleType, A: Array, B: Array, left: bool, check_errors: bool) -> Arrays:
    packed, pivots, info = packed_lu(A)
    if check_errors:
        refuse(info, "torch.linalg.solve_ex", UNSOLVABLE, is_matrix=A.ndim == 2)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    columns = B[..., None] if vector else B
    result = solved_by_lu(packed, pivots, columns, left=left, adjoint=False)
    return result[..., 0] if vector else result, packed, pivots, info


@_linalg_solve_ex.derivative("A", "B")
def solve_ex_grad(
    grads: Grads,
    A: Tensor,
    B_meta: TensorMeta,
    result0: Tensor,
    result1: Tensor,
    result2: Tensor,
    left: bool,
    needs: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    if grads[0] is None:
        return None, None
    vector = is_vector(A.meta, B_meta)
    grad, result = grads[0], result0
    if vector:
        grad = grad.unsqueeze(-1)
    if is_grad_enabled():
        by = _linalg_solve_ex(A.mH, grad, left=left)[0]
    else:  # by the factors that are there, which do not lead back to A
        by = linalg_lu_solve(result1, result2, grad, left=left, adjoint=True)
    through = None
    if needs[0]:
        result = result.unsqueeze(-1) if vector else result
        through = -(by @ result.mH) if left else -(result.mH @ by)
    return through, by.squeeze(-1) if vector else by


_linalg_solve_ex.nondifferentiable(1, 2, 3)


@_linalg_solve_ex.batching
def solve_batching(info: VmapInfo, in_dims: Any, A: Tensor, B: Tensor, **kwargs: Any) -> Any:
    a, b = to_front(A, in_dims[0], info.batch_size), to_front(B, in_dims[1], info.batch_size)
    rank_a, rank_b = rank_of(A, in_dims[0]), rank_of(B, in_dims[1])
    if rank_b == 1 and rank_a > 2:  # one vector for all matrices of an example
        b = b.reshape([info.batch_size, *[1] * (rank_a - 2), b.shape[-1]])
    check(rank_a >= 2, lambda: "linalg.solve: The input tensor A must have at least 2 dimensions.")
    # One row less than the matrices: vectors, if examples say so.
    if rank_b == 1 or (rank_b == rank_a - 1 and b.shape[1:] == a.shape[1:-1]):
        result, *rest = aten._linalg_solve_ex(a, b.unsqueeze(-1), **kwargs)
        return (result.squeeze(-1), *rest), 0
    rank = max(rank_a, rank_b)
    a, b = (
        to_front(A, in_dims[0], info.batch_size, rank),
        to_front(B, in_dims[1], info.batch_size, rank),
    )
    return aten._linalg_solve_ex(a, b, **kwargs), 0


linalg_solve_ex = define(f"aten::linalg_solve_ex({_SOLVE}) -> (Tensor result, Tensor info)")
linalg_solve_ex.describe("The X of ``A @ X = B``, and LAPACK's status for each matrix.")
linalg_solve_ex_out = define(
    f"aten::linalg_solve_ex.out({_SOLVE}, Tensor(a!) result, Tensor(b!) info) "
    "-> (Tensor(a!) result, Tensor(b!) info)",
    tags=[Tag.out],
)


@linalg_solve_ex.composite
def linalg_solve_ex_composite(
    A: Tensor, B: Tensor, left: bool, check_errors: bool
) -> tuple[Tensor, Tensor]:
    result, _, _, info = _linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return result, info


def _solve_into(
    A: Tensor, B: Tensor, left: bool, check_errors: bool, out: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    packed, pivots = B.new_empty((0,)), B.new_empty((0,), dtype=int32)
    _linalg_solve_ex.variants[0](
        A,
        B,
        left=left,
        check_errors=check_errors,
        result=out[0],
        LU=packed,
        pivots=pivots,
        info=out[1],
    )
    return out


linalg_solve_ex_out.composite(
    lambda A, B, left, check_errors, result, info: _solve_into(
        A, B, left, check_errors, (result, info)
    )
)

linalg_solve = define("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor")
linalg_solve.describe(
    "The X of ``A @ X = B`` (``X @ A = B``, if not `left`); LinAlgError for singular matrices."
)
linalg_solve.autocast(cpu="float32")
linalg_solve_out = define(
    "aten::linalg_solve.out(Tensor A, Tensor B, *, bool left=True, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@linalg_solve.composite
def solve_composite(A: Tensor, B: Tensor, left: bool) -> Tensor:
    result, _, _, info = _linalg_solve_ex(A, B, left=left)
    _linalg_check_errors(info, "torch.linalg.solve", is_matrix=A.meta.ndim == 2)
    checked: Tensor = result
    return checked


@linalg_solve_out.composite
def solve_out_composite(A: Tensor, B: Tensor, left: bool, out: Tensor) -> Tensor:
    info = B.new_empty((0,), dtype=int32)
    _solve_into(A, B, left, False, (out, info))
    _linalg_check_errors(info, "torch.linalg.solve", is_matrix=A.meta.ndim == 2)
    return out


# --- triangular matrices -------------------------------------------------------------

linalg_solve_triangular = define(
    "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, "
    "bool unitriangular=False) -> Tensor",
    variants=[Variant.OUT],
).exact_out()
linalg_solve_triangular.describe(
    "The X of ``A @ X = B`` with triangular A, of which one triangle is read."
)


def _triangular_meta(name: str, A: TensorMeta, B: TensorMeta, left: bool) -> TensorMeta:
    check_same(name, A, B)
    check_square(name, A)
    check_matrix(name, B)
    check_inexact(name, A)
    check_fits(name, A, B, left)
    return column_major(B, (*batch_of(A, B), *B.shape[-2:]))


def _triangular(A: Array, B: Array, *, upper: bool, left: bool, unit: bool, form: int = 0) -> Array:
    if not left:
        turned = _triangular(
            A.swapaxes(-1, -2), B.swapaxes(-1, -2), upper=not upper, left=True, unit=unit
        )
        return turned.swapaxes(-1, -2)
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    shape = (*batch, *B.shape[-2:])
    if not A.size or not B.size:
        return np.zeros(shape, B.dtype)
    loops = loops_of_matrices(batch, A, B)
    if loops is not None and not form and (unit or np.diagonal(A, 0, -2, -1).all()):
        return _triangular_by_loop(loops, A, B, batch, upper=upper, unit=unit)
    trtrs = routine("trtrs", A)
    # One matrix by rows is one by columns, as LAPACK takes it, transposed: it need not be copied.
    by_rows_alone = math.prod(batch) == 1 and A.flags.c_contiguous

    def one(a: Array, b: Array) -> Array:
        # LAPACK refuses zeros on the diagonal; PyTorch divides by them.
        if not unit and not np.diagonal(a).all():
            return _divided(a, b, upper)
        if by_rows_alone:
            return trtrs(a.T, b, lower=upper, trans=1, unitdiag=unit)[0]
        return trtrs(a, b, lower=not upper, trans=form, unitdiag=unit)[0]

    if form:
        return _triangular(A.swapaxes(-1, -2), B, upper=not upper, left=True, unit=unit)
    return stacked(each(one, batch, (A, 2), (B, 2)), shape, B.dtype)


def _triangular_by_loop(
    loops: ModuleType, A: Array, B: Array, batch: Shape, *, upper: bool, unit: bool
) -> Array:
    count, (size, width) = math.prod(batch), B.shape[-2:]
    columns, info = by_columns(B, batch), np.zeros(count, np.int32)
    letters = "U" if upper else "L", "N", "U" if unit else "N"
    factors = by_columns(A, batch)
    loops.for_each("trtrs", B, count, *letters, size, width, factors, size, columns, size, info)
    return by_rows(columns, batch)


def _divided(a: Array, b: Array, upper: bool) -> Array:
    """Substitution row by row, zeros on the diagonal giving infinities."""
    x = np.array(b)
    rows = range(len(a) - 1, -1, -1) if upper else range(len(a))
    for i in rows:
        rest = slice(i + 1, None) if upper else slice(0, i)
        x[i] = (x[i] - a[i, rest] @ x[rest]) / a[i, i]
    return x


@linalg_solve_triangular.shape
def solve_triangular_shape(
    self: TensorMeta, B: TensorMeta, upper: bool, left: bool, unitriangular: bool
) -> TensorMeta:
    return _triangular_meta("linalg.solve_triangular", self, B, left)


@linalg_solve_triangular.kernel
@on_host
def solve_triangular_kernel(
    xp: ModuleType, self: Array, B: Array, upper: bool, left: bool, unitriangular: bool
) -> Array:
    return _triangular(self, B, upper=upper, left=left, unit=unitriangular)


def _triangle(t: Tensor, upper: bool, unit: bool) -> Tensor:
    return t.triu(int(unit)) if upper else t.tril(-int(unit))


@linalg_solve_triangular.derivative("self", "B")
def solve_triangular_grad(
    grad: Tensor,
    self: Tensor,
    result: Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    needs: list[bool],
) -> tuple[Tensor | None, Tensor]:
    by: Tensor = linalg_solve_triangular(
        self.mH, grad, upper=not upper, left=left, unitriangular=unitriangular
    )
    if not needs[0]:
        return None, by
    through = -(by @ result.mH) if left else -(result.mH @ by)
    return _triangle(through, upper, unitriangular), by


linalg_solve_triangular.batching(solving)


_TRIANGULAR = (
    "Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False"
)
triangular_solve = define(
    f"aten::triangular_solve({_TRIANGULAR}) -> (Tensor solution, Tensor cloned_coefficient)",
    variants=[
        f"aten::triangular_solve.X({_TRIANGULAR}, *, Tensor(a!) X, Tensor(b!) M) "
        "-> (Tensor(a!) solution, Tensor(b!) cloned_coefficient)"
    ],
).exact_out()
triangular_solve.describe("The X of ``A @ X = self`` with triangular A, and a copy of A.")
triangular_solve.autocast(cpu="float32")


@triangular_solve.shape
def triangular_solve_shape(
    self: TensorMeta, A: TensorMeta, upper: bool, transpose: bool, unitriangular: bool
) -> Metas:
    solution = _triangular_meta("triangular_solve", A, self, True)
    return solution, column_major(A, (*batch_of(A, self), *A.shape[-2:]))


@triangular_solve.kernel
@on_host
def triangular_solve_kernel(
    xp: ModuleType, self: Array, A: Array, upper: bool, transpose: bool, unitriangular: bool
) -> Arrays:
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular and will "
        "be removed in a future PyTorch release."
    )
    turned = A.swapaxes(-1, -2) if transpose else A
    solution = _triangular(
        turned, self, upper=upper is not transpose, left=True, unit=unitriangular
    )
    batch = np.broadcast_shapes(A.shape[:-2], self.shape[:-2])
    return solution, xp.broadcast_to(A, (*batch, *A.shape[-2:]))


@triangular_solve.derivative("self", "A")
def triangular_solve_grad(
    grads: Grads,
    A: Tensor,
    result0: Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
    needs: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    if grads[0] is None:
        return None, grads[1]
    by: Tensor = triangular_solve(grads[0], A.conj(), upper, not transpose, unitriangular)[0]
    if not needs[1]:
        return by, None
    through = -(result0.conj() @ by.mT if transpose else by @ result0.mH)
    through = _triangle(through, upper, unitriangular)
    return by, through if grads[1] is None else through + grads[1]


triangular_solve.batching(solving)


# --- inverses ------------------------------------------------------------------------

_INV = "Tensor A, *, bool check_errors=False"
linalg_inv_ex = define(
    f"aten::linalg_inv_ex({_INV}) -> (Tensor inverse, Tensor info)",
    variants=[
        f"aten::linalg_inv_ex.inverse({_INV}, Tensor(a!) inverse, Tensor(b!) info) "
        "-> (Tensor(a!) inverse, Tensor(b!) info)"
    ],
).exact_out()
linalg_inv_ex.describe(
    "The inverses of square matrices, and LAPACK's status for each: 0, or where it is singular."
)
linalg_inv_ex.autocast(cpu="float32")


@linalg_inv_ex.shape
def inv_ex_shape(A: TensorMeta, check_errors: bool) -> Metas:
    check_square("linalg.inv", A)
    check_inexact("linalg.inv", A)
    return column_major(A, A.shape), info_of(A, A.shape[:-2])


@linalg_inv_ex.kernel
@on_host
def inv_ex_kernel(xp: ModuleType, A: Array, check_errors: bool) -> Arrays:
    packed, pivots, info = packed_lu(A)
    if check_errors:
        refuse(info, "linalg.inv_ex", SINGULAR, is_matrix=A.ndim == 2)
    eye = identity(xp, A, A.shape)
    return solved_by_lu(packed, pivots, eye, left=True, adjoint=False), info


@linalg_inv_ex.derivative("A")
def inv_ex_grad(grads: Grads, result0: Tensor) -> tuple[Tensor | None]:
    if grads[0] is None:
        return (None,)
    through = grads[0] @ result0.mH
    return (-(result0.mH @ through),)


linalg_inv_ex.nondifferentiable(1)
linalg_inv_ex.batching(leading_matrices)

linalg_inv = define("aten::linalg_inv(Tensor A) -> Tensor")
linalg_inv.describe(
    "The inverses of square matrices, of their shape; LinAlgError for singular ones."
)
linalg_inv.autocast(cpu="float32")
linalg_inv_out = define(
    "aten::linalg_inv.out(Tensor A, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)


def inverse_of(A: Tensor) -> Tensor:
    """The inverse; `LinAlgError` for a singular matrix."""
    result, info = linalg_inv_ex(A)
    _linalg_check_errors(info, "linalg.inv", is_matrix=A.meta.ndim == 2)
    checked: Tensor = result
    return checked


def inverse_into(A: Tensor, out: Tensor) -> Tensor:
    """The same, written to a tensor."""
    info = A.new_empty((0,), dtype=int32)
    linalg_inv_ex.variants[0](A, inverse=out, info=info)
    _linalg_check_errors(info, "linalg.inv", is_matrix=A.meta.ndim == 2)
    return out


linalg_inv.composite(inverse_of)
linalg_inv_out.composite(inverse_into)
inverse = define("aten::inverse(Tensor self) -> Tensor")
inverse.describe("The inverses of square matrices, of their shape; LinAlgError for singular ones.")
inverse.autocast(cpu="float32")
inverse.composite(inverse_of)
inverse_out = define(
    "aten::inverse.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)
inverse_out.composite(inverse_into)


# --- determinants --------------------------------------------------------------------

_DET_OUT = "Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots"
_linalg_det = define(
    "aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
    variants=[f"aten::_linalg_det.result(Tensor A, *, {_DET_OUT}) -> ({_DET_OUT})"],
).exact_out()


def _parity(pivots: Array) -> Array:
    """1 or -1, as the pivots exchange an even or an odd number of rows."""
    swaps = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return 1 - 2 * (swaps % 2)


@_linalg_det.shape
def det_shape(A: TensorMeta) -> Metas:
    check_square("linalg.det", A)
    check_inexact("linalg.det", A)
    packed, pivots, _ = lu_metas("linalg.det", A)
    return A.fresh(A.shape[:-2]), packed, pivots


@_linalg_det.kernel
@on_host
def det_kernel(xp: ModuleType, A: Array) -> Arrays:
    packed, pivots, _, _ = _factored(A)
    diagonal = xp.diagonal(packed, 0, -2, -1)
    return diagonal.prod(-1) * _parity(pivots).astype(A.dtype), packed, pivots


def _scaled_eye(scale: Tensor, A: Tensor) -> Tensor:
    """``scale * I``, of the shape of ``A``."""
    eye: Tensor = scale.unsqueeze(-1).expand((*scale.meta.shape, A.meta.shape[-1])).diag_embed()
    return eye


def _scaled_inverse(scale: Tensor, A: Tensor) -> Tensor:
    """``scale * A^-H``, differentiable."""
    right = _scaled_eye(scale, A)
    found: Tensor = _linalg_solve_ex(A.mH, right)[0]
    return found


@_linalg_det.derivative("A")
def det_grad(
    grads: Grads, A: Tensor, result0: Tensor, result1: Tensor, result2: Tensor
) -> tuple[Tensor | None]:
    if grads[0] is None:
        return (None,)
    if is_grad_enabled():
        return (_scaled_inverse(grads[0] * result0.conj(), A),)
    # For a singular matrix the adjugate is meant: least numbers stand for zeros of U.
    diagonal = result1.diagonal(0, -2, -1)
    least = diagonal.eq(0).to(diagonal.dtype) * _LEAST
    n = A.meta.shape[-1]
    counts = result2.ne(result2.new_ones((n,)).cumsum(0).to(result2.dtype)).sum((-1,))
    parity = 1 - 2 * counts.remainder(2)
    value = (diagonal + least).prod(-1) * parity.to(diagonal.dtype)
    scale = (grads[0] * value.conj()).unsqueeze(-1).expand((*value.meta.shape, n)).diag_embed()
    turned = transposed_first(A.meta.is_contiguous, A.meta.dtype.is_complex)
    return (linalg_lu_solve(result1 + least.diag_embed(), result2, scale, adjoint=not turned),)


_LEAST = 1e-37
_linalg_det.nondifferentiable(1, 2)
_linalg_det.batching(leading_matrices)

linalg_det = define("aten::linalg_det(Tensor A) -> Tensor")
linalg_det.describe("The determinants of square matrices [..., n, n]: [...].")
linalg_det.composite(lambda A: _linalg_det(A)[0])
linalg_det_out = define(
    "aten::linalg_det.out(Tensor A, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)
linalg_det_out.composite(lambda A, out: write_exact_out(out, _linalg_det(A)[0]))
det = define("aten::det(Tensor self) -> Tensor")
det.describe("The determinants of square matrices [..., n, n]: [...].")
det.composite(lambda self: _linalg_det(self)[0])

_SIGNED = "Tensor(a!) sign, Tensor(b!) logabsdet"
_SLOGDET_OUT = f"{_SIGNED}, Tensor(c!) LU, Tensor(d!) pivots"
_linalg_slogdet = define(
    "aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    variants=[f"aten::_linalg_slogdet.sign(Tensor A, *, {_SLOGDET_OUT}) -> ({_SLOGDET_OUT})"],
).exact_out()


@_linalg_slogdet.shape
def slogdet_shape(A: TensorMeta) -> Metas:
    check_square("linalg.slogdet", A)
    check_inexact("linalg.slogdet", A)
    packed, pivots, _ = lu_metas("linalg.slogdet", A)
    batch = A.shape[:-2]
    return A.fresh(batch), A.fresh(batch, A.dtype.to_real()), packed, pivots


@_linalg_slogdet.kernel
@on_host
def slogdet_kernel(xp: ModuleType, A: Array) -> Arrays:
    packed, pivots, _, _ = _factored(A)
    diagonal = xp.diagonal(packed, 0, -2, -1)
    size = xp.abs(diagonal)
    phases = xp.where(size == 0, 0, diagonal / xp.where(size == 0, 1, size))
    sign = phases.prod(-1) * _parity(pivots).astype(A.dtype)
    return sign, xp.log(size).sum(-1), packed, pivots


@_linalg_slogdet.derivative("A")
def slogdet_grad(
    grads: Grads, A: Tensor, result0: Tensor, result2: Tensor, result3: Tensor
) -> tuple[Tensor | None]:
    scale = grads[1]
    if A.meta.dtype.is_complex and grads[0] is not None:
        turn = (grads[0].conj() * result0).imag * -1j
        scale = turn if scale is None else scale + turn
    if scale is None:
        return (None,)
    scale = scale.to(A.dtype)
    if is_grad_enabled():
        return (_scaled_inverse(scale, A),)
    right = _scaled_eye(scale, A)
    turned = transposed_first(A.meta.is_contiguous, A.meta.dtype.is_complex)
    return (linalg_lu_solve(result2, result3, right, adjoint=not turned),)


_linalg_slogdet.nondifferentiable(2, 3)
_linalg_slogdet.batching(leading_matrices)
linalg_slogdet = define("aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)")
linalg_slogdet.describe("The sign and the logarithm of the magnitude of determinants: [...] each.")
linalg_slogdet.composite(lambda A: tuple(_linalg_slogdet(A)[:2]))
linalg_slogdet_out = define(
    f"aten::linalg_slogdet.out(Tensor A, *, {_SIGNED}) -> ({_SIGNED})", tags=[Tag.out]
)


@linalg_slogdet_out.composite
def slogdet_out_composite(A: Tensor, sign: Tensor, logabsdet: Tensor) -> tuple[Tensor, ...]:
    found = _linalg_slogdet(A)
    return write_outs((sign, logabsdet), found[:2], write_exact_out)


slogdet = define("aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)")
slogdet.describe("The sign and the logarithm of the magnitude of determinants: [...] each.")
slogdet.composite(lambda self: tuple(_linalg_slogdet(self)[:2]))
logdet = define("aten::logdet(Tensor self) -> Tensor")
logdet.describe("The logarithm of determinants: [...]; NaN of negative ones.")


@logdet.composite
def logdet_composite(self: Tensor) -> Tensor:
    sign, size = _linalg_slogdet(self)[:2]
    if sign.is_complex():
        found: Tensor = sign.log() + size
    else:
        found = aten.where(sign == -1.0, math.nan, size)
    return found
