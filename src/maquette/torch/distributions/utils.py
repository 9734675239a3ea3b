"""What distributions are built with: parameters of one shape, probabilities, logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import enable_grad
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as Dtype
from maquette.core.dtype import finfo, get_default_dtype
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor

Value = Tensor | float
euler_constant = 0.57721566490153286060


def broadcast_all(*values: Value) -> list[Tensor]:
    """Parameters as tensors of one shape; numbers take the dtype and device of the tensors.

    Raises ValueError for what is neither a number nor a tensor.
    """
    for value in values:
        known = isinstance(value, Tensor | bool | int | float) or hasattr(value, "node")
        if not known and not hasattr(value, "__torch_function__"):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects "
                f"implementing __torch_function__; got {type(value).__name__}"
            )
    like = next((value for value in values if isinstance(value, Tensor)), None)
    kind = get_default_dtype() if like is None else like.dtype
    place = None if like is None else like.device
    made = [
        v if hasattr(v, "__torch_function__") else mq.tensor(v, dtype=kind, device=place)
        for v in values
    ]
    together: Any = mq.broadcast_tensors(*made)
    return list(together)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1, so that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from logarithms of odds, or of shares along the last dimension."""
    return mq.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of odds, or of shares, from probabilities."""
    kept = clamp_probs(probs)
    return mq.log(kept) - mq.log1p(-kept) if is_binary else mq.log(kept)


class lazy_property:  # PyTorch's name
    """A property that is computed when first asked for, and then an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal of matrices (*, n, n), row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows = mq.arange(n, device=mat.device)
    chosen = rows < rows.view(-1, 1) + (diag + 1)
    return mat[..., chosen]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices (*, n, n) with these elements on and below a diagonal, zeros above."""
    count = (1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)
    n = (-(1 + 2 * diag) + math.sqrt(count)) / 2
    size = round(n)
    if abs(n - size) > 1e-6:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the "
            f"lower triangular part of a square D x D matrix."
        )
    mat = vec.new_zeros((*vec.shape[:-1], size, size))
    rows = mq.arange(size, device=vec.device)
    mat[..., rows < rows.view(-1, 1) + (diag + 1)] = vec
    return mat


def _standard_normal(shape: Sequence[int], dtype: Dtype, device: Device) -> Tensor:
    """Numbers from a normal distribution of mean 0 and deviation 1."""
    return mq.empty(tuple(shape), dtype=dtype, device=device).normal_()


def summed(value: Tensor, dims: int) -> Tensor:
    """The sum over the last dimensions; the value itself for none."""
    if not dims:
        return value
    return value.reshape((*value.shape[: max(0, value.dim() - dims)], -1)).sum(-1)


_sum_rightmost = summed


def has_data(value: Tensor) -> bool:
    """Whether values can be read: not those of fake tensors and of the device meta."""
    return value.fake_mode is None and not value.is_meta
