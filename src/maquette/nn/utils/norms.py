"""Arithmetic of normalized weights: norms along one dimension, the largest singular value."""

from __future__ import annotations

from maquette.api import functions as mq
from maquette.nn import functional as F
from maquette.tensor import Tensor


def norm_except_dim(weight: Tensor, dim: int | None) -> Tensor:
    """Norms over every dimension but `dim`, which are kept as 1; None or -1: one norm of all."""
    normed: Tensor = mq.norm_except_dim(weight, 2, -1 if dim is None else dim)
    return normed


def weight_normed(direction: Tensor, length: Tensor, dim: int | None) -> Tensor:
    """`direction` scaled to `length` along `dim`."""
    normed: Tensor = mq._weight_norm(direction, length, -1 if dim is None else dim)
    return normed


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """(size of dim, all others): the weight as the matrix whose singular values count."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.flatten(1)


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> None:
    """Bring u and v, in place, closer to the singular vectors of the largest singular value."""
    for _ in range(times):
        F.normalize(mq.mv(matrix, v), dim=0, eps=eps, out=u)
        F.normalize(mq.mv(matrix.mH, u), dim=0, eps=eps, out=v)
