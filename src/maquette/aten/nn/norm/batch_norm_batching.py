"""Batching rules of batch normalization: batches become channels of one call.

Weights may differ over the batch, so they are applied behind the normalization itself.
"""

from __future__ import annotations

from typing import Any

from maquette.aten.common.batching_forms import to_front
from maquette.aten.common.operators import aten
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo


def _as_channels(x: Tensor, d: int | None, size: int) -> Tensor:
    """``[N, C, ...]`` of each example as ``[N, batch * C, ...]``."""
    t = to_front(x, d, size)
    return t.movedim(0, 1).flatten(1, 2)


def _channels(t: Tensor | None, d: int | None, size: int) -> Tensor | None:
    return None if t is None else to_front(t, d, size).reshape(-1)


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
    # Named, as -1 says nothing where the batch is empty.
    channels = to_front(x, in_dims[0], size).shape[2]
    stats = [running_mean, running_var]
    shared = any(s is not None and d is None for s, d in zip(stats, in_dims[3:5]))
    if training and shared and in_dims[0] is not None:  # each example's would be another
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which "
            "will be updated in place, were not batched.\nIf you are using a module and do not "
            "need eval mode, please set `track_running_stats` to be False.If you are using a "
            "prebuilt module and do not need eval mode, replace its batch norms by ones without "
            "statistics (func.replace_all_batch_norm_modules_)"
        )
    flat = [_channels(s, d, size) for s, d in zip(stats, in_dims[3:5])]
    if training:  # written below, and copied back: a view of theirs cannot be copied to itself
        flat = [None if s is None else s.clone() for s in flat]
    out, mean, rstd = aten.native_batch_norm(
        values, None, None, flat[0], flat[1], training, momentum, eps
    )
    if training:
        for s, d, new in zip(stats, in_dims[3:5], flat):
            if s is not None and new is not None:
                rows = new.reshape(size, channels)
                to_front(s, d).copy_(rows[0] if d is None else rows)
    out = out.unflatten(1, (size, channels)).movedim(1, 0)
    ones = [1] * (out.meta.ndim - 3)
    for factor, d, act in ((weight, in_dims[1], aten.mul), (bias, in_dims[2], aten.add)):
        if factor is not None:
            f = to_front(factor, d, size)
            out = act(out, f.reshape(size, 1, channels, *ones))
    split = [t.reshape(size, channels if training else 0) for t in (mean, rstd)]
    return (out, *split), 0


def functional_batching(
    info: VmapInfo, in_dims: Any, *params: Any
) -> tuple[tuple[Tensor, ...], int]:
    """The new statistics are results: each example has its own."""
    before, stats, after = params[:3], params[3:5], params[5:]
    own = [to_front(s, d, info.batch_size).clone() for s, d in zip(stats, in_dims[3:5])]
    dims = (*in_dims[:3], 0, 0)
    results, _ = native_batch_norm_batching(info, dims, *before, *own, *after)
    return (*results, *own), 0


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


def native_batch_norm_backward_batching(
    info: VmapInfo,
    in_dims: Any,
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
) -> Any:
    size = info.batch_size
    channels = to_front(x, in_dims[1], size).shape[2]
    values = _as_channels(x, in_dims[1], size)
    grads = _as_channels(grad, in_dims[0], size)
    shape = [1, -1, *[1] * (values.meta.ndim - 2)]
    over = (0, *range(2, values.meta.ndim))
    saved = (running_mean, running_var, save_mean, save_invstd)
    flat = [_channels(t, d, size) for t, d in zip(saved, in_dims[3:7], strict=True)]
    by_input = by_weight = by_bias = None
    # The operator again, not its parts: only its derivative knows that the statistics are x's.
    if mask[0]:
        scale = _channels(weight, in_dims[2], size)
        scaled = grads if scale is None else grads * scale.reshape(shape)
        by_input = aten.native_batch_norm_backward(
            scaled, values, None, *flat, train, eps, [True, False, False]
        )[0]
        by_input = by_input.unflatten(1, (size, channels)).movedim(1, 0)
    if mask[1]:
        by_weight = aten.native_batch_norm_backward(
            grads, values, None, *flat, train, eps, [False, True, False]
        )[1].reshape(size, channels)
    if mask[2]:
        by_bias = grads.sum(over).reshape(size, channels)
    return (by_input, by_weight, by_bias), 0
