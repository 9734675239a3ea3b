"""Linear algebra, as the array API standard has it.

What is here: the functions of the standard's main namespace on products, and those of its
``linalg`` extension. Nearly all are PyTorch's ``linalg`` by other names of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from maquette.api import functions as mq
from maquette.array_api.data_types import DType, promoted
from maquette.array_api.manipulation import broadcast_arrays, matrix_transpose
from maquette.array_api.statistics import sum as _sum
from maquette.core.broadcast import broadcast_shapes
from maquette.tensor.tensor import Tensor

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class Eigh(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """An orthonormal and an upper triangular factor."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """The sign and the logarithm of the magnitude of a determinant."""

    sign: Tensor
    logabsdet: Tensor


class SVD(NamedTuple):
    """Left vectors as columns, singular values, right vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices, or of vectors."""
    return mq.matmul(*promoted("matmul", x1, x2))


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The sum of products over axes of both."""
    left, right = promoted("tensordot", x1, x2)
    return mq.tensordot(left, right, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, the first array conjugated."""
    left, right = promoted("vecdot", x1, x2)
    if left.shape[axis] != right.shape[axis]:
        raise ValueError(
            f"vecdot: expected one size along axis {axis}, got shapes {tuple(left.shape)} and "
            f"{tuple(right.shape)}"
        )
    product = (left.conj() if left.dtype.is_complex else left) * right
    return _sum(product, axis=axis, dtype=product.dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix."""
    return mq.linalg_cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three."""
    left, right = promoted("cross", x1, x2)
    return mq.linalg_cross(*broadcast_arrays(left, right), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinant."""
    return mq.linalg_det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of each matrix."""
    return mq.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> Eigh:
    """Eigenvalues and eigenvectors of a Hermitian matrix."""
    return Eigh(*mq.linalg_eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of a Hermitian matrix."""
    return mq.linalg_eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverse matrix."""
    return mq.linalg_inv(x)


def matrix_norm(
    x: Tensor,
    /,
    *,
    keepdims: bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",  # the standard's name
) -> Tensor:
    """A norm of each matrix."""
    return mq.linalg_matrix_norm(x, "fro" if ord is None else ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix times itself."""
    return mq.linalg_matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values exceed ``rtol`` times the greatest."""
    return mq.linalg_matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of one vector and each of another."""
    return mq.outer(*promoted("outer", x1, x2))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The Moore-Penrose inverse."""
    return mq.linalg_pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """An orthonormal and a triangular factor."""
    return QR(*mq.linalg_qr(x, mode))


def slogdet(x: Tensor, /) -> Slogdet:
    """The sign and the logarithm of the magnitude of the determinant."""
    return Slogdet(*mq.linalg_slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of a system of linear equations; ``x2`` is a vector only if it has one axis."""
    left, right = promoted("solve", x1, x2)
    if right.ndim == 1:
        return mq.linalg_solve(left, right.unsqueeze(-1)).squeeze(-1)
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows, columns = right.shape[-2:]
    return mq.linalg_solve(left.expand(*batch, rows, rows), right.expand(*batch, rows, columns))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """Singular values and vectors."""
    return SVD(*mq.linalg_svd(x, full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending."""
    return mq.linalg_svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum along the diagonal of each matrix."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,  # the standard's name
) -> Tensor:
    """A norm of the elements along axes, of all together where none is named."""
    if axis == ():
        return mq.abs(x) if ord else (x != 0).to(mq.abs(x).dtype)
    return mq.linalg_vector_norm(x, float(ord), axis, keepdims)
