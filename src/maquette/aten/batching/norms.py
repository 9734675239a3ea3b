"""Batching rules of normalizations, and of attention.

Weights may differ over the batch, so they are applied behind the normalization itself; statistics
are of each example, so batches become groups, or channels, of one call.
"""

from __future__ import annotations

from typing import Any

from maquette.aten.batching.forms import VmapInfo, aten, to_front
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import decomposition_for, rule_for


@rule_for("native_layer_norm")
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


@decomposition_for("native_layer_norm_backward")
def native_layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    shape: Any,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    inner = list(range(-len(shape), 0))
    outer = list(range(x.meta.ndim - len(shape)))
    normal = (x - mean) * rstd
    scaled = grad if weight is None else grad * weight
    dx = None
    if mask[0]:
        centred = scaled - scaled.mean(inner, True) - normal * (scaled * normal).mean(inner, True)
        dx = centred * rstd
    dw = (grad * normal).sum(outer) if outer else grad * normal
    db = grad.sum(outer) if outer else grad.clone()
    has_weight = mask[1] and weight is not None
    return dx, dw if has_weight else None, db if mask[2] and bias is not None else None


@decomposition_for("native_group_norm")
def native_group_norm(
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


@decomposition_for("native_group_norm_backward")
def native_group_norm_backward(
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


# --- batch normalization ----------------------------------------------------------------------


def _as_channels(x: Tensor, d: int | None, size: int) -> Tensor:
    """``[N, C, ...]`` of each example as ``[N, batch * C, ...]``."""
    t = to_front(x, d, size)
    return t.movedim(0, 1).flatten(1, 2)


def _channels(t: Tensor | None, d: int | None, size: int) -> Tensor | None:
    return None if t is None else to_front(t, d, size).reshape(-1)


@rule_for("native_batch_norm _native_batch_norm_legit cudnn_batch_norm")
def native_batch_norm_batching(
    info: VmapInfo,
    in_dims: Any,
    x: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    size = info.batch_size
    values = _as_channels(x, in_dims[0], size)
    stats = [running_mean, running_var]
    if training and any(s is not None and d is None for s, d in zip(stats, in_dims[3:5])):
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which "
            "will be updated in place, were not batched.\nIf you are using a module and do not "
            "need eval mode, please set `track_running_stats` to be False.If you are using a "
            "prebuilt module and do not need eval mode, replace its batch norms by ones without "
            "statistics (func.replace_all_batch_norm_modules_)"
        )
    flat = [_channels(s, d, size) for s, d in zip(stats, in_dims[3:5])]
    out, mean, rstd = aten.native_batch_norm(
        values, None, None, flat[0], flat[1], training, momentum, eps
    )
    if training:
        for s, d, new in zip(stats, in_dims[3:5], flat):
            if s is not None and new is not None:
                front = to_front(s, d)
                front.copy_(new.reshape(front.shape))
    out = out.unflatten(1, (size, -1)).movedim(1, 0)
    ones = [1] * (out.meta.ndim - 3)
    for factor, d, act in ((weight, in_dims[1], aten.mul), (bias, in_dims[2], aten.add)):
        if factor is not None:
            f = to_front(factor, d, size)
            out = act(out, f.reshape(size, 1, -1, *ones))
    split = [t.reshape(size, -1) if t.numel() else t.reshape(size, 0) for t in (mean, rstd)]
    return (out, *split), 0


@rule_for("_native_batch_norm_legit.no_stats")
def no_stats_batching(
    info: VmapInfo,
    in_dims: Any,
    x: Any,
    weight: Any,
    bias: Any,
    training: Any,
    momentum: Any,
    eps: Any,
) -> Any:
    dims = (*in_dims[:3], None, None)
    return native_batch_norm_batching(
        info, dims, x, weight, bias, None, None, training, momentum, eps
    )


@decomposition_for("native_batch_norm_backward")
def native_batch_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    mask: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    over = [0, *range(2, x.meta.ndim)]
    shape = [1, -1, *[1] * (x.meta.ndim - 2)]
    mean = save_mean if train else running_mean
    rstd = save_invstd if train else aten.rsqrt(running_var + eps)
    rstd = rstd.reshape(shape)
    normal = (x - mean.reshape(shape)) * rstd
    scaled = grad if weight is None else grad * weight.reshape(shape)
    dx = None
    if mask[0]:
        if train:
            scaled = scaled - scaled.mean(over, True) - normal * (scaled * normal).mean(over, True)
        dx = scaled * rstd
    dw = (grad * normal).sum(over) if mask[1] else None
    return dx, dw, grad.sum(over) if mask[2] else None


# --- attention --------------------------------------------------------------------------------


def _attention_rule(names: str, tensors: int) -> None:
    """Fused attention: examples ``[N, heads, length, width]`` as more of the first."""

    @rule_for(names)
    def rule(info: VmapInfo, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
        from_front = [to_front(t, d, info.batch_size) for t, d in zip(args[:tensors], in_dims)]
        n = from_front[0].shape[1]
        flat = [t.flatten(0, 1) for t in from_front]
        result = getattr(aten, names.split()[0])(*flat, *args[tensors:], **kwargs)
        return tuple(
            [
                r.unflatten(0, (info.batch_size, n))
                if isinstance(r, Tensor) and r.meta.ndim and r.shape[0] == info.batch_size * n
                else r
                for r in result
            ]
        ), tuple(
            [
                0
                if isinstance(r, Tensor) and r.meta.ndim and r.shape[0] == info.batch_size * n
                else None
                for r in result
            ]
        )
