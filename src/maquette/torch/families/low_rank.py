"""A few of many singular or eigenvalues: `torch.svd_lowrank`, `pca_lowrank` and `lobpcg`.

The first two are random projections: Halko, Martinsson and Tropp, "Finding structure with
randomness", 2011, algorithms 4.4 and 5.1. The third takes its share of all eigenvalues.
"""

from __future__ import annotations

from maquette.api import functions as mq
from maquette.core.layout import strided
from maquette.dispatch.torch_function import overridable
from maquette.tensor.tensor import Tensor

Factors = tuple[Tensor, Tensor, Tensor]


def get_approximate_basis(
    A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None
) -> Tensor:
    """(*, m, q): an orthonormal basis of nearly the range of A, or of A - M; (*, m, n)."""
    matrix = A if M is None else A - M
    probes = mq.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis: Tensor = mq.linalg_qr(matrix @ probes)[0]
    for _ in range(2 if niter is None else niter):
        basis = mq.linalg_qr(matrix.mH @ basis)[0]
        basis = mq.linalg_qr(matrix @ basis)[0]
    return basis


@overridable
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> Factors:
    """U (*, m, q), S (*, q), V (*, n, q) of nearly ``U diag(S) V^H``, of A or of A - M."""
    rank = 6 if q is None else q
    matrix = A if M is None else A - M
    tall = matrix.shape[-2] >= matrix.shape[-1]
    matrix = matrix if tall else matrix.mH
    basis = get_approximate_basis(matrix, rank, niter)
    u, s, vh = mq.linalg_svd(basis.mH @ matrix, full_matrices=False)
    left, right = basis @ u, vh.mH
    return (left, s, right) if tall else (right, s, left)


@overridable
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Factors:
    """`svd_lowrank` of the rows of A, centered unless told not to; q: at most 6 by default."""
    rows, columns = A.shape[-2:]
    rank = min(6, rows, columns) if q is None else q
    if not 0 <= rank <= min(rows, columns):
        raise ValueError(
            f"q(={rank}) must be non-negative integer and not greater than "
            f"min(m, n)={min(rows, columns)}"
        )
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, rank, niter)


def _dense(matrix: Tensor) -> Tensor:
    return matrix if matrix.layout is strided else matrix.to_dense()


@overridable
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: object | None = None,
    ortho_iparams: object | None = None,
    ortho_fparams: object | None = None,
    ortho_bparams: object | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest, or smallest, eigenvalues of A x = e B x [..., k], with their vectors.

    A is symmetric and B symmetric and positive definite, dense or sparse, [..., m, m]; k is 1, or
    as many as X has columns. All eigenvalues are computed, so that starting vectors, numbers of
    steps and tolerances change nothing, and no tracker is called.

    Raises ValueError where m is less than 3 k, as the method of that name asks for.
    """
    size = A.shape[-1]
    count = k if k is not None else 1 if X is None else X.shape[-1]
    if size < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={size}) is smaller "
            f"than 3 x the number of requested eigenpairs (={count}); use torch.linalg.eigh"
        )
    dense = _dense(A)
    if B is None:
        values, vectors = mq.linalg_eigh(dense)
    else:
        factor = mq.linalg_cholesky(_dense(B))
        half = mq.linalg_solve_triangular(factor, dense, upper=False)
        whole = mq.linalg_solve_triangular(factor.mT, half, upper=True, left=False)
        values, vectors = mq.linalg_eigh(whole)
        vectors = mq.linalg_solve_triangular(factor.mT, vectors, upper=True)
    if largest is None or largest:
        return values[..., -count:].flip(-1), vectors[..., -count:].flip(-1)
    return values[..., :count], vectors[..., :count]
