"""Folding an evaluated batch normalization into the convolution or dense layer before it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from maquette.api import functions as mq
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

T = TypeVar("T", bound=Module)


def fuse_conv_bn_eval(conv: T, bn: Module, transpose: bool = False) -> T:
    """A copy of the convolution that does what both did; RuntimeError unless in eval mode."""
    return _fused(conv, bn, fuse_conv_bn_weights, {"transpose": transpose})


def fuse_linear_bn_eval(linear: T, bn: Module) -> T:
    """A copy of the dense layer that does what both did; RuntimeError unless in eval mode."""
    return _fused(linear, bn, fuse_linear_bn_weights, {})


def _fused(layer: T, bn: Any, fuse: Any, options: dict[str, bool]) -> T:
    if layer.training or bn.training:
        raise RuntimeError("Fusion only for eval! Call .eval() on both modules first.")
    if bn.running_mean is None or bn.running_var is None:
        raise RuntimeError("fusion needs the running statistics of the batch normalization")
    copy: Any = deepcopy(layer)
    copy.weight, copy.bias = fuse(
        copy.weight,
        copy.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        **options,
    )
    fused: T = copy
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the two as one; transpose: the outputs are the weight's dimension 1."""
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the two as one."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _folded(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    bias = mq.zeros_like(mean) if bias is None else bias
    scale = mq.ones_like(mean) if scale is None else scale
    shift = mq.zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(bias.dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.detach(), bias.requires_grad),
    )
