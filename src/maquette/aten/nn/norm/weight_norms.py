"""Norms of weights: over all dimensions but one, and weights of a given length along it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.backward_checks import check_sizes
from maquette.aten.common.operators import aten
from maquette.autograd.grad_mode import is_grad_enabled
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
        whole: Tensor = aten.norm.Scalar(v, pow)
        return whole
    if v.meta.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    kept, last = wrap_dim(dim, v.meta.ndim), v.meta.ndim - 1
    if kept not in (0, last):
        return norm_except_dim_composite(v.transpose(0, kept), pow, 0).transpose(0, kept)
    size = v.meta.shape[kept]
    rows, over = ((size, -1), 1) if kept == 0 else ((-1, size), 0)
    norms: Tensor = aten.norm.ScalarOpt_dim(v.contiguous().view(rows), pow, [over])
    return norms.view([size if d == kept else 1 for d in range(v.meta.ndim)])


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


@_weight_norm_interface.batching_decomposition
def weight_norm_interface_batching(v: Tensor, g: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    norms = norm_except_dim(v, 2, dim)
    assert isinstance(norms, Tensor)
    kept = norms.to(float32) if g.dtype is bfloat16 else norms
    return v * (g / norms), kept


_BACKWARD = "Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim"
_weight_norm_interface_backward = define(
    f"aten::_weight_norm_interface_backward({_BACKWARD}) -> (Tensor, Tensor)"
)
_weight_norm_interface_backward.describe(
    "The gradients of `_weight_norm_interface`: along v, what is left of the gradient across it; "
    "along g, its part in v's direction."
)


@_weight_norm_interface_backward.shape
def weight_norm_interface_backward_shape(
    grad_w: TensorMeta, saved_v: TensorMeta, saved_g: TensorMeta, saved_norms: TensorMeta, dim: int
) -> tuple[TensorMeta, TensorMeta]:
    check_sizes("_weight_norm_interface_backward", "a gradient", grad_w, saved_v.shape)
    return saved_v.like(), saved_g.like()


@_weight_norm_interface_backward.kernel
def weight_norm_interface_backward_kernel(
    xp: ModuleType, grad_w: Array, saved_v: Array, saved_g: Array, saved_norms: Array, dim: int
) -> tuple[Array, Array]:
    grad, v, g, norms = wide(grad_w), wide(saved_v), wide(saved_g), wide(saved_norms)
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    shared = xp.sum(grad * v, axis=others, keepdims=True) / norms
    return (g / norms) * (grad - v * (shared / norms)), shared


@_weight_norm_interface_backward.batching_decomposition
def weight_norm_interface_backward_batching(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """The same by operators, those of the norms among them: it can be differentiated."""
    norms = norm_except_dim(saved_v, 2, dim)
    assert isinstance(norms, Tensor)
    shared = (grad_w * saved_v).sum(_others(saved_v.meta, dim), True) / norms
    return (saved_g / norms) * (grad_w - saved_v * (shared / norms)), shared


@_weight_norm_interface.derivative("v", "g")
def weight_norm_interface_grad(
    grads: Sequence[Tensor | None], v: Tensor, g: Tensor, result1: Tensor, dim: int
) -> tuple[object, object]:
    """By one operator, or by differentiable ones where the gradient will be differentiated."""
    grad = grads[0]
    if grad is None:
        return None, None
    backward = (
        weight_norm_interface_backward_batching
        if is_grad_enabled()
        else _weight_norm_interface_backward
    )
    by_v, by_g = backward(grad.contiguous(), v, g, result1, dim)
    return by_v, by_g


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
