"""`torch.svd_lowrank` and `pca_lowrank`: the largest singular values by random projections.

Halko, Martinsson and Tropp, "Finding structure with randomness", 2011, algorithms 4.4 and 5.1.
"""

from __future__ import annotations

from maquette.api import functions as mq
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
