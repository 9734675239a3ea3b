"""Batching rules of tensors made like others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.aten.batching.forms import VmapInfo, aten, elementwise, rank_of, sized, to_front
from maquette.core.dtype import float64
from maquette.core.promotion import get_default_dtype
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import refuse_unbatched_target
from maquette.transforms.rules import decomposition_for, family, rule_for

family("empty_like zeros_like ones_like full_like zero fill.Scalar", elementwise)
family("new_empty new_zeros new_ones new_full", sized)


@rule_for("new_empty_strided")
def new_empty_strided_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, size: Any, stride: Any, **kwargs: Any
) -> Any:
    span = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if 0 not in size else 0
    made = aten.new_empty_strided(self, (info.batch_size, *size), (span, *stride), **kwargs)
    return made, 0


@decomposition_for("fill.Tensor")
def fill_tensor(self: Tensor, value: Tensor) -> Tensor:
    return aten.zeros_like(self) + value.to(self.dtype)


@rule_for("zero_ fill_.Scalar")
def zero_batching(info: VmapInfo, in_dims: Any, self: Tensor, *value: Any) -> Any:
    if value:
        return self.fill_(value[0]), in_dims[0]
    return self.zero_(), in_dims[0]


@rule_for("copy_ fill_.Tensor")
def copy_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, src: Tensor, non_blocking: bool = False
) -> Any:
    if in_dims[0] is None:
        refuse_unbatched_target(aten.copy_.default)
    rank = rank_of(self, in_dims[0])
    source = to_front(src, in_dims[1], rank=rank)
    if in_dims[1] is None and source.meta.ndim > rank:
        source = source.reshape(source.shape[-rank:] if rank else ())
    return to_front(self, in_dims[0]).copy_(source, non_blocking), 0


@rule_for("copy")
def functional_copy_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, src: Tensor, non_blocking: bool = False
) -> Any:
    x = to_front(self, in_dims[0], info.batch_size)
    made = aten.empty_like(x)
    return made.copy_(to_front(src, in_dims[1], rank=rank_of(self, in_dims[0]))), 0


@decomposition_for("linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor")
def linspace(start: Any, end: Any, steps: int, *options: Any) -> Any:
    return _typed(_spaced(start, end, steps, options), options)


@decomposition_for("logspace.Tensor_Tensor logspace.Tensor_Scalar logspace.Scalar_Tensor")
def logspace(start: Any, end: Any, steps: int, base: float, *options: Any) -> Any:
    return _typed(aten.pow.Scalar(base, _spaced(start, end, steps, options)), options)


def _spaced(start: Any, end: Any, steps: int, options: Sequence[Any]) -> Any:
    like = start if isinstance(start, Tensor) else end
    part = aten.linspace(0, 1, steps, dtype=float64, device=like.device)
    first, last = (v.unsqueeze(-1) if isinstance(v, Tensor) else v for v in (start, end))
    return first * (1 - part) + last * part


def _typed(values: Tensor, options: Sequence[Any]) -> Tensor:
    return values.to(options[0] or get_default_dtype())


@rule_for("_local_scalar_dense item")
def item_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
        "calling .item() on a Tensor, please try to rewrite what you're doing with other "
        "operations: the number differs over the batch"
    )


@rule_for("is_nonzero")
def is_nonzero_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    raise RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
        "flow. We don't support that yet: the answer differs over the batch"
    )
