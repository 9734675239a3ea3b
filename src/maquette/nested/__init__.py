"""Nested tensors: rows of different sizes in one tensor, jagged or strided (`torch.nested`)."""

from maquette.nested.construction import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)
from maquette.nested.strided import StridedNestedTensor
from maquette.nested.tensor import NestedTensor

__all__ = [
    "NestedTensor",
    "StridedNestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
