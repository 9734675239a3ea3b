"""Operators of two tensors of one mask, element by element; either may be plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.core.layout import strided
from maquette.dispatch.registry import ops
from maquette.tensor.tensor import Tensor
from maquette.torch.masked_tensors.core import (
    Args,
    Options,
    _masks_match,
    is_masked_tensor,
    is_tensor,
    mapped,
    same_indices,
    wrapped,
)
from maquette.torch.masked_tensors.unary import on_values

BINARY_NAMES = """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div
    divide floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract
    true_divide eq ne le ge greater greater_equal gt less_equal lt less maximum minimum fmax fmin
    not_equal
""".split()
_WITHOUT_INPLACE = ("logaddexp", "logaddexp2", "fmin", "minimum", "maximum", "fmax")
INPLACE_BINARY_NAMES = [f"{name}_" for name in BINARY_NAMES if name not in _WITHOUT_INPLACE]
NATIVE_BINARY_FNS = [getattr(ops.aten, name) for name in BINARY_NAMES]
NATIVE_INPLACE_BINARY_FNS = [getattr(ops.aten, name) for name in INPLACE_BINARY_NAMES]


def binary(op: Callable[..., Tensor], args: Args, kwargs: Options, *, inplace: bool) -> Any:
    """What an operator does to two tensors, one masked at least; ValueError for two masks."""
    if kwargs:
        raise ValueError(f"len(kwargs) must equal 0; got {sorted(kwargs)}")
    if any(is_tensor(a) for a in args[2:]):
        raise TypeError(
            "MaskedTensor binary ops do not support Tensor arguments aside from the lhs and rhs"
        )
    if not _masks_match(args[0], args[1]):
        raise ValueError("Input masks must match, and they differ.")
    data, _ = mapped(args, {}, lambda t: t._masked_data)
    first, second = data[:2]
    if is_tensor(first) and first.layout is not strided and is_tensor(second):
        if second.layout is first.layout:
            _check_alike(first, second)
            data[1] = second.values()
    result = on_values(op, data) if is_tensor(first) else op(*data)
    mask = next(t._masked_mask for t in args[:2] if is_masked_tensor(t))
    if inplace:
        args[0]._set_data_mask(result, args[0]._masked_mask)
        return args[0]
    return wrapped(result, mask.expand_as(result) if result.layout is strided else mask)


def _check_alike(first: Tensor, second: Tensor) -> None:
    if not same_indices(first, second):
        raise ValueError(
            f"{first.layout} indices must match, and they differ.".removeprefix("torch.")
        )
    if first.size() != second.size():
        raise ValueError("input1 and input2 must have the same size for binary functions.")
