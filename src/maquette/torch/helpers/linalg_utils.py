"""`torch._linalg_utils`: products in which an operand may be left out, and old names."""

from __future__ import annotations

from maquette.api import functions as mq
from maquette.core.dtype import dtype, float16, float32, float64
from maquette.tensor.tensor import Tensor


def is_sparse(A: Tensor) -> bool:
    """Whether a tensor is sparse COO; TypeError for what is no tensor."""
    if not isinstance(A, Tensor):
        raise TypeError(f"expected Tensor but got {type(A)}")
    return bool(A.is_sparse)


def get_floating_dtype(A: Tensor) -> dtype:
    """The dtype in which to compute with A: its own, if it is of floats; float32 otherwise."""
    return A.dtype if A.dtype in (float16, float32, float64) else float32


def matmul(A: Tensor | None, B: Tensor) -> Tensor:
    """A @ B; B, if there is no A."""
    return B if A is None else A @ B


def bform(X: Tensor, A: Tensor | None, Y: Tensor) -> Tensor:
    """X^H @ A @ Y."""
    return matmul(X.mT, matmul(A, Y))


def qform(A: Tensor | None, S: Tensor) -> Tensor:
    """S^H @ A @ S."""
    return bform(S, A, S)


def basis(A: Tensor) -> Tensor:
    """An orthonormal basis of A's columns."""
    found: Tensor = mq.linalg_qr(A)[0]
    return found


def symeig(A: Tensor, largest: bool | None = False) -> tuple[Tensor, Tensor]:
    """The eigenvalues and vectors of a symmetric matrix, ascending or, ``largest``, descending."""
    values, vectors = mq.linalg_eigh(A)
    return (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
