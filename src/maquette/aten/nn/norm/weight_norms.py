"""Norms of weights: over all dimensions but one, and weights of a given length along it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.operators import aten
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import bfloat16, float32
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
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


# --- a weight of given lengths -------------------------------------------------------------------

_weight_norm_interface = define(
    "aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)"
)
_weight_norm_interface.describe(
    "``v`` scaled so that its norms over all dimensions but `dim`, the first or last, are ``g``; "
    "and what the norms were."
)


def _others(v: TensorMeta, dim: int) -> tuple[int, ...]:
    kept = wrap_dim(dim, v.ndim)
    return tuple(d for d in range(v.ndim) if d != kept)


@_weight_norm_interface.shape
def weight_norm_interface_shape(
    v: TensorMeta, g: TensorMeta, dim: int
) -> tuple[TensorMeta, TensorMeta]:
    check(
        wrap_dim(dim, v.ndim) in (0, v.ndim - 1),
        lambda: f"fused kernels can only be applied for first or last dim; got {dim} of {v}",
    )
    return v.fresh(v.shape), g.fresh(g.shape, float32 if g.dtype is bfloat16 else g.dtype)


@_weight_norm_interface.kernel
def weight_norm_interface_kernel(
    xp: ModuleType, v: Array, g: Array, dim: int
) -> tuple[Array, Array]:
    wide_v, others = wide(v), tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    norms = xp.sqrt(xp.sum(wide_v * wide_v, axis=others, keepdims=True))
    return wide_v * (wide(g) / norms), norms


@_weight_norm_interface.derivative("v", "g")
def weight_norm_interface_backward(
    grads: Sequence[Tensor | None], v: Tensor, g: Tensor, result1: Tensor, dim: int
) -> tuple[Tensor | None, Tensor | None]:
    """Along v, what is left of the gradient across it; along g, its part in v's direction."""
    grad = grads[0]
    if grad is None:
        return None, None
    norms = result1.to(g.dtype)
    shared = (grad * v).sum(_others(v.meta, dim), True) / norms
    return (g / norms) * (grad - v * (shared / norms)), shared


_weight_norm_interface.nondifferentiable(1)

_weight_norm = define("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor")


@_weight_norm.composite
def weight_norm_composite(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """By one operator where `dim` is the first or last, named from the front."""
    if v.meta.ndim and dim in (0, v.meta.ndim - 1):
        found: Tensor = _weight_norm_interface(v, g, dim)[0]
        return found
    scaled: Tensor = v * (g / norm_except_dim(v, 2, dim))
    return scaled
