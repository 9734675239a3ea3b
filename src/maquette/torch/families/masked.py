"""`torch.masked`: reductions and normalizations of the elements that a mask keeps.

Each is the plain function on a tensor whose masked-out elements were replaced by the value that
does not change the result: 0 for a sum, the smallest number for a maximum. Where a mask keeps
nothing, the result is that of no elements, or NaN for a mean.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from typing import cast

from maquette.api import functions as mq
from maquette.core import layout as layouts
from maquette.core.dtype import bool_, finfo, float32, iinfo, int64
from maquette.core.dtype import dtype as DType
from maquette.tensor.tensor import Tensor
from maquette.torch.families.masked_layouts import canonical_dims as _canonical_dim
from maquette.torch.families.masked_layouts import check_reducible as _check_reducible
from maquette.torch.families.masked_layouts import input_mask as _input_mask
from maquette.torch.families.masked_layouts import output_mask as _output_mask  # noqa: F401
from maquette.torch.families.masked_layouts import reduced as _reduced
from maquette.torch.families.masked_layouts import where as _where

Dims = int | Sequence[int] | None
Mask = Tensor | None
Order = float | str

_ops = sys.modules[__name__]  # PyTorch has the operators in a file of this name


def _kept(input: Tensor, mask: Mask, name: str, *args: float) -> Tensor:
    """The input with what does not change the reduction ``name`` where the mask is False."""
    if mask is None:
        return input
    return _where(_input_mask(input, mask=mask), input, _reduction_identity(name, input, *args))


def _combine_input_and_mask(
    op: Callable[..., object], input: Tensor, mask: Mask, *args: float
) -> Tensor:
    """The input with what does not change the reduction ``op`` where the mask is False."""
    return _kept(input, mask, op.__name__, *args)


def _dims(dim: Dims, ndim: int) -> list[int]:
    """The dimensions to be reduced; none of a tensor that has none."""
    return list(_canonical_dim(dim, ndim)) if ndim else []


def _cast(input: Tensor, dtype: DType | None) -> Tensor:
    return input if dtype is None or dtype is input.dtype else cast(Tensor, input.to(dtype))


_OF_ORDERED = ("amax", "amin", "argmax", "argmin", "logaddexp", "logsumexp")


def _lowest(kind: DType) -> float:
    if kind is bool_:
        return False
    return -math.inf if kind.category >= 2 else iinfo(kind).min


def _highest(kind: DType) -> float:
    if kind is bool_:
        return True
    return math.inf if kind.is_floating_point else iinfo(kind).max


def _reduction_identity(name: str, input: Tensor, *args: float) -> Tensor | None:
    """What does not change a reduction, by its name: a number in a tensor.

    None where that depends on the input, as of a mean; a norm's order may follow.
    """
    name, kind = name.rpartition(".")[2], input.dtype
    if kind is bool_ and name in _OF_ORDERED:
        raise NotImplementedError(f"identity of {name} on {kind} input")
    least = _lowest(kind)
    values = {
        **dict.fromkeys(("sum", "cumsum"), 0.0),
        **dict.fromkeys(("prod", "cumprod"), 1.0),
        **dict.fromkeys(("amax", "argmax", "logaddexp", "logsumexp"), least),
        **dict.fromkeys(("mean", "var", "std"), None),
        "norm": math.inf if args and args[0] < 0 else 0.0,
        "median": math.nan,
    }
    if name in ("amin", "argmin"):
        values[name] = _highest(kind)
    if name not in values:
        raise NotImplementedError(f"identity of {name} on {kind} input")
    value = values[name]
    wanted = float32 if name == "median" and not kind.is_floating_point else kind
    return None if value is None else mq.tensor(value, dtype=wanted, device=input.device)


def _count(input: Tensor, mask: Mask, dims: list[int], keepdim: bool) -> Tensor:
    """How many elements are kept; the mask is in the input's shape."""
    counted = mask
    if counted is None:
        counted = mq.ones(input.meta.shape, dtype=int64, device=input.device)
    return cast(Tensor, mq.sum(counted, dims, keepdim))


def _of_layout(
    name: str, input: Tensor, dim: Dims, keepdim: bool, kind: DType, mask: Mask
) -> Tensor:
    """A reduction of a sparse tensor: of what it holds once the mask is applied."""
    _check_reducible(name, input, mask is not None)
    identity = _reduction_identity(name, input)
    dims = _canonical_dim(dim, input.ndim)
    return _reduced(name, _kept(input, mask, name), dims, bool(keepdim), kind, identity)


# --- reductions ----------------------------------------------------------------------


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The sum of what is kept."""
    wide = dtype or (int64 if input.dtype.category < 2 else input.dtype)
    if input.layout is not layouts.strided:
        return _of_layout("sum", input, dim, keepdim, wide, mask)
    kept = _kept(input, mask, "sum")
    return cast(Tensor, mq.sum(kept, _dims(dim, input.ndim), keepdim, dtype=wide))


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The product of what is kept."""
    wide = dtype or (int64 if input.dtype.category < 2 else input.dtype)
    if input.layout is not layouts.strided:
        return _of_layout("prod", input, dim, keepdim, wide, mask)
    kept = _kept(input, mask, "prod")
    result = _cast(kept, wide)
    for d in reversed(_dims(dim, input.ndim)):
        result = mq.prod(result, d, keepdim)
    return result


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The largest of what is kept."""
    if input.layout is not layouts.strided:
        return _of_layout("amax", input, dim, keepdim, dtype or input.dtype, mask)
    kept = _kept(input, mask, "amax")
    return _cast(cast(Tensor, mq.amax(kept, _dims(dim, input.ndim), keepdim)), dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The smallest of what is kept."""
    if input.layout is not layouts.strided:
        return _of_layout("amin", input, dim, keepdim, dtype or input.dtype, mask)
    kept = _kept(input, mask, "amin")
    return _cast(cast(Tensor, mq.amin(kept, _dims(dim, input.ndim), keepdim)), dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The index of the largest of what is kept, in ``dtype`` or, as in PyTorch, the input's."""
    found = mq.argmax(_kept(input, mask, "argmax"), dim, keepdim)
    return cast(Tensor, found.to(dtype or input.dtype))


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The index of the smallest of what is kept, in a dtype as `argmax`'s."""
    found = mq.argmin(_kept(input, mask, "argmin"), dim, keepdim)
    return cast(Tensor, found.to(dtype or input.dtype))


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The mean of what is kept, of floats or complex numbers; NaN where that is nothing."""
    kind = dtype or input.dtype
    if kind.category < 2:
        raise ValueError(
            f"mean(): Could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {kind}"
        )
    if input.layout is not layouts.strided:
        return _of_layout("mean", input, dim, keepdim, kind, mask)
    dims = _dims(dim, input.ndim)
    where = mask if mask is None else _input_mask(input, mask=mask)
    count = _count(input, where, dims, keepdim)
    return sum(input, dims, keepdim=keepdim, dtype=kind, mask=where) / count


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The lower median of what is kept; NaN where that is nothing, of integers ValueError."""
    if input.is_floating_point():
        return cast(Tensor, mq.nanmedian(_kept(input, mask, "median"), dim, keepdim)[0])
    kept = _kept(cast(Tensor, input.float()), mask, "median")
    found = cast(Tensor, mq.nanmedian(kept, dim, keepdim)[0])
    if mq.isnan(found).any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return cast(Tensor, found.to(dtype or input.dtype))


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """log(sum(exp(x))) of what is kept."""
    kept = _kept(input, mask, "logsumexp")
    found = mq.logsumexp(kept, _dims(dim, input.ndim), keepdim)
    return cast(Tensor, found.to(dtype or input.dtype))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Mask = None,
    other_mask: Mask = None,
) -> Tensor:
    """log(exp(a) + exp(b)) of what is kept of each."""
    a, b = _kept(input, input_mask, "logaddexp"), _kept(other, other_mask, "logaddexp")
    return cast(Tensor, mq.logaddexp(a, b).to(dtype or input.dtype))


def norm(
    input: Tensor,
    ord: Order | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The vector norm of what is kept, of any order (PyTorch's is 0 for finite negative ones)."""
    order = 2.0 if ord is None else float(ord)
    kept = _kept(input, mask, "norm", order)
    dims = _dims(dim, input.ndim)
    return cast(Tensor, mq.linalg_vector_norm(kept, order, dims, keepdim, dtype=dtype))


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The square root of `var`."""
    found = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return cast(Tensor, found.sqrt())


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """The variance of what is kept, about its own mean; ``correction`` is 1 unless biased."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    less = correction if correction is not None else float(unbiased is None or unbiased)
    kind = dtype or input.dtype
    wide = kind if kind.category >= 2 else float32
    dims = _dims(dim, input.ndim)
    where = mask if mask is None else _input_mask(input, mask=mask)
    count = _count(input, where, dims, keepdim=True)
    average = sum(input, dims, keepdim=True, dtype=wide, mask=where) / count
    away = input - average
    total = sum(away * away.conj(), dims, keepdim=keepdim, dtype=wide, mask=where)
    if not keepdim:
        count = cast(Tensor, count.reshape(total.meta.shape))
    if less != 0:
        count = cast(Tensor, count.to(wide.to_real())) - less
        count = cast(Tensor, mq.maximum(count, count.new_zeros(())))
    return cast(Tensor, (total / count).to(kind if dtype is not None else wide))


# --- along a dimension ---------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Mask = None) -> Tensor:
    """Running sums of what is kept; of integers in their own dtype, not int64."""
    kept = _kept(input, mask, "cumsum")
    return cast(Tensor, mq.cumsum(kept, dim, dtype=dtype or input.dtype))


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Mask = None) -> Tensor:
    """Running products of what is kept; of integers in their own dtype, not int64."""
    kept = _kept(input, mask, "cumprod")
    return cast(Tensor, mq.cumprod(kept, dim, dtype=dtype or input.dtype))


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Mask = None) -> Tensor:
    """The softmax over what is kept; 0 elsewhere."""
    return cast(Tensor, mq.softmax(_kept(input, mask, "amax"), dim, dtype=dtype))


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Mask = None
) -> Tensor:
    """The logarithm of `softmax`."""
    return cast(Tensor, mq.log_softmax(_kept(input, mask, "amax"), dim, dtype=dtype))


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Mask = None) -> Tensor:
    """The softmax of the negative, over what is kept."""
    return cast(Tensor, mq.softmax(-_kept(input, mask, "amin"), dim, dtype=dtype))


def normalize(
    input: Tensor,
    ord: Order,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Mask = None,
) -> Tensor:
    """What is kept by its norm along ``dim``, of at least ``eps``; 0 elsewhere."""
    kept = _kept(input, mask, "sum")
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    floor = length.new_full((), max(eps, finfo(length.dtype).tiny))
    return cast(Tensor, kept / mq.maximum(length, floor))


_MASKED_TENSORS = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MASKED_TENSORS})


def __getattr__(name: str) -> object:
    """Masked tensors, which take a while to import."""
    if name in _MASKED_TENSORS:
        return getattr(importlib.import_module("maquette.torch.masked_tensors"), name)
    raise AttributeError(f"module 'torch.masked' has no attribute '{name}'")
