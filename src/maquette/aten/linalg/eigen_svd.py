"""Factorizations by spectrum and orthogonal factors: SVD, QR, and eigenvalues.

Vectors are unique up to a sign (complex: a phase), so that gradients are those of functions that do
not depend on it. Factors are column-major, except the right factor of an SVD that is reduced.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import eigh, eigvalsh, on_host
from maquette.aten.common.batching_forms import leading_matrices
from maquette.aten.common.operators import aten
from maquette.aten.linalg.factorizations import (
    LinAlgError,
    check_inexact,
    check_matrix,
    check_square,
    column_major,
    identity,
    routine,
)
from maquette.aten.view.copies import write_exact_out, write_out, write_outs
from maquette.aten.view.joining import cat
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import smaller
from maquette.core.warned import warn_once
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.storage import nobody_watches
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

Metas = tuple[TensorMeta, ...]
Arrays = tuple[Array, ...]
Grads = list[Tensor | None]

_LARGE_MATRIX = 32  # rows from which single precision is worth a wrapper's call of 10 us


# --- singular values -----------------------------------------------------------------

_SVD = "Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None"
_SVD_OUT = "Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh"
_SVD_WRITTEN = "(Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)"
_linalg_svd = define(
    f"aten::_linalg_svd({_SVD}) -> (Tensor U, Tensor S, Tensor Vh)",
    variants=[f"aten::_linalg_svd.U({_SVD}, {_SVD_OUT}) -> {_SVD_WRITTEN}"],
).exact_out()


@_linalg_svd.shape
def svd_shape(A: TensorMeta, full_matrices: bool, compute_uv: bool, driver: str | None) -> Metas:
    check_inexact("linalg.svd", A)
    check_matrix("linalg.svd", A)
    check(
        driver is None,
        lambda: (
            f"torch.linalg.svd: keyword argument `driver=` is only supported on CUDA; got "
            f"{driver!r}"
        ),
    )
    *batch, m, n = A.shape
    k = smaller(m, n)
    values = A.fresh((*batch, k), A.dtype.to_real())
    if not compute_uv:
        return A.fresh((0,)), values, A.fresh((0,))
    left = column_major(A, (*batch, m, m if full_matrices else k))
    right = column_major(A, (*batch, n if full_matrices else k, n))
    return left, values, right


@_linalg_svd.kernel
def svd_kernel(
    xp: ModuleType, A: Array, full_matrices: bool, compute_uv: bool, driver: str | None
) -> Arrays:
    none = xp.zeros(0, A.dtype)
    real = A.real.dtype
    *batch, m, n = A.shape
    if not A.size:
        values = xp.zeros((*batch, smaller(m, n)), real)
        if not compute_uv:
            return none, values, none
        k = smaller(m, n)
        left = identity(xp, A, (*batch, m, m if full_matrices else k))
        return left, values, identity(xp, A, (*batch, n if full_matrices else k, n))
    lost = _infinite(A) if xp is np else None
    if lost is not None:
        A = np.where(lost[..., None, None], A.dtype.type(0), A)
    try:
        if not compute_uv:
            return none, _unless(xp, lost, xp.linalg.svd(A, compute_uv=False)), none
        found = xp.linalg.svd(A, full_matrices=full_matrices)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated singular values"
        ) from None
    left, values, right = (_unless(xp, lost, part) for part in found)
    return left, values, right


def _infinite(A: Array) -> Array | None:
    """Which matrices have infinite elements; None where none has. NaN is refused.

    Such a matrix has no singular values, and LAPACK would look for them without an end.
    """
    finite = np.isfinite(A).all((-2, -1))
    if finite.all():
        return None
    if np.isnan(A).any():
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix contained "
            "non-finite values."
        )
    return np.asarray(~finite)


def _unless(xp: ModuleType, lost: Array | None, part: Array) -> Array:
    """A part of the result; NaN for the matrices that are lost."""
    if lost is None:
        return part
    where = lost.reshape(lost.shape + (1,) * (part.ndim - lost.ndim))
    return xp.where(where, part.dtype.type(float("nan")), part)


def _gaps(values: Tensor) -> Tensor:
    """The differences ``v[j] - v[i]``, 1 on the diagonal."""
    apart = values.unsqueeze(-2) - values.unsqueeze(-1)
    return apart + _eye(apart)


def _eye(t: Tensor) -> Tensor:
    return t.new_ones((t.meta.shape[-1],)).diag_embed()


def _off_diagonal(t: Tensor) -> Tensor:
    return t * (1 - _eye(t))


@_linalg_svd.derivative("A")
def svd_grad(
    grads: Grads,
    full_matrices: bool,
    compute_uv: bool,
    result0: Tensor,
    result1: Tensor,
    result2: Tensor,
) -> tuple[Tensor]:
    # The matrix itself is not saved: it may be written to afterwards, as in PyTorch.
    check(
        compute_uv,
        lambda: (
            "_linalg_svd: singular values have a gradient where vectors are computed too; got "
            "compute_uv=False. linalg_svdvals computes them where they will be needed."
        ),
    )
    k = result1.meta.shape[-1]
    left, right = result0, result2
    if full_matrices:
        left, right = left.narrow(-1, 0, k), right.narrow(-2, 0, k)
    by_left, by_values, by_right = grads
    if full_matrices:
        # What comes back for vectors beyond the singular values is dropped, as in PyTorch: those
        # are determined up to a rotation only.
        by_left = None if by_left is None else by_left.narrow(-1, 0, k)
        by_right = None if by_right is None else by_right.narrow(-2, 0, k)
    return (_svd_grad([by_left, by_values, by_right], left, result1, right),)


_linalg_svd.batching(leading_matrices)


def _check_phases(name: str, what: str, *turns: Tensor | None) -> None:
    """Refuse a loss that depends on the phases of complex vectors, which nothing determines.

    turns: products of vectors with their gradients. Numbers are looked at only where nobody would
    see it: neither fakes nor traces have any.
    """
    given = [t for t in turns if t is not None and t.is_complex() and t._mq_data is not None]
    if not given or any(t.fake_mode is not None for t in given) or not nobody_watches():
        return
    phases = sum(t.detach().diagonal(0, -2, -1).imag for t in given)
    check(
        bool(aten.all(phases.abs() <= 1e-2)),
        lambda: (
            f"{name}: The {what} in the complex case are specified up to multiplication by e^{{i "
            f"phi}}. The specified loss function depends on this quantity, so it is ill-defined."
        ),
    )


def _svd_grad(grads: Grads, left: Tensor, values: Tensor, right: Tensor) -> Tensor:
    along_left, along_values, along_right = grads
    m, n, k = left.meta.shape[-2], right.meta.shape[-1], values.meta.shape[-1]
    if along_left is None and along_right is None and along_values is not None:
        if m >= n:
            return left @ (along_values.unsqueeze(-1) * right)
        return (left * along_values.unsqueeze(-2)) @ right
    core = left.new_zeros((*values.meta.shape, values.meta.shape[-1]))
    gaps = _gaps(values * values)
    row, column = values.unsqueeze(-2), values.unsqueeze(-1)
    by_left = None if along_left is None else left.mH @ along_left
    by_right = None if along_right is None else right @ along_right.mH
    _check_phases("svd_backward", "singular vectors", by_left, by_right)
    if along_values is not None:
        core = core + along_values.diag_embed()
    if by_left is not None:
        turn = by_left - by_left.mH
        core = core + _off_diagonal(turn) / gaps * row
        if left.is_complex():
            phase = turn.diagonal(0, -2, -1) / (2 * values)
            core = core + phase.diag_embed()
    if by_right is not None:
        turn = by_right - by_right.mH
        core = core + column * (_off_diagonal(turn) / gaps)
    whole = left @ core @ right
    if along_left is not None and m > k:
        rest = along_left - left @ (left.mH @ along_left)
        whole = whole + (rest / row) @ right
    if along_right is not None and n > k:
        rest = along_right - (along_right @ right.mH) @ right
        whole = whole + left @ (rest / column)
    return whole


linalg_svd = define(
    "aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) "
    "-> (Tensor U, Tensor S, Tensor Vh)"
)
linalg_svd.describe("Factors U, singular values S, falling, and Vh of matrices.")
linalg_svd.autocast(cpu="float32")
linalg_svd.composite(
    lambda A, full_matrices, driver: _linalg_svd(A, full_matrices, True, driver=driver)
)
linalg_svd_out = define(
    f"aten::linalg_svd.U(Tensor A, bool full_matrices=True, *, str? driver=None, {_SVD_OUT}) "
    f"-> {_SVD_WRITTEN}",
    tags=[Tag.out],
)


@linalg_svd_out.composite
def svd_out_composite(
    A: Tensor, full_matrices: bool, driver: str | None, U: Tensor, S: Tensor, Vh: Tensor
) -> tuple[Tensor, ...]:
    results: tuple[Tensor, ...] = _linalg_svd.variants[0](
        A, full_matrices, True, driver=driver, U=U, S=S, Vh=Vh
    )
    return results


def singular_values(A: Tensor, driver: str | None = None) -> Tensor:
    """Singular values alone; vectors are made only where a gradient will need them."""
    values: Tensor = _linalg_svd(A, False, wants_derivative(A), driver=driver)[1]
    return values


linalg_svdvals = define("aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor")
linalg_svdvals.describe(
    "The singular values of matrices [..., m, n], falling: real, [..., min(m, n)]."
)
linalg_svdvals.autocast(cpu="float32")
linalg_svdvals.composite(singular_values)
linalg_svdvals_out = define(
    "aten::linalg_svdvals.out(Tensor A, *, str? driver=None, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
linalg_svdvals_out.composite(
    lambda A, driver, out: write_exact_out(out, singular_values(A, driver))
)

svd = define(
    "aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"
)
svd.describe("Factors U, singular values S, falling, and V of matrices: ``U @ diag(S) @ V^H``.")
svd.autocast(cpu="float32")
svd_out = define(
    "aten::svd.U(Tensor self, bool some=True, bool compute_uv=True, *, Tensor(a!) U, "
    "Tensor(b!) S, Tensor(c!) V) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) V)",
    tags=[Tag.out],
)


@svd.composite
def svd_composite(self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, Tensor, Tensor]:
    check_matrix("svd", self.meta)
    if compute_uv:
        left, values, right = _linalg_svd(self, not some, True)
        return left, values, right.mH
    *batch, m, n = self.meta.shape
    return self.new_zeros((*batch, m, m)), singular_values(self), self.new_zeros((*batch, n, n))


@svd_out.composite
def svd_old_out_composite(
    self: Tensor, some: bool, compute_uv: bool, U: Tensor, S: Tensor, V: Tensor
) -> tuple[Tensor, ...]:
    results = svd_composite(self, some, compute_uv)
    return write_outs((U, S, V), results, write_exact_out)


# --- orthogonal and triangular -------------------------------------------------------

_QR_WRITTEN = "(Tensor(a!) Q, Tensor(b!) R)"
linalg_qr = define(
    'aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
    variants=[
        'aten::linalg_qr.out(Tensor A, str mode="reduced", *, Tensor(a!) Q, Tensor(b!) R) '
        f"-> {_QR_WRITTEN}"
    ],
).exact_out()
linalg_qr.describe(
    'Factors Q, orthonormal, and R, upper triangular, of matrices; mode "complete" gives a '
    "square Q."
)
linalg_qr.autocast(cpu="float32")


@linalg_qr.shape
def qr_shape(A: TensorMeta, mode: str) -> Metas:
    check_matrix("linalg.qr", A)
    check_inexact("linalg.qr", A)
    check(
        mode in ("reduced", "complete", "r"),
        lambda: (
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            f"or 'complete'"
        ),
    )
    *batch, m, n = A.shape
    k = m if mode == "complete" else smaller(m, n)
    first = A.fresh((0,)) if mode == "r" else column_major(A, (*batch, m, k))
    return first, column_major(A, (*batch, k, n))


@linalg_qr.kernel
def qr_kernel(xp: ModuleType, A: Array, mode: str) -> Arrays:
    if mode == "r":
        return xp.zeros(0, A.dtype), xp.linalg.qr(A, mode="r")
    first, second = xp.linalg.qr(A, mode=mode)
    return first, second


@linalg_qr.derivative("A")
def qr_grad(grads: Grads, mode: str, result0: Tensor, result1: Tensor) -> tuple[Tensor]:
    check(
        mode != "r",
        lambda: (
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to differentiate through "
            "linalg.qr."
        ),
    )
    m, n = result0.meta.shape[-2], result1.meta.shape[-1]
    check(
        mode != "complete" or m <= n,
        lambda: (
            f"The QR decomposition is not differentiable when mode='complete' and nrows > ncols; "
            f"got {m} by {n}"
        ),
    )
    if m >= n:
        return (_tall_qr_grad(grads[0], grads[1], result0, result1),)
    first = result0.new_zeros(result0.meta.shape) if grads[0] is None else grads[0]
    second = result1.new_zeros(result1.meta.shape) if grads[1] is None else grads[1]
    # R = [U | V] with U square: A = [X | Y], where X = QU and Y = QV.
    beside = second.narrow(-1, m, n - m)
    by_beside = result0 @ beside
    square = result1.narrow(-1, 0, m)
    other = result0 @ result1.narrow(-1, m, n - m)
    first = first + other @ beside.mH
    before = _tall_qr_grad(first, second.narrow(-1, 0, m), result0, square)
    return (cat([before, by_beside], -1),)


linalg_qr.batching(leading_matrices)


def _tall_qr_grad(first: Tensor | None, second: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    """The gradient of a matrix with no more columns than rows."""
    turn = None if first is None else q.mH @ first
    if second is None:
        assert turn is not None
        upper = (-turn).triu()
    else:
        along = second @ r.mH
        upper = (along if turn is None else along - turn).triu()
    symmetric = upper + upper.mH
    aten.mul_.Scalar(symmetric.diagonal(0, -2, -1), 0.5)
    # X R^-H, from R Y = X^H.
    right = q @ symmetric if first is None else first + q @ symmetric
    whole: Tensor = aten.linalg_solve_triangular(r.mH, right, upper=False, left=False)
    return whole


qr = define("aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)")
qr.describe(
    "Factors Q, orthonormal, and R, upper triangular, of matrices; `some` leaves out needless"
    " columns."
)
qr.autocast(cpu="float32")


@qr.composite
def qr_composite(self: Tensor, some: bool) -> object:
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release."
    )
    return linalg_qr(self, "reduced" if some else "complete")


qr_out = define(
    f"aten::qr.Q(Tensor self, bool some=True, *, Tensor(a!) Q, Tensor(b!) R) -> {_QR_WRITTEN}",
    tags=[Tag.out],
)
qr_out.composite(
    lambda self, some, Q, R: linalg_qr.variants[0](
        self, "reduced" if some else "complete", Q=Q, R=R
    )
)


# --- eigenvalues of Hermitian matrices -----------------------------------------------

_PAIR = "(Tensor eigenvalues, Tensor eigenvectors)"
_PAIR_WRITTEN = "(Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)"
_EIGH = 'Tensor A, str UPLO="L", bool compute_v=True'
_linalg_eigh = define(
    f"aten::_linalg_eigh({_EIGH}) -> {_PAIR}",
    variants=[
        f"aten::_linalg_eigh.eigenvalues({_EIGH}, *, Tensor(a!) eigenvalues, "
        f"Tensor(b!) eigenvectors) -> {_PAIR_WRITTEN}"
    ],
).exact_out()


@_linalg_eigh.shape
def eigh_shape(A: TensorMeta, UPLO: str, compute_v: bool) -> Metas:
    check_square("linalg.eigh", A)
    check_inexact("linalg.eigh", A)
    check(
        UPLO.upper() in ("L", "U"),
        lambda: f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}",
    )
    values = A.fresh(A.shape[:-1], A.dtype.to_real())
    return values, column_major(A, A.shape) if compute_v else A.fresh((0,))


@_linalg_eigh.kernel
def eigh_kernel(xp: ModuleType, A: Array, UPLO: str, compute_v: bool) -> Arrays:
    try:
        if not compute_v:
            return eigvalsh(xp, A, UPLO.upper()), xp.zeros(0, A.dtype)
        values, vectors = eigh(xp, A, UPLO.upper())
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated eigenvalues"
        ) from None
    return values, vectors


@_linalg_eigh.derivative("A")
def eigh_grad(grads: Grads, compute_v: bool, result0: Tensor, result1: Tensor) -> tuple[Tensor]:
    check(
        compute_v,
        lambda: (
            "_linalg_eigh: eigenvalues have a gradient where vectors are computed too; got "
            "compute_v=False. linalg_eigvalsh computes them where they will be needed."
        ),
    )
    values, vectors = result0, result1
    if grads[1] is None and grads[0] is not None:
        turned = vectors.mH
        return ((vectors * grads[0].unsqueeze(-2)) @ turned,)
    core = vectors.new_zeros(vectors.meta.shape)
    if grads[0] is not None:
        core = core + grads[0].diag_embed()
    if grads[1] is not None:
        turn = vectors.mH @ grads[1]
        _check_phases("linalg_eigh_backward", "eigenvectors", turn)
        # Only Hermitian changes of A are known, so the gradient is Hermitian, too.
        core = core + _off_diagonal(turn - turn.mH) / (2 * _gaps(values))
    return (vectors @ core @ vectors.mH,)


_linalg_eigh.batching(leading_matrices)


linalg_eigh = define(f'aten::linalg_eigh(Tensor self, str UPLO="L") -> {_PAIR}')
linalg_eigh.describe(
    "Eigenvalues, rising, and eigenvectors of Hermitian matrices, of which one triangle is read."
)
linalg_eigh.autocast(cpu="float32")
linalg_eigh.composite(lambda self, UPLO: _linalg_eigh(self, UPLO, True))
linalg_eigh_out = define(
    'aten::linalg_eigh.eigvals(Tensor self, str UPLO="L", *, Tensor(a!) eigvals, '
    f"Tensor(b!) eigvecs) -> {_PAIR_WRITTEN}",
    tags=[Tag.out],
)
linalg_eigh_out.composite(
    lambda self, UPLO, eigvals, eigvecs: _linalg_eigh.variants[0](
        self, UPLO, True, eigenvalues=eigvals, eigenvectors=eigvecs
    )
)


def hermitian_values(self: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues alone; vectors are made only where a gradient will need them."""
    values: Tensor = _linalg_eigh(self, UPLO, wants_derivative(self))[0]
    return values


linalg_eigvalsh = define('aten::linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor')
linalg_eigvalsh.describe("The eigenvalues of Hermitian matrices, rising: real, [..., n].")
linalg_eigvalsh.autocast(cpu="float32")
linalg_eigvalsh.composite(hermitian_values)
linalg_eigvalsh_out = define(
    'aten::linalg_eigvalsh.out(Tensor self, str UPLO="L", *, Tensor(a!) out) -> Tensor(a!)',
    tags=[Tag.out],
)
linalg_eigvalsh_out.composite(
    lambda self, UPLO, out: write_exact_out(out, hermitian_values(self, UPLO))
)


# --- eigenvalues of any square matrices ----------------------------------------------

linalg_eig = define(
    f"aten::linalg_eig(Tensor self) -> {_PAIR}",
    variants=[
        "aten::linalg_eig.out(Tensor self, *, Tensor(a!) eigenvalues, Tensor(b!) eigenvectors) "
        f"-> {_PAIR_WRITTEN}"
    ],
)
linalg_eig.describe(
    "Eigenvalues and eigenvectors of square matrices [..., n, n]: complex, [..., n] and [...,"
    " n, n]."
)
linalg_eig.autocast(cpu="float32")


@linalg_eig.shape
def eig_shape(self: TensorMeta) -> Metas:
    return _eig_shape("linalg.eig", self)


def _check_eig(name: str, self: TensorMeta) -> None:
    check_square(name, self)
    check_inexact(name, self)


def _eig_shape(name: str, self: TensorMeta) -> Metas:
    _check_eig(name, self)
    kind = self.dtype.to_complex()
    return self.fresh(self.shape[:-1], kind), column_major(self, self.shape, kind)


def _check_finite(xp: ModuleType, matrices: Array) -> None:
    check(
        bool(xp.isfinite(matrices).all()),
        lambda: "torch.linalg.eig: input tensor should not contain infs or NaNs.",
    )


@linalg_eig.kernel
@on_host
def eig_kernel(xp: ModuleType, self: Array) -> Arrays:
    if not self.size:
        return xp.zeros(self.shape[:-1]), self
    _check_finite(xp, self)
    try:
        values, vectors = xp.linalg.eig(self)
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.eig: The algorithm failed to converge") from None
    return values, vectors


@linalg_eig.derivative("self")
def eig_grad(
    grads: Grads, self_meta: TensorMeta, result0: Tensor, result1: Tensor
) -> tuple[Tensor]:
    if grads[1] is None and grads[0] is not None:
        turned = result1.mH
        scaled = grads[0].unsqueeze(-1) * turned
        whole = aten.linalg_solve(result1.mH, scaled)
        return (whole if self_meta.dtype.is_complex else whole.real,)
    core = result1.new_zeros(result1.meta.shape)
    if grads[0] is not None:
        core = core + grads[0].diag_embed()
    if grads[1] is not None:
        along = result1.mH @ grads[1]
        _check_phases("linalg_eig_backward", "eigenvectors", along)
        # Vectors have length one: what would stretch them is taken out.
        stretch = (result1.mH @ result1) * along.diagonal(0, -2, -1).real.unsqueeze(-2)
        core = core + _off_diagonal(along - stretch) / _gaps(result0).conj()
    whole = aten.linalg_solve(result1.mH, core @ result1.mH)
    return (whole if self_meta.dtype.is_complex else whole.real,)


linalg_eig.batching(leading_matrices)


_linalg_eigvals = define("aten::_linalg_eigvals(Tensor self) -> Tensor")
_linalg_eigvals.describe("The eigenvalues of square matrices, without a derivative.")
_linalg_eigvals.shape(lambda self: _eig_shape("linalg.eigvals", self)[0])


@_linalg_eigvals.kernel
@on_host
def eigvals_kernel(xp: ModuleType, self: Array) -> Array:
    if not self.size:
        return xp.zeros(self.shape[:-1])
    _check_finite(xp, self)
    try:
        values: Array = _single_values(self) if _is_large(self) else xp.linalg.eigvals(self)
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.eig: The algorithm failed to converge") from None
    return values


def _is_large(self: Array) -> bool:
    """Whether NumPy, which computes in double precision, takes longer than SciPy's wrappers."""
    return self.dtype.char in "fF" and self.shape[-1] >= _LARGE_MATRIX


def _single_values(self: Array) -> Array:
    geev = routine("geev", self)
    found = []
    for matrix in self.reshape(-1, *self.shape[-2:]):
        *parts, _, _, info = geev(matrix, compute_vl=0, compute_vr=0)
        if info:
            raise np.linalg.LinAlgError
        found.append(parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1])
    return np.stack(found).reshape(self.shape[:-1])


def eigenvalues(self: Tensor) -> Tensor:
    """Eigenvalues alone: without vectors where nobody sees the difference or wants derivatives."""
    _check_eig("linalg.eigvals", self.meta)  # in this name, whichever operator computes
    recorded = is_grad_enabled() and wants_derivative(self)
    if nobody_watches() and not self._class_bits and not recorded:
        alone: Tensor = _linalg_eigvals(self)
        return alone
    values: Tensor = linalg_eig(self)[0]
    return values


linalg_eigvals = define("aten::linalg_eigvals(Tensor self) -> Tensor")
linalg_eigvals.describe("The eigenvalues of square matrices [..., n, n]: complex, [..., n].")
linalg_eigvals.autocast(cpu="float32")
linalg_eigvals.composite(eigenvalues)
linalg_eigvals.batching(leading_matrices)
linalg_eigvals_out = define(
    "aten::linalg_eigvals.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)
linalg_eigvals_out.composite(lambda self, out: write_out(out, eigenvalues(self)))
