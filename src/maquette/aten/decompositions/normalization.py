"""Normalization and its backward forms."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, by_vmap, decomposes


@decomposes("native_layer_norm", core=False)
def native_layer_norm(input: Any, shape: Ints, weight: Any, bias: Any, eps: float) -> Any:
    dims = list(range(input.ndim - len(shape), input.ndim))
    var, mean = aten.var_mean(input, dims, correction=0, keepdim=True)
    rstd = aten.rsqrt(var + eps)
    out = (input - mean) * rstd
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), mean, rstd


@decomposes("native_group_norm", core=False)
def native_group_norm(
    input: Any, weight: Any, bias: Any, n: int, c: int, hxw: int, group: int, eps: float
) -> Any:
    x = input.reshape([n, group, c // group * hxw])
    var, mean = aten.var_mean(x, [2], correction=0, keepdim=True)
    rstd = aten.rsqrt(var + eps)
    out = ((x - mean) * rstd).reshape(input.shape)
    along = [1, c, *[1] * (input.ndim - 2)]
    out = out if weight is None else out * weight.view(along)
    out = out if bias is None else out + bias.view(along)
    return out, mean.squeeze(2), rstd.squeeze(2)


@decomposes("native_layer_norm_backward")
def native_layer_norm_backward(
    grad: Any, x: Any, shape: Ints, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> tuple[Any, Any, Any]:
    inner = list(range(-len(shape), 0))
    outer = list(range(x.meta.ndim - len(shape)))
    normal = (x - mean) * rstd
    scaled = grad if weight is None else grad * weight
    dx = _by_input(scaled, normal, rstd, inner) if mask[0] else None
    dw = (grad * normal).sum(outer) if outer else grad * normal
    db = grad.sum(outer) if outer else grad.clone()
    has_weight = mask[1] and weight is not None
    return dx, dw if has_weight else None, db if mask[2] and bias is not None else None


@decomposes("native_batch_norm_backward")
def native_batch_norm_backward(
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    mask: Any,
) -> tuple[Any, Any, Any]:
    over = [0, *range(2, x.meta.ndim)]
    shape = [1, -1, *[1] * (x.meta.ndim - 2)]
    mean = save_mean if train else running_mean
    rstd = (save_invstd if train else aten.rsqrt(running_var + eps)).reshape(shape)
    normal = (x - mean.reshape(shape)) * rstd
    scaled = grad if weight is None else grad * weight.reshape(shape)
    dx = None
    if mask[0]:
        dx = _by_input(scaled, normal, rstd, over) if train else scaled * rstd
    dw = (grad * normal).sum(over) if mask[1] else None
    return dx, dw, grad.sum(over) if mask[2] else None


def _by_input(scaled: Any, normal: Any, rstd: Any, over: list[int]) -> Any:
    """The gradient by what was normalized over dimensions, where its moments follow it."""
    along = normal * (scaled * normal).mean(over, True)
    return (scaled - scaled.mean(over, True) - along) * rstd


by_vmap("native_group_norm_backward")
