"""Group normalization: forward, backward, what users call.

The arithmetic is in `moments.py`; layer norm is in `layer_norm.py`.
"""

from __future__ import annotations

from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import assigned_at
from maquette.aten.common.axes import Array, total
from maquette.aten.common.backward_checks import check_count, check_floats_only, check_sizes
from maquette.aten.common.channels_last import channels_second, laid_last, with_channels_last
from maquette.aten.common.large_arrays import BLOCK, loops_for_floats
from maquette.aten.common.operators import aten
from maquette.aten.nn.norm.moments import (
    affine_tangent,
    check_floating,
    input_gradient,
    moments,
    moments_tangent,
    normalized_affine,
    parameter_dtype,
    second_gradients,
)
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

Mask = tuple[bool, ...]
Maybe = TensorMeta | None
Grad = Tensor | None

native_group_norm = define(
    "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, "
    "SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)
native_group_norm.describe("`group_norm`, with mean and inverse deviation: [N, groups] each.")


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
    check_count("native_group_norm", "an input", input, N * C * HxW)
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


def _by_channel(parameter: Array | None) -> Array | None:
    return None if parameter is None else parameter.reshape(1, -1, 1)


def _in_groups(parameter: Array | None, group: int) -> Array | None:
    return None if parameter is None else parameter.reshape(1, group, -1, 1)


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
    HxW = max(HxW, 0)  # any number is right where there are no images or channels
    each = (C // group, HxW)
    factors = [None if p is None else wide(p) for p in (weight, bias)]
    loops = loops_for_floats(xp, wide(input), *factors)
    last = None if loops is None else with_channels_last(wide(input))
    if loops is not None and last is not None:
        found, mean, rstd = loops.column_groups(last.reshape(N, HxW, C), group, *factors, eps)
        return channels_second(found.reshape(last.shape)), mean, rstd
    x = wide(input).reshape(N, group, prod(each))
    parameters = [_in_groups(p, group) for p in (weight, bias)]
    if loops_for_floats(xp, x) is not None:
        found, mean, rstd = _normalized_groups(xp, x, each, eps, parameters)
        return found.reshape(input.shape), mean, rstd
    out, means, rstds = xp.empty(x.shape, x.dtype), [], []
    for part in _cached_slices(N, C * HxW):
        found, mean, rstd = _normalized_groups(xp, x[part], each, eps, parameters)
        out = assigned_at(xp, out, part, found)
        means.append(mean)
        rstds.append(rstd)
    return out.reshape(input.shape), xp.concatenate(means), xp.concatenate(rstds)


def _normalized_groups(
    xp: ModuleType, x: Array, each: tuple[int, int], eps: float, parameters: list[Array | None]
) -> tuple[Array, Array, Array]:
    """Groups [N, groups, elements] normalized; means and 1 / deviations, [N, groups].

    each: the channels of a group and the places of a channel.
    """
    mean, _, rstd = moments(xp, x, (2,), eps)
    rows = x.reshape(*x.shape[:2], *each)
    scaled = normalized_affine(xp, rows, mean[..., None], rstd[..., None], *parameters)
    return scaled.reshape(x.shape), mean[:, :, 0], rstd[:, :, 0]


def _cached_slices(samples: int, elements_each: int) -> list[slice]:
    """Slices of a batch, at least one, that stay in the cache between the passes over them."""
    step = max(1, BLOCK * 4 // max(1, elements_each))
    return [slice(i, min(i + step, samples)) for i in range(0, max(samples, 1), step)]


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


@native_group_norm.tangent
def native_group_norm_tangent(
    input: Tensor,
    input_t: Tensor,
    weight: Grad,
    weight_t: Grad,
    bias_t: Grad,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = (N, group, C // group * HxW)
    normalized, moved, mean_t, rstd_t = moments_tangent(
        input.reshape(rows), input_t.reshape(rows), (2,), eps
    )
    scale, *parameters = [
        None if p is None else p.reshape(1, -1, 1) for p in (weight, weight_t, bias_t)
    ]
    by_channel = (N, C, HxW)
    out_t = affine_tangent(
        normalized.reshape(by_channel), moved.reshape(by_channel), scale, parameters
    )
    return out_t.reshape(input.meta.shape), mean_t.squeeze(2), rstd_t.squeeze(2)


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


@native_group_norm.batching_decomposition
def native_group_norm_batching(
    x: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    grouped = x.reshape(N, group, C // group * HxW)
    out, mean, rstd = aten.native_layer_norm(grouped, [grouped.shape[-1]], None, None, eps)
    out = out.reshape(x.shape)
    ones = [1] * (x.meta.ndim - 2)
    if weight is not None:
        out = out * weight.reshape(C, *ones)
    if bias is not None:
        out = out + bias.reshape(C, *ones)
    if grouped.shape[-1]:
        # Unlike those of `native_layer_norm`, these statistics have derivatives.
        wide = grouped.to(mean.meta.dtype)
        mean = wide.mean(-1)
        rstd = ((wide - mean.unsqueeze(-1)).square().mean(-1) + eps).rsqrt()
    return out, mean.reshape(N, group), rstd.reshape(N, group)


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
    check_floating("GroupNormBackwardKernelImpl", input)
    check_floats_only("GroupNormBackwardKernelImpl", grad_out, mean, rstd)
    check_count("native_group_norm_backward", "an input", input, N * C * HxW)
    check_sizes("native_group_norm_backward", "a gradient", grad_out, input.shape)
    check(
        expect_true(mean.numel == N * group) and expect_true(rstd.numel == N * group),
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
    sizes = (N, C, HxW, group)
    found = None
    if output_mask[0]:
        found = _gradients_by_loop(xp, grad_out, input, mean, rstd, weight, sizes)
    if found is not None:
        by_weight, by_bias = [
            p if needed else None for p, needed in zip(found[1:], output_mask[1:], strict=True)
        ]
        return found[0], by_weight, by_bias
    rows = (N, group, C // group * HxW)
    channels = (N, C, HxW)
    grad, scale = wide(grad_out).reshape(channels), wide(rstd).reshape(N, group, 1)
    x, centre = wide(input).reshape(channels), wide(mean).reshape(N, group, 1)
    factors = None if weight is None else wide(weight)
    normalized = (x.reshape(rows) - centre) * scale
    by_channel = _by_channel(factors)
    weighted = (grad if by_channel is None else grad * by_channel).reshape(rows)
    by_input = input_gradient(xp, weighted, normalized, scale, (2,)) if output_mask[0] else None
    return (
        None if by_input is None else by_input.reshape(input.shape),
        total(xp, grad * normalized.reshape(channels), (0, 2)) if output_mask[1] else None,
        total(xp, grad, (0, 2)) if output_mask[2] else None,
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


@native_group_norm_backward.batching_decomposition
def native_group_norm_backward_batching(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Any,
    N: int,
    C: int,
    HxW: int,
    group: int,
    mask: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    def grouped(t: Tensor) -> Tensor:
        return t.reshape(N, group, C // group * HxW)

    normal = (grouped(x) - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)
    dy = grad.reshape(N, C, HxW)
    scaled = grouped(dy if weight is None else dy * weight.reshape(C, 1))
    dx = None
    if mask[0]:
        centred = scaled - scaled.mean(-1, True) - normal * (scaled * normal).mean(-1, True)
        dx = (centred * rstd.unsqueeze(-1)).reshape(x.shape)
    dw = (dy * normal.reshape(N, C, HxW)).sum([0, 2]) if mask[1] else None
    return dx, dw, dy.sum([0, 2]) if mask[2] else None


group_norm = define(
    "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor"
)
group_norm.describe(
    "[N, C, ...] normalized for each sample and group of channels; of the same shape."
)
group_norm.autocast(cuda="float32")


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


def _gradients_by_loop(
    xp: ModuleType,
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    sizes: tuple[int, int, int, int],
) -> tuple[Array, Array, Array] | None:
    """The gradients by input, weight and bias; None where there is no loop for them."""
    N, C, HxW, group = sizes
    x, grad = wide(input), wide(grad_out)
    centre, scale = wide(mean), wide(rstd)
    factors = None if weight is None else wide(weight)
    loops = loops_for_floats(xp, x, grad, centre, scale, factors)
    if loops is None:
        return None
    centre, scale = (np.ascontiguousarray(s).reshape(N, group) for s in (centre, scale))
    last = with_channels_last(x)
    if last is not None:
        given = [a.reshape(N, HxW, C) for a in (laid_last(grad), last)]
        found, *others = loops.column_group_gradients(*given, centre, scale, factors)
        return channels_second(found.reshape(last.shape)), others[0], others[1]
    given = [np.ascontiguousarray(a).reshape(N, C, HxW) for a in (grad, x)]
    found, *others = loops.group_gradients(*given, centre, scale, factors)
    return found.reshape(input.shape), others[0], others[1]
