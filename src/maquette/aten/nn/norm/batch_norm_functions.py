"""Batch and instance norm as users call them, made of the forms in `batch_norm.py`."""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.aten.nn.norm.batch_norm import PARAMETERS, batch_norm_metas, native_batch_norm
from maquette.core.dtype import float32, uint8
from maquette.core.errors import check, check_index
from maquette.core.layout import strided
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.library.variants import check_writable
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import written_by_its_operator

Grad = Tensor | None

_batch_norm_impl_index = define(
    f"aten::_batch_norm_impl_index({PARAMETERS}Tensor? running_mean, Tensor? running_var, "
    f"bool training, float momentum, float eps, bool cudnn_enabled) "
    f"-> (Tensor, Tensor, Tensor, Tensor, int)"
)
batch_norm = define(
    f"aten::batch_norm({PARAMETERS}Tensor? running_mean, Tensor? running_var, bool training, "
    f"float momentum, float eps, bool cudnn_enabled) -> Tensor",
    tags=[Tag.maybe_aliasing_or_mutating],
)
batch_norm.describe(
    "[N, C, ...] normalized over all but the channels, times `weight` plus `bias`; of the "
    "same shape."
)
instance_norm = define(
    f"aten::instance_norm({PARAMETERS}Tensor? running_mean, Tensor? running_var, "
    f"bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"
)
instance_norm.describe("[N, C, ...] normalized for each sample and channel; of the same shape.")
for _page in (_batch_norm_impl_index, batch_norm, instance_norm):
    _page.writes_undeclared("running_mean", "running_var")


@_batch_norm_impl_index.composite
def batch_norm_parts(
    input: Tensor,
    weight: Grad,
    bias: Grad,
    running_mean: Grad,
    running_var: Grad,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """The result, the saved statistics, an empty reserve, and 0 for "the native kernel"."""
    reserve = aten.empty.memory_format((0,), dtype=uint8, layout=strided, device=input.meta.device)
    if is_true(input.meta.numel == 0):
        kind = float32 if input.meta.itemsize <= 2 else input.dtype
        stats = [input.new_empty(input.meta.shape[1:2], dtype=kind) for _ in range(2)]
        out = input.clone()
        out = out if weight is None else out * weight.select(0, 0)
        out = out if bias is None else out + bias.select(0, 0)
        return out, stats[0], stats[1], reserve, 0
    scale, shift, mean, var = (
        None if t is None else t.meta for t in (weight, bias, running_mean, running_var)
    )
    batch_norm_metas(input.meta, scale, shift, mean, var, training)
    results = native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    assert isinstance(results, tuple)
    return results[0], results[1], results[2], reserve, 0


@batch_norm.composite
def batch_norm_composite(
    input: Tensor,
    weight: Grad,
    bias: Grad,
    running_mean: Grad,
    running_var: Grad,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    return batch_norm_parts(
        input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
    )[0]


@instance_norm.composite
def instance_norm_composite(
    input: Tensor,
    weight: Grad,
    bias: Grad,
    running_mean: Grad,
    running_var: Grad,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Batch norm with every image's channels as channels of their own."""
    check(
        use_input_stats or (running_mean is not None and running_var is not None),
        lambda: "Expected running_mean and running_var to be defined when use_input_stats is false",
    )
    check_index(
        input.meta.ndim >= 2,
        lambda: f"instance_norm: expected an input of images and channels, got {input.meta}",
    )
    images, channels, *rest = input.meta.shape
    for running in (running_mean, running_var):
        if use_input_stats and running is not None:
            check_writable("instance_norm", running.meta)
    scale, shift, mean, var = (
        None if t is None else t.repeat((images,))
        for t in (weight, bias, running_mean, running_var)
    )
    flat = input.contiguous().view((1, images * channels, *rest))
    out = batch_norm_composite(
        flat, scale, shift, mean, var, use_input_stats, momentum, eps, cudnn_enabled
    )
    if use_input_stats:
        for running, moved in ((running_mean, mean), (running_var, var)):
            if running is not None and moved is not None:
                target = written_by_its_operator(aten.alias(running))
                target.copy_(moved.view((images, channels)).mean((0,), False))
    return out.view(input.meta.shape)
