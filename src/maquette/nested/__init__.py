"""Jagged nested tensors: rows of different lengths in one tensor (`torch.nested`)."""

from maquette.nested.construction import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)
from maquette.nested.tensor import NestedTensor

__all__ = [
    "NestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
