"""Norms of weights: over all dimensions but one, and weights of a given length along it."""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.core.broadcast import wrap_dim
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

norm_except_dim = define("aten::norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor")
norm_except_dim.describe(
    "The norms of order `pow` over all dimensions but `dim`, which stay with size 1."
)


@norm_except_dim.composite
def norm_except_dim_composite(v: Tensor, pow: int, dim: int) -> Tensor:
    """Norms over every dimension but `dim`, which are kept as 1; -1: one norm of all."""
    if dim == -1:
        whole: Tensor = v.norm(pow)
        return whole
    if v.meta.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    kept = wrap_dim(dim, v.meta.ndim)
    others = [d for d in range(v.meta.ndim) if d != kept]
    if not others:
        return v.abs()
    norms: Tensor = aten.linalg_vector_norm(v, pow, others, True)
    return norms


define("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor").composite(
    lambda v, g, dim: v * (g / norm_except_dim(v, 2, dim))
)
