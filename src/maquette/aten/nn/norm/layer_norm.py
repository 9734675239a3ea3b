"""Layer and RMS normalization: forward, backward, what users call.

The arithmetic is in `moments.py`; group norm is in `group_norm.py`, batch and instance norm are in
`batch_norm.py`.
"""

from __future__ import annotations

from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, total
from maquette.aten.common.backward_checks import check_floats_only, check_sizes
from maquette.aten.common.batching_forms import to_front
from maquette.aten.common.large_arrays import loops_for_floats
from maquette.aten.common.operators import aten
from maquette.aten.nn.norm.moments import (
    affine,
    affine_tangent,
    check_floating,
    input_gradient,
    moments,
    moments_tangent,
    parameter_dtype,
    second_gradients,
    standardized,
)
from maquette.core.dtype import finfo, float32, float64
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

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
        input.ndim >= len(wanted) and expect_alike(input.shape[input.ndim - len(wanted) :], wanted),
        lambda: (
            f"Given normalized_shape={list(wanted)}, expected input with shape "
            f"[*, {', '.join(map(str, wanted))}], but got input of size{list(input.shape)}"
        ),
    )


def check_parameter(name: str, parameter: Maybe, wanted: tuple[int, ...]) -> None:
    """Refuse a weight or bias of another shape than the normalized one."""
    check(
        parameter is None or expect_alike(parameter.shape, wanted),
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
native_layer_norm.describe("`layer_norm`, with mean and inverse deviation of each row.")
native_layer_norm.autocast(cuda="float32")


@native_layer_norm.shape
def native_layer_norm_shape(
    input: TensorMeta, normalized_shape: tuple[int, ...], weight: Maybe, bias: Maybe, eps: float
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    check_normalized(input, normalized_shape, weight, bias)
    check_floating("LayerNormKernelImpl", input)
    kept = input.ndim - len(normalized_shape)
    kind = parameter_dtype(input, (weight, bias))
    if input.device.type != "cpu" and kind.itemsize < float32.itemsize:
        kind = float32  # accelerators keep the statistics as they compute them
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
    weight, bias = (None if p is None else wide(p) for p in (weight, bias))
    loops = loops_for_floats(xp, x, weight, bias)
    if loops is not None:
        rows = x.reshape(-1, prod(normalized_shape))
        vectors = [None if p is None else p.reshape(-1) for p in (weight, bias)]
        out, *statistics = loops.row_norm(rows, *vectors, eps)
        stats = input.shape[: -len(normalized_shape)] + (1,) * len(normalized_shape)
        return out.reshape(input.shape), *[s.reshape(stats) for s in statistics]
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


@native_layer_norm.tangent
def native_layer_norm_tangent(
    input: Tensor,
    input_t: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Grad,
    weight_t: Grad,
    bias_t: Grad,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    dims = _trailing(input.meta.ndim, normalized_shape)
    normalized, moved, mean_t, rstd_t = moments_tangent(input, input_t, dims, eps)
    return affine_tangent(normalized, moved, weight, (weight_t, bias_t)), mean_t, rstd_t


native_layer_norm.cost(lambda input, *rest: Cost(flops=8 * input.numel))


@native_layer_norm.batching
def native_layer_norm_batching(
    info: VmapInfo, in_dims: Any, x: Tensor, shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    values = to_front(x, in_dims[0], info.batch_size)
    if in_dims[2] is in_dims[3] is None:
        return aten.native_layer_norm(values, shape, weight, bias, eps), 0
    out, mean, rstd = aten.native_layer_norm(values, shape, None, None, eps)
    rank = values.meta.ndim - 1
    if weight is not None:
        out = out * to_front(weight, in_dims[2], rank=rank if in_dims[2] is not None else 0)
    if bias is not None:
        out = out + to_front(bias, in_dims[3], rank=rank if in_dims[3] is not None else 0)
    return (out, mean, rstd), 0


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
    name = "native_layer_norm_backward"
    check_floats_only(name, grad_out, input, mean, rstd)
    check_sizes(name, "a gradient", grad_out, input.shape)
    kept = input.ndim - len(normalized_shape)
    rows = input.shape[:kept] + (1,) * len(normalized_shape)
    check_sizes(name, "means", mean, rows)
    check_sizes(name, "deviations", rstd, rows)
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
    x, centre, weight = wide(input), wide(mean), None if weight is None else wide(weight)
    loops = loops_for_floats(xp, x, grad, centre, scale, weight)
    if loops is not None and output_mask[0]:
        lines = (-1, prod(normalized_shape))
        vector = None if weight is None else weight.reshape(-1)
        by_input, *others = loops.row_gradients(
            grad.reshape(lines), x.reshape(lines), centre.reshape(-1), scale.reshape(-1), vector
        )
        by_weight, by_bias = [
            p.reshape(normalized_shape) if needed else None
            for p, needed in zip(others, output_mask[1:], strict=True)
        ]
        return by_input.reshape(input.shape), by_weight, by_bias
    normalized = (x - centre) * scale
    weighted = grad if weight is None else grad * weight
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


@native_layer_norm_backward.batching
def native_layer_norm_backward_batching(
    info: VmapInfo,
    in_dims: Any,
    grad: Any,
    x: Any,
    shape: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    bias: Any,
    mask: Any,
) -> Any:
    batched = zip((grad, x, mean, rstd), (*in_dims[:2], *in_dims[3:5]), strict=True)
    grad, x, mean, rstd = (to_front(t, d, info.batch_size) for t, d in batched)
    rank = x.meta.ndim - 1
    scaled = grad
    if weight is not None:
        scaled = grad * to_front(weight, in_dims[5], rank=0 if in_dims[5] is None else rank)
    by_input = None
    if mask[0]:
        # The operator again, not its parts: only its derivative knows that the statistics are x's.
        by_input = aten.native_layer_norm_backward(
            scaled, x, shape, mean, rstd, None, None, [True, False, False]
        )[0]
    outer = tuple(range(1, rank + 1 - len(shape)))
    by_weight = by_bias = None
    if mask[1] and weight is not None:
        by_weight = grad * standardized(x, mean, rstd, _trailing(rank + 1, shape))
        by_weight = (by_weight.sum(outer) if outer else by_weight).to(weight.meta.dtype)
    if mask[2] and bias is not None:
        by_bias = grad.sum(outer) if outer else grad.clone()
    return (by_input, by_weight, by_bias), 0


layer_norm = define(
    "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
    "Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor"
)
layer_norm.describe(
    "The last dimensions, `normalized_shape`, normalized, times `weight` plus `bias`; of the "
    "same shape."
)
layer_norm.autocast(cuda="float32")


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


# --- RMS norm ------------------------------------------------------------------------

_fused_rms_norm = define(
    "aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) "
    "-> (Tensor, Tensor)"
)
rms_norm = define(
    "aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
    "float? eps=None) -> Tensor"
)
rms_norm.describe(
    "The last dimensions divided by the root of their mean square, times `weight`; of the "
    "same shape."
)
rms_norm.autocast(cuda="float32")


@_fused_rms_norm.composite
def rms_norm_parts(
    input: Tensor, normalized_shape: tuple[int, ...], weight: Grad, eps: float | None
) -> tuple[Tensor, Tensor]:
    """The normalized input and 1 / root mean square, in operators as PyTorch's CPU path."""
    check_normalized(input.meta, normalized_shape, None if weight is None else weight.meta, None)
    small = input.meta.itemsize < 4
    check_not_implemented(
        not small or input.meta.dtype.is_floating_point,
        lambda: f"\"rms_norm\" not implemented for '{input.meta.dtype.scalar_name}'",
    )
    x = input.to(float32) if small else input
    if eps is None:
        eps = finfo(x.dtype if x.dtype.is_floating_point else float32).eps
    if x.dtype is not float64:
        eps = float(np.float32(eps))  # PyTorch adds it in the type it computes in
    dims = _trailing(input.meta.ndim, normalized_shape)
    rstd = aten.add_.Scalar(x.pow(2).mean(dims, True), eps).rsqrt()
    out = x * rstd
    if weight is not None:
        out = out * weight
    out = out if out.dtype is input.dtype else out.to(input.dtype)
    return out.contiguous(memory_format=input.meta.suggested_format), rstd


@rms_norm.composite
def rms_norm_composite(
    input: Tensor, normalized_shape: tuple[int, ...], weight: Grad, eps: float | None
) -> Tensor:
    return rms_norm_parts(input, normalized_shape, weight, eps)[0]
