"""Cholesky factors of positive-definite matrices, and what is solved by them.

Only one triangle of the argument is read; gradients are symmetric all the same, as PyTorch's are.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.batching_forms import leading_matrices, solving
from maquette.aten.common.formula_helpers import times
from maquette.aten.common.operators import aten
from maquette.aten.linalg.factorizations import (
    batch_of,
    by_columns,
    by_rows,
    check_inexact,
    check_same,
    check_square,
    column_major,
    column_major_array,
    dagger,
    each,
    identity,
    info_of,
    loops_of_matrices,
    refuse,
    routine,
    stacked,
)
from maquette.aten.linalg.lapack_status import NOT_POSITIVE, _linalg_check_errors
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.warned import warn_once
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define
from maquette.tensor.tensor import Tensor

Grads = list[Tensor | None]

_EX = "Tensor self, *, bool upper=False, bool check_errors=False"
linalg_cholesky_ex = define(
    f"aten::linalg_cholesky_ex({_EX}) -> (Tensor L, Tensor info)",
    variants=[
        f"aten::linalg_cholesky_ex.L({_EX}, Tensor(a!) L, Tensor(b!) info) "
        "-> (Tensor(a!) L, Tensor(b!) info)"
    ],
).exact_out()
linalg_cholesky_ex.describe(
    "The triangular factor L of matrices ``L @ L^H``, and where that failed, at which row."
)
linalg_cholesky_ex.autocast(cpu="float32")


@linalg_cholesky_ex.shape
def cholesky_ex_shape(
    self: TensorMeta, upper: bool, check_errors: bool
) -> tuple[TensorMeta, TensorMeta]:
    check_square("linalg.cholesky", self)
    check_inexact("linalg.cholesky", self)
    return column_major(self, self.shape), info_of(self, self.shape[:-2])


def _factors(self: Array, upper: bool) -> tuple[Array, Array]:
    batch = self.shape[:-2]
    if not self.size:
        return self, np.zeros(batch, np.int32)
    loops = loops_of_matrices(batch, self)
    if loops is not None:
        count, size = math.prod(batch), self.shape[-1]
        columns, info = by_columns(self, batch), np.zeros(count, np.int32)
        loops.for_each("potrf", self, count, "U" if upper else "L", size, columns, size, info)
        for i in range(size):  # what the other triangle still holds
            columns[:, i, slice(i + 1, None) if upper else slice(0, i)] = 0
        return by_rows(columns, batch), info.reshape(batch)
    potrf = routine("potrf", self)
    found = each(lambda x: potrf(x, lower=not upper, clean=True), batch, (self, 2))
    factors = stacked([f for f, _ in found], self.shape, self.dtype)
    return factors, stacked([i for _, i in found], batch, np.int32)


@linalg_cholesky_ex.kernel
@on_host
def cholesky_ex_kernel(
    xp: ModuleType, self: Array, upper: bool, check_errors: bool
) -> tuple[Array, Array]:
    factor, info = _factors(self, upper)
    if check_errors:
        refuse(info, "linalg.cholesky_ex", NOT_POSITIVE, is_matrix=self.ndim == 2)
    return factor, info


def factor_grad(grad: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """The gradient of a matrix by that of its Cholesky factor."""
    lower, grad = (factor.mH, grad.mH) if upper else (factor, grad)
    core = (lower.mH @ grad).tril()
    core = times(core + core.tril(-1).mH, 0.5)
    # L^-H C L^-1
    left = aten.linalg_solve_triangular(lower.mH, core, upper=True)
    whole: Tensor = aten.linalg_solve_triangular(lower, left, upper=False, left=False)
    return whole


@linalg_cholesky_ex.derivative("self")
def cholesky_ex_grad(grads: Grads, upper: bool, result0: Tensor) -> tuple[Tensor | None]:
    return (None if grads[0] is None else factor_grad(grads[0], result0, upper),)


linalg_cholesky_ex.nondifferentiable(1)
linalg_cholesky_ex.batching(leading_matrices)

linalg_cholesky = define("aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor")
linalg_cholesky.describe(
    "The triangular factor L of positive-definite matrices ``L @ L^H``; others raise LinAlgError."
)
linalg_cholesky.autocast(cpu="float32")
linalg_cholesky_out = define(
    "aten::linalg_cholesky.out(Tensor self, *, bool upper=False, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@linalg_cholesky.composite
def cholesky_composite(self: Tensor, upper: bool) -> Tensor:
    factor, info = linalg_cholesky_ex(self, upper=upper)
    _linalg_check_errors(info, "linalg.cholesky", is_matrix=self.meta.ndim == 2)
    checked: Tensor = factor
    return checked


@linalg_cholesky_out.composite
def cholesky_out_composite(self: Tensor, upper: bool, out: Tensor) -> Tensor:
    info = self.new_empty((0,), dtype=info_of(self.meta, ()).dtype)
    linalg_cholesky_ex.variants[0](self, upper=upper, L=out, info=info)
    _linalg_check_errors(info, "linalg.cholesky", is_matrix=self.meta.ndim == 2)
    return out


cholesky = define("aten::cholesky(Tensor self, bool upper=False) -> Tensor", variants=[Variant.OUT])
cholesky.describe(
    "The triangular factor L of positive-definite matrices ``L @ L^H``, of their shape."
)
cholesky.autocast(cpu="float32")


@cholesky.shape
def cholesky_shape(self: TensorMeta, upper: bool) -> TensorMeta:
    check_square("cholesky", self)
    check_inexact("cholesky", self)
    return column_major(self, self.shape)


@cholesky.kernel
@on_host
def cholesky_kernel(xp: ModuleType, self: Array, upper: bool) -> Array:
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a "
        "future PyTorch release."
    )
    factor, info = _factors(self, upper)
    refuse(info, "cholesky", NOT_POSITIVE, is_matrix=self.ndim == 2)
    return factor


cholesky.derivative(self=lambda grad, result, upper: factor_grad(grad, result, upper))
cholesky.batching(leading_matrices)


# --- by factors ----------------------------------------------------------------------

cholesky_solve = define(
    "aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    variants=[Variant.OUT],
)
cholesky_solve.describe(
    "The X of ``A @ X = self``, with A given by its Cholesky factor: of the shape of `self`."
)
cholesky_solve.autocast(cpu="float32")


@cholesky_solve.shape
def cholesky_solve_shape(self: TensorMeta, input2: TensorMeta, upper: bool) -> TensorMeta:
    check_square("cholesky_solve", input2)
    check(
        self.ndim >= 2,
        lambda: f"b should have at least 2 dimensions, but has {self.ndim} dimensions instead",
    )
    check_inexact("cholesky_solve", self, input2)
    check_same("cholesky_solve", self, input2)
    check(
        self.shape[-2] == input2.shape[-1],
        lambda: f"cholesky_solve: Incompatible matrix sizes: {input2} and {self}",
    )
    return column_major(self, (*batch_of(self, input2), *self.shape[-2:]))


def _by_factor(b: Array, factor: Array, upper: bool) -> Array:
    batch = np.broadcast_shapes(b.shape[:-2], factor.shape[:-2])
    shape = (*batch, *b.shape[-2:])
    if not b.size or not factor.size:
        return np.zeros(shape, b.dtype)
    loops = loops_of_matrices(batch, b, factor)
    if loops is not None:
        count, (size, width) = math.prod(batch), b.shape[-2:]
        columns, info = by_columns(b, batch), np.zeros(count, np.int32)
        factors, half = by_columns(factor, batch), "U" if upper else "L"
        loops.for_each("potrs", b, count, half, size, width, factors, size, columns, size, info)
        return by_rows(columns, batch)
    potrs = routine("potrs", b)
    found = each(
        lambda f, x: potrs(column_major_array(f), x, lower=not upper)[0],
        batch,
        (factor, 2),
        (b, 2),
    )
    return stacked(found, shape, b.dtype)


@cholesky_solve.kernel
@on_host
def cholesky_solve_kernel(xp: ModuleType, self: Array, input2: Array, upper: bool) -> Array:
    return _by_factor(self, input2, upper)


@cholesky_solve.derivative("self", "input2")
def cholesky_solve_grad(
    grad: Tensor, input2: Tensor, result: Tensor, upper: bool, needs: list[bool]
) -> tuple[Tensor, Tensor | None]:
    back: Tensor = cholesky_solve(grad, input2, upper)
    if not needs[1]:
        return back, None
    common = back @ result.mH
    common = common + common.mH
    return back, -(input2 @ common if upper else common @ input2)


cholesky_solve.batching(solving)


_SINGULAR = (
    "The diagonal element {code} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
cholesky_inverse = define(
    "aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", variants=[Variant.OUT]
)
cholesky_inverse.describe(
    "The inverses of matrices that are given by their Cholesky factors, of their shape."
)
cholesky_inverse.autocast(cpu="float32")


@cholesky_inverse.shape
def cholesky_inverse_shape(self: TensorMeta, upper: bool) -> TensorMeta:
    check_square("cholesky_inverse", self)
    check_inexact("cholesky_inverse", self)
    return column_major(self, self.shape)


@cholesky_inverse.kernel
@on_host
def cholesky_inverse_kernel(xp: ModuleType, self: Array, upper: bool) -> Array:
    # LAPACK's status for each matrix: the place of its first zero on the diagonal.
    zeros = np.diagonal(self, axis1=-2, axis2=-1) == 0
    info = np.where(zeros.any(-1), zeros.argmax(-1) + 1, 0) if self.size else np.zeros(0, int)
    refuse(info, "cholesky_inverse", _SINGULAR, is_matrix=self.ndim == 2)
    inverse = _by_factor(identity(xp, self, self.shape), self, upper)
    # Exactly Hermitian, as LAPACK's own inverse is.
    return (inverse + dagger(inverse)) / 2


@cholesky_inverse.derivative("self")
def cholesky_inverse_grad(grad: Tensor, self: Tensor, result: Tensor, upper: bool) -> tuple[Tensor]:
    common = result @ (grad + grad.mH) @ result
    return (-(self @ common if upper else common @ self),)


cholesky_inverse.batching(leading_matrices)
