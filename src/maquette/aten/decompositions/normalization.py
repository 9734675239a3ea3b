"""Normalization and its backward forms."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.decompositions.rules import Ints, decomposes


@decomposes("native_layer_norm", core=False)
def native_layer_norm(input: Any, shape: Ints, weight: Any, bias: Any, eps: float) -> Any:
    dims = list(range(input.ndim - len(shape), input.ndim))
    var, mean = aten.var_mean(input, dims, correction=0, keepdim=True)
    rstd = aten.rsqrt(var + eps)
    out = (input - mean) * rstd
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), mean, rstd


@decomposes("native_layer_norm_backward")
def native_layer_norm_backward(
    grad: Any,
    input: Any,
    shape: Ints,
    mean: Any,
    rstd: Any,
    weight: Any,
    bias: Any,
    output_mask: tuple[bool, ...],
) -> Any:
    outer = list(range(input.ndim - len(shape)))
    inner = list(range(len(outer), input.ndim))
    x_hat = (input - mean) * rstd
    if not input.numel():
        zeros = aten.new_zeros(input, shape)
        return aten.zeros_like(input), *(_if(m, lambda: zeros) for m in output_mask[1:])
    scaled = grad if weight is None else grad * weight

    def for_input() -> Any:
        centred = scaled - scaled.mean(inner, True)
        return rstd * (centred - x_hat * (scaled * x_hat).mean(inner, True))

    return (
        _if(output_mask[0], for_input),
        _if(output_mask[1] and weight is not None, lambda: _summed(grad * x_hat, outer)),
        _if(output_mask[2] and bias is not None, lambda: _summed(grad, outer)),
    )


def _if(wanted: bool, value: Any) -> Any:
    return value() if wanted else None


def _summed(x: Any, dims: list[int]) -> Any:
    return x.sum(dims) if dims else x


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


@decomposes("native_group_norm_backward")
def native_group_norm_backward(
    grad: Any,
    input: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    n: int,
    c: int,
    hxw: int,
    group: int,
    output_mask: tuple[bool, ...],
) -> Any:
    x, g = input.reshape([n, group, c // group, hxw]), grad.reshape([n, group, c // group, hxw])
    x_hat = (x - mean.view([n, group, 1, 1])) * rstd.view([n, group, 1, 1])

    def for_input() -> Any:
        scaled = g if weight is None else g * weight.view([1, group, c // group, 1])
        centred = scaled - scaled.mean([2, 3], True)
        slope = centred - x_hat * (scaled * x_hat).mean([2, 3], True)
        return (slope * rstd.view([n, group, 1, 1])).reshape(input.shape)

    return (
        _if(output_mask[0], for_input),
        _if(output_mask[1], lambda: (g * x_hat).sum([0, 3]).reshape([c])),
        _if(output_mask[2], lambda: g.sum([0, 3]).reshape([c])),
    )


@decomposes("native_batch_norm_backward")
def native_batch_norm_backward(
    grad: Any,
    input: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: tuple[bool, ...],
) -> Any:
    along = [1, -1, *[1] * (input.ndim - 2)]
    dims = [d for d in range(input.ndim) if d != 1]
    if train:
        mean, invstd = save_mean, save_invstd
    else:
        mean, invstd = running_mean, aten.rsqrt(running_var + eps)
    mean, invstd = mean.view(along), invstd.view(along)
    x_hat = (input - mean) * invstd

    def for_input() -> Any:
        scale = invstd if weight is None else invstd * weight.view(along)
        if not train:
            return grad * scale
        centred = grad - grad.mean(dims, True)
        return (centred - x_hat * (grad * x_hat).mean(dims, True)) * scale

    return (
        _if(output_mask[0], for_input),
        _if(output_mask[1], lambda: (grad * x_hat).sum(dims)),
        _if(output_mask[2], lambda: grad.sum(dims)),
    )
