"""Layer, group and RMS normalization: forward, backward, what users call.

The arithmetic is in `moments.py`; batch and instance norm are in `batch_norm.py`.
"""

from __future__ import annotations

from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.axes import Array, total
from maquette.aten.moments import (
    affine,
    check_floating,
    input_gradient,
    moments,
    parameter_dtype,
    second_gradients,
)
from maquette.aten.numeric import wide
from maquette.core.dtype import finfo, float32, float64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

Mask = tuple[bool, ...]
Maybe = TensorMeta | None
Grad = Tensor | None


# --- layer norm ----------------------------------------------------------------------


def check_normalized(
    input: TensorMeta, normalized_shape: tuple[int, ...], weight: Maybe, bias: Maybe
) -> None:
    """Refuse parameters, or an input, whose last sizes are not ``normalized_shape``."""
    wanted = tuple(normalized_shape)
    check(
        len(wanted) >= 1,
        lambda: (
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
            "least one element, but got normalized_shape = []"
        ),
    )
    for name, parameter in (("weight", weight), ("bias", bias)):
        check_parameter(name, parameter, wanted)
    check(
        input.ndim >= len(wanted) and input.shape[input.ndim - len(wanted) :] == wanted,
        lambda: (
            f"Given normalized_shape={list(wanted)}, expected input with shape "
            f"[*, {', '.join(map(str, wanted))}], but got input of size{list(input.shape)}"
        ),
    )


def check_parameter(name: str, parameter: Maybe, wanted: tuple[int, ...]) -> None:
    """Refuse a weight or bias of another shape than the normalized one."""
    check(
        parameter is None or parameter.shape == wanted,
        lambda: (
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{list(parameter.shape) if parameter else []} and normalized_shape = {list(wanted)}"
        ),
    )


native_layer_norm = define(
    "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, "
    "Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)


@native_layer_norm.shape
def native_layer_norm_shape(
    input: TensorMeta, normalized_shape: tuple[int, ...], weight: Maybe, bias: Maybe, eps: float
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    check_normalized(input, normalized_shape, weight, bias)
    check_floating("LayerNormKernelImpl", input)
    kept = input.ndim - len(normalized_shape)
    kind = parameter_dtype(input, (weight, bias))
    stats = input.fresh(input.shape[:kept] + (1,) * len(normalized_shape), kind)
    return input.fresh(input.shape), stats, stats


def _trailing(ndim: int, normalized_shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(ndim - len(normalized_shape), ndim))


@native_layer_norm.kernel
def native_layer_norm_kernel(
    xp: ModuleType,
    input: Array,
    normalized_shape: tuple[int, ...],
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> tuple[Array, Array, Array]:
    x = wide(input)
    mean, _, rstd = moments(xp, x, _trailing(x.ndim, normalized_shape), eps)
    return affine((x - mean) * rstd, weight, bias), mean, rstd


@native_layer_norm.derivative("input", "weight", "bias")
def native_layer_norm_grad(
    grad: Grad,
    input: Tensor,
    normalized_shape: tuple[int, ...],
    result1: Tensor,
    result2: Tensor,
    weight: Grad,
    bias: Grad,
    needs: list[bool],
) -> object:
    if grad is None:
        return None, None, None
    return native_layer_norm_backward(
        grad, input, normalized_shape, result1, result2, weight, bias, needs
    )


native_layer_norm.nondifferentiable(1, 2)
native_layer_norm.cost(lambda input, *rest: Cost(flops=8 * input.numel))

native_layer_norm_backward = define(
    "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
    "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)


@native_layer_norm_backward.shape
def native_layer_norm_backward_shape(
    grad_out: TensorMeta,
    input: TensorMeta,
    normalized_shape: tuple[int, ...],
    mean: TensorMeta,
    rstd: TensorMeta,
    weight: Maybe,
    bias: Maybe,
    output_mask: Mask,
) -> tuple[Maybe, Maybe, Maybe]:
    check_normalized(input, normalized_shape, weight, bias)
    return (
        input.fresh(input.shape) if output_mask[0] else None,
        weight.fresh(weight.shape) if output_mask[1] and weight is not None else None,
        bias.fresh(bias.shape) if output_mask[2] and bias is not None else None,
    )


@native_layer_norm_backward.kernel
def native_layer_norm_backward_kernel(
    xp: ModuleType,
    grad_out: Array,
    input: Array,
    normalized_shape: tuple[int, ...],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Mask,
) -> tuple[Array | None, Array | None, Array | None]:
    axes = _trailing(input.ndim, normalized_shape)
    outer = tuple(range(input.ndim - len(axes)))
    grad, scale = wide(grad_out), wide(rstd)
    normalized = (wide(input) - wide(mean)) * scale
    weighted = grad if weight is None else grad * wide(weight)
    return (
        input_gradient(xp, weighted, normalized, scale, axes) if output_mask[0] else None,
        total(xp, grad * normalized, outer) if output_mask[1] and weight is not None else None,
        total(xp, grad, outer) if output_mask[2] and bias is not None else None,
    )


@native_layer_norm_backward.derivative("grad_out", "input", "weight")
def native_layer_norm_backward_grad(
    grads: list[Grad],
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: tuple[int, ...],
    mean: Tensor,
    rstd: Tensor,
    weight: Grad,
) -> tuple[Grad, Grad, Grad]:
    dims = _trailing(input.meta.ndim, normalized_shape)
    normalized = (input - mean) * rstd
    v, u, w = grads
    by_out, by_x, by_weight = second_gradients(v, u, w, grad_out, normalized, rstd, weight, dims)
    if by_weight is not None:
        outer = tuple(range(input.meta.ndim - len(dims)))
        by_weight = by_weight.sum(outer) if outer else by_weight
    return by_out, by_x, by_weight


native_layer_norm_backward.cost(lambda grad_out, *rest: Cost(flops=14 * grad_out.numel))

layer_norm = define(
    "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
    "Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor"
)


@layer_norm.composite
def layer_norm_composite(
    input: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Grad,
    bias: Grad,
    eps: float,
    cudnn_enable: bool,
) -> object:
    results = native_layer_norm(input, normalized_shape, weight, bias, eps)
    assert isinstance(results, tuple)
    return results[0]


# --- group norm ----------------------------------------------------------------------

native_group_norm = define(
    "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, "
    "SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)


def check_groups(input: TensorMeta, weight: Maybe, bias: Maybe, channels: int, group: int) -> None:
    """Refuse channels that do not fall into groups, and parameters of another length."""
    check(group > 0, lambda: f"Expected num groups to be greater than 0, got {group}")
    check(
        channels % group == 0,
        lambda: (
            f"Expected number of channels in input to be divisible by num_groups, but got "
            f"input of shape {list(input.shape)} and num_groups={group}"
        ),
    )
    for name, parameter in (("weight", weight), ("bias", bias)):
        check_channels(name, parameter, input, channels)


def check_channels(name: str, parameter: Maybe, input: TensorMeta, channels: int) -> None:
    """Refuse a weight or bias that is no vector of one number a channel."""
    check(
        parameter is None or (parameter.ndim == 1 and parameter.numel == channels),
        lambda: (
            f"Expected {name} to be a vector of size equal to the number of channels in "
            f"input, but got {name} of shape {list(parameter.shape) if parameter else []} "
            f"and input of shape {list(input.shape)}"
        ),
    )


@native_group_norm.shape
def native_group_norm_shape(
    input: TensorMeta,
    weight: Maybe,
    bias: Maybe,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    check_groups(input, weight, bias, C, group)
    check_floating("GroupNormKernelImpl", input)
    kind = parameter_dtype(input, (weight, bias))
    format = input.suggested_format
    check(
        input.is_contiguous_in(format),
        lambda: (
            f"native_group_norm: expected an input that is contiguous in {format}, got "
            f"{input} with strides {input.strides}; call .contiguous() first"
        ),
    )
    stats = input.fresh((N, group), kind)
    return input.like(memory_format=format), stats, stats


def _by_channel(parameter: Array | None, ndim: int) -> Array | None:
    return None if parameter is None else parameter.reshape((1, -1) + (1,) * (ndim - 2))


@native_group_norm.kernel
def native_group_norm_kernel(
    xp: ModuleType,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    x = wide(input).reshape(N, group, C // group * HxW)
    mean, _, rstd = moments(xp, x, (2,), eps)
    normalized = ((x - mean) * rstd).reshape(input.shape)
    rank = input.ndim
    out = affine(normalized, _by_channel(weight, rank), _by_channel(bias, rank))
    return out, mean.reshape(N, group), rstd.reshape(N, group)


@native_group_norm.derivative("input", "weight", "bias")
def native_group_norm_grad(
    grads: list[Grad],
    input: Tensor,
    result1: Tensor,
    result2: Tensor,
    weight: Grad,
    N: int,
    C: int,
    HxW: int,
    group: int,
    needs: list[bool],
) -> tuple[Grad, Grad, Grad]:
    by_input: Grad = None
    by_weight: Grad = None
    by_bias: Grad = None
    if grads[0] is not None:
        grad = grads[0].contiguous(memory_format=input.meta.suggested_format)
        results = native_group_norm_backward(
            grad, input, result1, result2, weight, N, C, HxW, group, needs
        )
        assert isinstance(results, tuple)
        by_input, by_weight, by_bias = results
    if needs[0] and (grads[1] is not None or grads[2] is not None):
        rows = (N, group, C // group * HxW)
        by_statistics = _statistics_grad(
            grads[1], grads[2], input.reshape(rows), result1, result2
        ).reshape(input.meta.shape)
        by_input = by_statistics if by_input is None else by_input + by_statistics
    return by_input, by_weight, by_bias


def _statistics_grad(
    by_mean: Grad, by_rstd: Grad, rows: Tensor, mean: Tensor, rstd: Tensor
) -> Tensor:
    """The gradient by x of the mean and of 1 / the deviation of each row."""
    count = rows.meta.shape[2]
    found = rows.new_zeros(rows.meta.shape)
    if by_mean is not None:
        found = found + by_mean.unsqueeze(2) / count
    if by_rstd is not None:
        slope = -(by_rstd * rstd.pow(3)).unsqueeze(2) / count
        found = found + slope * (rows - mean.unsqueeze(2))
    return found


native_group_norm.cost(lambda input, *rest: Cost(flops=8 * input.numel))

native_group_norm_backward = define(
    "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
    "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)


@native_group_norm_backward.shape
def native_group_norm_backward_shape(
    grad_out: TensorMeta,
    input: TensorMeta,
    mean: TensorMeta,
    rstd: TensorMeta,
    weight: Maybe,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Mask,
) -> tuple[Maybe, Maybe, Maybe]:
    check_groups(input, weight, None, C, group)
    check(
        mean.numel == N * group and rstd.numel == N * group,
        lambda: (
            f"native_group_norm_backward: expected mean and rstd of {N} x {group} elements, "
            f"got {mean} and {rstd}"
        ),
    )
    kind = mean.dtype if weight is None else weight.dtype
    return (
        input.like(memory_format=input.suggested_format) if output_mask[0] else None,
        input.fresh((C,), kind) if output_mask[1] else None,
        input.fresh((C,), kind) if output_mask[2] else None,
    )


@native_group_norm_backward.kernel
def native_group_norm_backward_kernel(
    xp: ModuleType,
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Mask,
) -> tuple[Array | None, Array | None, Array | None]:
    rows = (N, group, C // group * HxW)
    channels = (N, C, HxW)
    grad, scale = wide(grad_out), wide(rstd).reshape(N, group, 1)
    normalized = (wide(input).reshape(rows) - wide(mean).reshape(N, group, 1)) * scale
    by_channel = _by_channel(weight, grad.ndim)
    weighted = (grad if by_channel is None else grad * wide(by_channel)).reshape(rows)
    by_input = input_gradient(xp, weighted, normalized, scale, (2,)) if output_mask[0] else None
    flat = grad.reshape(channels)
    return (
        None if by_input is None else by_input.reshape(input.shape),
        total(xp, flat * normalized.reshape(channels), (0, 2)) if output_mask[1] else None,
        total(xp, flat, (0, 2)) if output_mask[2] else None,
    )


@native_group_norm_backward.derivative("grad_out", "input", "weight")
def native_group_norm_backward_grad(
    grads: list[Grad],
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Grad,
    N: int,
    C: int,
    HxW: int,
    group: int,
) -> tuple[Grad, Grad, Grad]:
    rows = (N, group, C // group, HxW)
    per_channel = (1, group, C // group, 1)
    scale = rstd.reshape((N, group, 1, 1))
    normalized = (input.reshape(rows) - mean.reshape((N, group, 1, 1))) * scale
    v, u, w = grads
    by_out, by_x, by_weight = second_gradients(
        None if v is None else v.reshape(rows),
        None if u is None else u.reshape(per_channel),
        None if w is None else w.reshape(per_channel),
        grad_out.reshape(rows),
        normalized,
        scale,
        None if weight is None else weight.reshape(per_channel),
        (2, 3),
    )
    return (
        None if by_out is None else by_out.reshape(input.meta.shape),
        None if by_x is None else by_x.reshape(input.meta.shape),
        None if by_weight is None else by_weight.sum((0, 3)).reshape((C,)),
    )


native_group_norm_backward.cost(lambda grad_out, *rest: Cost(flops=14 * grad_out.numel))

group_norm = define(
    "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor"
)


@group_norm.composite
def group_norm_composite(
    input: Tensor, num_groups: int, weight: Grad, bias: Grad, eps: float, cudnn_enabled: bool
) -> object:
    shape = input.meta.shape
    check(
        len(shape) >= 2,
        lambda: f"Expected at least 2 dimensions for input tensor but received {len(shape)}",
    )
    metas = [None if p is None else p.meta for p in (weight, bias)]
    check_groups(input.meta, metas[0], metas[1], shape[1], num_groups)
    on_cpu = input.device.type == "cpu"
    x = (
        input.contiguous(memory_format=input.meta.suggested_format)
        if on_cpu
        else input.contiguous()
    )
    results = native_group_norm(
        x,
        None if weight is None else weight.contiguous(),
        None if bias is None else bias.contiguous(),
        shape[0],
        shape[1],
        prod(shape[2:]),
        num_groups,
        eps,
    )
    assert isinstance(results, tuple)
    return results[0]


# --- RMS norm ------------------------------------------------------------------------

_fused_rms_norm = define(
    "aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) "
    "-> (Tensor, Tensor)"
)
rms_norm = define(
    "aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
    "float? eps=None) -> Tensor"
)


@_fused_rms_norm.composite
def rms_norm_parts(
    input: Tensor, normalized_shape: tuple[int, ...], weight: Grad, eps: float | None
) -> tuple[Tensor, Tensor]:
    """The normalized input and 1 / root mean square, in operators as PyTorch's CPU path."""
    check_normalized(input.meta, normalized_shape, None if weight is None else weight.meta, None)
    x = input.to(float32) if input.meta.itemsize < 4 else input
    if eps is None:
        eps = finfo(x.dtype if x.dtype.is_floating_point else float32).eps
    if x.dtype is not float64:
        eps = float(np.float32(eps))  # PyTorch adds it in the type it computes in
    dims = _trailing(input.meta.ndim, normalized_shape)
    rstd = x.pow(2).mean(dims, True).add_(eps).rsqrt()
    out = x * rstd
    if weight is not None:
        out = out * weight
    out = out if out.dtype is input.dtype else out.to(input.dtype)
    return out.contiguous(), rstd


@rms_norm.composite
def rms_norm_composite(
    input: Tensor, normalized_shape: tuple[int, ...], weight: Grad, eps: float | None
) -> Tensor:
    return rms_norm_parts(input, normalized_shape, weight, eps)[0]
