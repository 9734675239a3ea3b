"""Orthogonal factors as products of reflectors: `geqrf`, `householder_product`, `ormqr`.

A reflector is ``I - tau v v^H``, where v has zeros above its place, a one there, and the rest in
the matrix's column below the diagonal. Several make ``H_1 ... H_k = I - V T V^H`` with T upper
triangular, ``T = (1 + D S)^-1 D`` for ``D = diag(tau)`` and S the part of ``V^H V`` above the
diagonal (Schreiber and Van Loan, 1989). That holds for any v and tau, orthogonal or not, and the
derivatives are taken through it; the values are LAPACK's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.batching_forms import leading_matrices
from maquette.aten.common.operators import aten
from maquette.aten.linalg.factorizations import (
    by_columns,
    by_rows,
    column_major,
    column_major_array,
    each,
    identity,
    loops_of_matrices,
    routine,
    scratch,
    stacked,
)
from maquette.core.dtype import dtype
from maquette.core.errors import check, check_index, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import alike, expect_true, is_true, smaller
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import OperatorPage, Variant, define, set_shape_rule
from maquette.library.variants import check_castable, check_writable
from maquette.tensor.tensor import Tensor

Metas = tuple[TensorMeta, ...]
Arrays = tuple[Array, ...]
DtypeCheck = Callable[[str, dtype, dtype], None]


# --- what the pages here share -------------------------------------------------------


def check_lapack(label: str, meta: TensorMeta) -> None:
    """Refuse what LAPACK has no routine for: integers, and floats narrower than float32."""
    kind = meta.dtype
    wide = kind.name in ("float32", "float64", "complex64", "complex128")
    check_not_implemented(wide, lambda: f"\"{label}\" not implemented for '{kind.scalar_name}'")


def check_ranked(name: str, what: str, meta: TensorMeta) -> None:
    """Refuse what is no matrix; ``what`` is its name."""
    check_advised(
        check,
        meta.ndim >= 2,
        lambda: f"{name}: {what} must have at least 2 dimensions.",
        lambda: f"It is {meta}.",
    )


def as_made(result: TensorMeta, out: TensorMeta) -> bool:
    """Whether LAPACK could write to an output itself: an empty one, or one laid out alike."""
    laid_out = alike(out.shape, result.shape) and alike(out.strides, result.strides)
    return out.dtype is result.dtype and (is_true(out.numel == 0) or laid_out)


def _fitted(name: str, result: TensorMeta, out: TensorMeta, strides: Shape | None) -> TensorMeta:
    if out.numel and result.shape == out.shape:
        check_writable(name, out)
        return out
    return TensorMeta.of(out.dtype, result.shape, strides, out.offset, out.device)


def late_out(page: OperatorPage, count: int, check_dtype: DtypeCheck = check_castable) -> None:
    """Give the ``out=`` form of a page the layouts that PyTorch's older operators have.

    Empty outputs are laid out as the results, where LAPACK could write to all outputs itself; one
    with elements and the result's shape is kept; others are resized row by row.
    """
    name = page.op._opname

    def rule(*args: Any) -> object:
        assert page.op.shape_rule is not None
        results: Any = page.op.shape_rule(*args[:-count])
        pairs = list(zip([results] if count == 1 else results, args[-count:], strict=True))
        for result, out in pairs:
            check_dtype(name, result.dtype, out.dtype)
        direct = all(as_made(result, out) for result, out in pairs)
        metas = [_fitted(name, r, out, r.strides if direct else None) for r, out in pairs]
        return metas[0] if count == 1 else tuple(metas)

    set_shape_rule(page.variants[0], rule)


_BLOCK = 64  # columns that LAPACK takes at once, if it has the memory to work in


def _named(name: str, like: Array) -> str:
    """What LAPACK calls a routine: for complex numbers ``orgqr`` is named ``ungqr``."""
    return name.replace("or", "un") if like.dtype.kind == "c" else name


def _lapack(name: str, like: Array) -> Callable[..., tuple[Array, ...]]:
    """LAPACK's routine for an element type."""
    found: Callable[..., tuple[Array, ...]] = routine(_named(name, like), like)
    return found


# --- factoring -----------------------------------------------------------------------

geqrf = define(
    "aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)",
    variants=[
        "aten::geqrf.a(Tensor self, *, Tensor(a!) a, Tensor(b!) tau) "
        "-> (Tensor(a!) a, Tensor(b!) tau)"
    ],
)
geqrf.describe(
    "The QR factors of matrices as LAPACK packs them: reflectors and R in one matrix, and "
    "their factors."
)
geqrf.autocast(cpu="float32")


@geqrf.shape
def geqrf_shape(self: TensorMeta) -> Metas:
    """R on and above the diagonal, reflectors below it; a tau for each reflector."""
    check_ranked("torch.geqrf", "input", self)
    check_lapack("geqrf_cpu", self)
    factors = self.fresh((*self.shape[:-2], smaller(*self.shape[-2:])))
    return column_major(self, self.shape), factors


@geqrf.kernel
@on_host
def geqrf_kernel(xp: ModuleType, self: Array) -> Arrays:
    *batch, m, n = self.shape
    shape = (*batch, min(m, n))
    if not self.size:
        return self, np.zeros(shape, self.dtype)
    work = _BLOCK * n
    loops = loops_of_matrices(tuple(batch), self)
    if loops is not None:
        columns = by_columns(self, tuple(batch))
        count = len(columns)
        tau, info = np.empty((count, min(m, n)), self.dtype), np.empty(count, np.int32)
        given = (columns, m, tau, scratch(count, work, self.dtype), work, info)
        loops.for_each("geqrf", self, count, m, n, *given)
        return by_rows(columns, tuple(batch)), tau.reshape(shape)
    factor = _lapack("geqrf", self)
    found = each(lambda x: factor(x, work)[:2], tuple(batch), (self, 2))
    packed = stacked([a for a, _ in found], self.shape, self.dtype)
    return packed, stacked([t for _, t in found], shape, self.dtype)


geqrf.batching(leading_matrices)


late_out(geqrf, 2)


# --- the orthogonal factor -----------------------------------------------------------


def _check_factors(name: str, matrix: TensorMeta, tau: TensorMeta) -> None:
    """A tau for each reflector, the same batch."""
    check(
        matrix.ndim - tau.ndim == 1,
        lambda: (
            f"{name}: Expected tau to have one dimension less than input, but got {tau} for "
            f"{matrix}"
        ),
    )
    check(
        matrix.shape[:-2] == tau.shape[:-1],
        lambda: (
            f"{name}: Expected batch dimensions of tau to be equal to those of input, but got "
            f"{tau} for {matrix}"
        ),
    )
    check(
        matrix.dtype is tau.dtype,
        lambda: f"{name}: Expected tau and input to have the same dtype; got {tau}, {matrix}",
    )


def _count(tau: TensorMeta) -> int:
    check_index(
        tau.ndim > 0,
        lambda: "Dimension specified as -1 but tau has no dimensions; give one for each reflector",
    )
    return tau.shape[-1]


linalg_householder_product = define(
    "aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    variants=[Variant.OUT],
)
linalg_householder_product.describe(
    "The first columns of the product of reflectors given as columns, of the shape of `input`."
)
linalg_householder_product.autocast(cpu="float32")


@linalg_householder_product.shape
def householder_product_shape(input: TensorMeta, tau: TensorMeta) -> TensorMeta:
    """The first columns of ``H_1 ... H_k``, as many as the input has."""
    name = "torch.linalg.householder_product"
    check_ranked(name, "input", input)
    m, n = input.shape[-2:]
    check(
        m >= n,
        lambda: (
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]; got {input}"
        ),
    )
    check(
        n >= _count(tau),
        lambda: (
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]; got {input}, "
            f"{tau}"
        ),
    )
    _check_factors(name, input, tau)
    check_lapack("orgqr_cpu", input)
    return column_major(input, input.shape)


@linalg_householder_product.kernel
@on_host
def householder_product_kernel(xp: ModuleType, input: Array, tau: Array) -> Array:
    if not input.size or not tau.size:
        return identity(xp, input, input.shape)
    batch, (m, n), work = input.shape[:-2], input.shape[-2:], _BLOCK * input.shape[-1]
    loops = loops_of_matrices(batch, input, tau)
    if loops is not None:
        columns, taus = by_columns(input, batch), np.ascontiguousarray(tau)
        count, k = len(columns), tau.shape[-1]
        memory = scratch(count, work, input.dtype), work, np.empty(count, np.int32)
        given = (count, m, n, k, columns, m, taus.reshape(count, k), *memory)
        loops.for_each(_named("orgqr", input), input, *given)
        return by_rows(columns, batch)
    generate = _lapack("orgqr", input)
    found = each(
        lambda a, t: generate(column_major_array(a), t, work)[0], batch, (input, 2), (tau, 1)
    )
    return stacked(found, input.shape, input.dtype)


late_out(linalg_householder_product, 1)


class _Compact(NamedTuple):
    """The product of reflectors as ``I - V T V^H``."""

    V: Tensor
    tau: Tensor
    S: Tensor
    T: Tensor

    @classmethod
    def of(cls, matrix: Tensor, tau: Tensor) -> _Compact:
        """From a matrix that holds the reflectors below its diagonal; m by k is the shape of V."""
        m, count = matrix.meta.shape[-2], tau.meta.shape[-1]
        ones = aten.constant_pad_nd(matrix.new_ones((count,)).diag_embed(), (0, 0, 0, m - count))
        V = matrix.narrow(-1, 0, count).tril(-1) + ones
        S = (V.mH @ V).triu(1)
        unit = tau.unsqueeze(-1) * S
        T = aten.linalg_solve_triangular(unit, tau.diag_embed(), upper=True, unitriangular=True)
        return cls(V, tau, S, T)

    def grad(self, by_V: Tensor, by_T: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients by V and tau, from those of what is made of V and T.

        ``T = (1 + D S)^-1 D``, so ``dT = (1 + D S)^-1 (dD (1 - S T) - D dS T)``.
        """
        column = self.tau.unsqueeze(-1)
        inner = aten.linalg_solve_triangular(
            (column * self.S).mH, by_T, upper=False, unitriangular=True
        )
        by_tau = (inner - inner @ (self.S @ self.T).mH).diagonal(0, -2, -1).contiguous()
        by_S = -(column.conj() * (inner @ self.T.mH)).triu(1)
        return by_V + self.V @ (by_S + by_S.mH), by_tau


def _into_columns(by_V: Tensor, like: TensorMeta) -> Tensor:
    """A gradient of reflectors as one of the matrix they are stored in."""
    padded: Tensor = aten.constant_pad_nd(by_V.tril(-1), (0, like.shape[-1] - by_V.meta.shape[-1]))
    return padded


@linalg_householder_product.derivative("input", "tau")
def householder_product_grad(
    grad: Tensor, input: Tensor, tau: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    m, n = input.meta.shape[-2:]
    if not input.meta.numel or not tau.meta.numel:
        return None, None
    compact = _Compact.of(input, tau)
    V, T = compact.V, compact.T
    # Q = E - V T W^H, where E are the first n columns of the identity, and W the first rows of V.
    W = V.narrow(-2, 0, n)
    by_W = -aten.constant_pad_nd(grad.mH @ (V @ T), (0, 0, 0, m - n))
    along = grad @ W
    by_V, by_tau = compact.grad(by_W - along @ T.mH, -(V.mH @ along))
    return _into_columns(by_V, input.meta), by_tau


linalg_householder_product.batching(leading_matrices)


orgqr = define("aten::orgqr(Tensor self, Tensor input2) -> Tensor")
orgqr.describe(
    "The first columns of the product of reflectors given as columns, of the shape of `self`."
)
orgqr.autocast(cpu="float32")
orgqr.composite(lambda self, input2: linalg_householder_product(self, input2))
orgqr_out = define(
    "aten::orgqr.out(Tensor self, Tensor input2, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
orgqr_out.composite(
    lambda self, input2, out: linalg_householder_product.variants[0](self, input2, out=out)
)


# --- products with it ----------------------------------------------------------------

ormqr = define(
    "aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, "
    "bool transpose=False) -> Tensor",
    variants=[Variant.OUT],
)
ormqr.describe(
    "The product of an orthogonal matrix, given by reflectors, with `input3`, of its shape."
)
ormqr.autocast(cpu="float32")


@ormqr.shape
def ormqr_shape(
    self: TensorMeta, input2: TensorMeta, input3: TensorMeta, left: bool, transpose: bool
) -> TensorMeta:
    """The product of a matrix with all of ``H_1 ... H_k``, or its conjugate transpose."""
    name = "torch.ormqr"
    check_ranked(name, "input", self)
    check_ranked(name, "other", input3)
    side = -2 if left else -1
    rows, count = input3.shape[side], _count(input2)
    check(
        rows >= count,
        lambda: (
            f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]; got "
            f"{input3}, {input2}"
        ),
    )
    check_advised(
        check,
        expect_true(count == smaller(rows, self.shape[-1])),
        lambda: f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])",
        lambda: f"tau is {input2}, other {input3}, input {self}.",
    )
    check(
        rows == self.shape[-2],
        lambda: (
            f"{name}: other.shape[{side}] must be equal to input.shape[-2]; got {input3}, {self}"
        ),
    )
    _check_factors(name, self, input2)
    check(
        self.ndim == input3.ndim and self.shape[:-2] == input3.shape[:-2],
        lambda: (
            f"{name}: Expected batch dimensions of other to be equal to those of input, but got "
            f"{input3} for {self}"
        ),
    )
    check(
        self.dtype is input3.dtype,
        lambda: f"{name}: Expected input and other to have the same dtype; got {self}, {input3}",
    )
    check_lapack("ormqr_cpu", self)
    return column_major(input3, input3.shape)


@ormqr.kernel
@on_host
def ormqr_kernel(
    xp: ModuleType, self: Array, input2: Array, input3: Array, left: bool, transpose: bool
) -> Array:
    if not input3.size or not input2.size:
        return input3
    batch, k = input3.shape[:-2], input2.shape[-1]
    side = "L" if left else "R"
    turned = ("C" if self.dtype.kind == "c" else "T") if transpose else "N"
    # LAPACK's least workspace times a block of columns, and what it keeps of that block's factor.
    work = _BLOCK * max(input3.shape[-2:]) + 65 * _BLOCK
    loops = loops_of_matrices(batch, self, input2, input3)
    if loops is not None:
        reflectors, columns = by_columns(self[..., :k], batch), by_columns(input3, batch)
        count, (m, n) = len(columns), input3.shape[-2:]
        taus = np.ascontiguousarray(input2).reshape(count, k)
        memory = scratch(count, work, self.dtype), work, np.empty(count, np.int32)
        given = (m, n, k, reflectors, self.shape[-2], taus, columns, m, *memory)
        loops.for_each(_named("ormqr", self), self, count, side, turned, *given)
        return by_rows(columns, batch)
    multiply = _lapack("ormqr", self)

    def one(a: Array, t: Array, c: Array) -> Array:
        return multiply(side, turned, column_major_array(a[:, :k]), t, c, work)[0]

    found = each(one, batch, (self, 2), (input2, 1), (input3, 2))
    return stacked(found, input3.shape, input3.dtype)


def _check_exact(name: str, result: dtype, out: dtype) -> None:
    check(
        result is out,
        lambda: (
            f"torch.{name}: Expected input and result to have the same dtype, but input has "
            f"{result.scalar_name} and result has {out.scalar_name}"
        ),
    )


late_out(ormqr, 1, _check_exact)


@ormqr.derivative("self", "input2", "input3")
def ormqr_grad(
    grad: Tensor,
    self: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: bool,
    transpose: bool,
    needs: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    other = ormqr(self, input2, grad, left, not transpose) if needs[2] else None
    if not (needs[0] or needs[1]) or not self.meta.numel or not input2.meta.numel:
        return None, None, other
    compact = _Compact.of(self, input2)
    V, T = compact.V, compact.T
    # Of Re<grad, op(Q) C> the changing part is -Re<M, V T V^H>, where M is grad C^H for Q on the
    # left, C^H grad for Q on the right, and M^H where Q is transposed.
    M = _Outer(grad, input3) if left else _Outer(input3.mH, grad.mH)
    if transpose:
        M = M.dagger()
    along = -M.times(V)
    by_V, by_tau = compact.grad(along @ T.mH - M.dagger().times(V @ T), V.mH @ along)
    return _into_columns(by_V, self.meta), by_tau, other


ormqr.batching(leading_matrices)


class _Outer:
    """The matrix ``a b^H``, which is not formed."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a, self.b = a, b

    def times(self, columns: Tensor) -> Tensor:
        return self.a @ (self.b.mH @ columns)

    def dagger(self) -> _Outer:
        return _Outer(self.b, self.a)
