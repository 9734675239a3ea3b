"""What normalizations share: parameter checks, statistics of arrays, first and second derivatives.

A normalization is ``x̂ = (x - mean) * rstd`` over some axes, then ``x̂ * weight + bias``. Layer,
group and batch norm differ in the axes alone, so the arithmetic of all three stands here once, for
arrays (kernels) and for tensors (second derivatives). The pages are in `layer_norm.py` and
`batch_norm.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, total
from maquette.aten.common.channels_last import channels_second, with_channels_last
from maquette.aten.common.large_arrays import loops_for_floats
from maquette.core.dtype import bfloat16, dtype, float16, float32
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.tensor.tensor import Tensor


def parameter_dtype(input: TensorMeta, parameters: Sequence[TensorMeta | None]) -> dtype:
    """The dtype of statistics: the parameters', which may be float32 for a 16-bit input.

    RuntimeError for any other mixture.
    """
    given = [p.dtype for p in parameters if p is not None]
    if not given or given[0] is input.dtype:
        for other in given:
            check(
                other is input.dtype,
                lambda: (
                    f"expected scalar type {input.dtype.scalar_name} but found "
                    f"{_other(given, input.dtype).scalar_name}"
                ),
            )
        return input.dtype
    check(
        all(kind is float32 for kind in given),
        lambda: "mixed dtype (CPU): expect parameter to have scalar type of Float",
    )
    check(
        input.dtype in (float16, bfloat16),
        lambda: "mixed dtype (CPU): all inputs must share same datatype.",
    )
    return float32


def _other(given: Sequence[dtype], wanted: dtype) -> dtype:
    return next(kind for kind in given if kind is not wanted)


def check_floating(name: str, input: TensorMeta) -> None:
    """Normalizing needs real floating point numbers."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.scalar_name}'")


def moments(
    xp: ModuleType, x: Array, axes: tuple[int, ...], eps: float
) -> tuple[Array, Array, Array]:
    """Mean, biased variance and 1 / sqrt(variance + eps) over axes, which stay as 1."""
    found = _moments_by_loops(xp, x, axes)
    if found is not None:
        return *found, 1 / np.sqrt(found[1] + x.dtype.type(eps))
    count = x.dtype.type(prod(x.shape[a] for a in axes))
    with np.errstate(divide="ignore", invalid="ignore"):  # over no elements: NaN
        mean = total(xp, x, axes, True) / count
        squares = x - mean
        squares *= squares
        variance = total(xp, squares, axes, True) / count
        return mean, variance, 1 / xp.sqrt(variance + x.dtype.type(eps))


def _moments_by_loops(
    xp: ModuleType, x: Array, axes: tuple[int, ...]
) -> tuple[Array, Array] | None:
    """Mean and variance of large arrays over their rows or for their channels; else None."""
    loops = loops_for_floats(xp, x)
    if loops is None:
        return None
    kept = [1 if a in axes else n for a, n in enumerate(x.shape)]
    of_channels = axes == (0, *range(2, x.ndim))
    last = with_channels_last(x) if of_channels else None
    if last is not None:
        mean, variance = loops.column_moments(last.reshape(-1, x.shape[1]))
    elif not x.flags.c_contiguous:
        return None
    elif axes == tuple(range(x.ndim - len(axes), x.ndim)):
        mean, variance = loops.row_moments(x.reshape(prod(kept), -1))
    elif of_channels:
        mean, variance = loops.channel_moments(x.reshape(*x.shape[:2], -1))
    else:
        return None
    return mean.reshape(kept), variance.reshape(kept)


def input_gradient(
    xp: ModuleType, grad: Array, normalized: Array, rstd: Array, axes: tuple[int, ...]
) -> Array:
    """The gradient by x from that by x̂: ``rstd * (g - mean(g) - x̂ * mean(g * x̂))``."""
    count = grad.dtype.type(prod(grad.shape[a] for a in axes))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total(xp, grad, axes, True) / count
        projection = total(xp, grad * normalized, axes, True) / count
        result: Array = rstd * (grad - mean - normalized * projection)
    return result


def affine(x: Array, weight: Array | None, bias: Array | None) -> Array:
    """``x * weight + bias``; either may be missing, both must broadcast."""
    if weight is not None:
        x = x * wide(weight)
    return x if bias is None else x + wide(bias)


def normalized_affine(
    xp: ModuleType, x: Array, mean: Array, rstd: Array, weight: Array | None, bias: Array | None
) -> Array:
    """``(x - mean) * rstd * weight + bias`` as one product and one sum, as PyTorch computes it.

    The statistics and parameters must broadcast together to few numbers, as for channels.
    """
    scale = rstd if weight is None else rstd * wide(weight)
    shift = -mean * scale
    if bias is not None:
        shift = shift + wide(bias)
    loops = loops_for_floats(xp, x, scale, shift)
    if loops is not None and scale.shape == shift.shape:
        last = with_channels_last(x) if scale.size == scale.shape[1] else None
        if last is not None:
            given = scale.reshape(-1), shift.reshape(-1)
            columns: Array = loops.scaled_columns(last.reshape(-1, x.shape[1]), *given)
            return channels_second(columns.reshape(last.shape))
        lines = _lines(x.shape, scale.shape) if x.flags.c_contiguous else None
        if lines is not None:
            each = [np.broadcast_to(p, lines).flatten() for p in (scale, shift)]
            found: Array = loops.scaled_rows(x.reshape(prod(lines), -1), *each)
            return found.reshape(x.shape)
    out = x * scale
    out += shift
    return out


def _lines(shape: tuple[int, ...], parameters: tuple[int, ...]) -> tuple[int, ...] | None:
    """A shape with 1 for the last dimensions along which parameters are one; None if none are."""
    inner = len(shape)
    while inner and parameters[inner - 1] == 1:
        inner -= 1
    return None if inner == len(shape) else (*shape[:inner], *[1] * (len(shape) - inner))


def standardized(x: Tensor, mean: Tensor, rstd: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x̂ of x and what was saved of it, as operators that carry x's derivatives of any order.

    ``(x - mean) * rstd`` would not: nothing differentiates saved statistics. Here they are made of
    x again, and constants bring the mean and the variance (with its eps) to what was saved.
    """
    x = x.to(rstd.meta.dtype)
    own = x.mean(dims, True)
    centred = x - own
    variance = centred.square().mean(dims, True)
    scale = (variance + (rstd.pow(-2) - variance).detach()).rsqrt()
    return (centred + (own - mean).detach()) * scale


def second_gradients(
    v: Tensor | None,
    u: Tensor | None,
    w: Tensor | None,
    grad_out: Tensor,
    normalized: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    dims: tuple[int, ...],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients by ``grad_out``, x and weight (not yet summed) of a normalization's backward.

    v, u, w: what came back for the gradients of x, weight and bias, broadcast to x; None for zero.
    dims: those normalized over.
    """
    g = grad_out if weight is None else grad_out * weight
    by_out: Tensor | None = None
    by_x: Tensor | None = None
    by_weight: Tensor | None = None
    if v is not None:
        back = _projected(v, normalized, rstd, dims)
        by_out = back if weight is None else back * weight
        by_weight = grad_out * back
        by_x = _curvature(v, g, normalized, rstd, dims)
    if u is not None:
        by_out = _sum(by_out, u * normalized)
        by_x = _sum(by_x, _projected(u * grad_out, normalized, rstd, dims))
    if w is not None:
        by_out = _sum(by_out, w.expand_as(grad_out))
    return by_out, by_x, by_weight


def _sum(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b


def _projected(v: Tensor, normalized: Tensor, rstd: Tensor, dims: tuple[int, ...]) -> Tensor:
    mean = v.mean(dims, True)
    return rstd * (v - mean - normalized * (v * normalized).mean(dims, True))


def _curvature(
    v: Tensor, g: Tensor, normalized: Tensor, rstd: Tensor, dims: tuple[int, ...]
) -> Tensor:
    """The derivative by x of ``sum(v * backward(g))``."""
    v0, g0 = v - v.mean(dims, True), g - g.mean(dims, True)
    a, b = (v * normalized).mean(dims, True), (g * normalized).mean(dims, True)
    covariance = (v0 * g0).mean(dims, True)
    inner = normalized * (covariance - 3 * a * b) + b * v0 + a * g0
    return -(rstd * rstd) * inner


def moments_tangent(
    x: Tensor, x_t: Tensor, dims: tuple[int, ...], eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The normalized x, and the tangents of it, of its mean and of 1 / its deviation.

    The moments are computed anew from x, so that what is made of it can be differentiated again.
    """
    centred, centred_t = x - x.mean(dims, True), x_t - x_t.mean(dims, True)
    rstd = ((centred * centred).mean(dims, True) + eps).rsqrt()
    rstd_t = -rstd.pow(3) * (centred * centred_t).mean(dims, True)
    moved = centred_t * rstd + centred * rstd_t
    return centred * rstd, moved, x_t.mean(dims, True), rstd_t


def affine_tangent(
    normalized: Tensor, moved: Tensor, weight: Tensor | None, parameters: Sequence[Tensor | None]
) -> Tensor:
    """The tangent of normalized * weight + bias; parameters: the tangents of those two."""
    out = moved if weight is None else moved * weight
    if weight is not None and parameters[0] is not None:
        out = out + normalized * parameters[0]
    return out if parameters[1] is None else out + parameters[1]
