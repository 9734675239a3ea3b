"""Reductions of masked tensors, by the functions of `torch.masked`.

A result counts where an element that it is made of did.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd.function import Function
from maquette.core import dtype as dtypes
from maquette.tensor.tensor import Tensor
from maquette.torch.families import masked
from maquette.torch.masked_tensors.core import MaskedTensor, is_masked_tensor, made

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()


class _Result(Function):
    """A result with its mask; its gradient is a plain tensor, which plain operators take."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> MaskedTensor:  # type: ignore[override]  # its arguments
        return made(data, mask)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]  # its arguments
        masked_one = is_masked_tensor(grad_output)
        return grad_output.get_data() if masked_one else grad_output, None


def reduction(name: str) -> Callable[..., Any]:
    """What ``torch.<name>`` does to a masked tensor, of all elements or along dimensions."""

    def reduce(input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:
            return _of_all(name, input)
        return _along(name, input, *args, **kwargs)

    return reduce


def _all_of(data: Tensor, mask: Tensor, **options: Any) -> Tensor:
    return data.masked_fill(~mask, True).all(**options)


def _kept(name: str, data: Tensor, mask: Tensor) -> Tensor:
    function = _all_of if name == "all" else getattr(masked, name)
    result: Tensor = function(data, mask=mask)
    return result


def _of_all(name: str, input: MaskedTensor) -> Any:
    data, mask = input.get_data(), input.get_mask()
    if not input.is_sparse:
        return _Result.apply(_kept(name, data, mask), mask.any())
    values, kept = data.values(), mask.values()
    if name in ("argmin", "argmax"):
        at = _kept(name, values, kept).to(dtypes.int64)
        return _Result.apply(_place(data.to_sparse_coo(), at), kept.any())
    return _Result.apply(_kept(name, values, kept), kept.any())


def _place(data: Tensor, at: Tensor) -> Tensor:
    """Where a value of a sparse tensor stands among all elements."""
    index, place = data.coalesce().indices()[:, at], mq.zeros((), dtype=dtypes.int64)
    for size, position in zip(data.size(), index, strict=True):
        place = place * size + position
    return place


def _along(
    name: str,
    input: MaskedTensor,
    dim: int | Sequence[int] | None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
) -> Any:
    if not is_masked_tensor(input):
        raise TypeError("Input to reduce_dim must be a MaskedTensor")
    if input.is_sparse:
        warnings.warn(
            f"The sparse version of {name} is not implemented in reductions.", stacklevel=4
        )
        return NotImplemented
    data, mask = input.get_data(), input.get_mask()
    options: dict[str, Any] = {"dim": dim, "keepdim": keepdim}
    if name == "all":
        return _Result.apply(_all_of(data, mask, **options), _any(mask, dim, keepdim))
    result = getattr(masked, name)(data, **options, dtype=dtype, mask=mask)
    return _Result.apply(result, _any(mask, dim, keepdim))


def _any(mask: Tensor, dim: int | Sequence[int] | None, keepdim: bool) -> Tensor:
    dims = range(mask.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    for d in sorted((d % mask.dim() for d in dims), reverse=True):
        mask = mq.any(mask, d, keepdim)
    return mask
