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


by_vmap("native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward")
