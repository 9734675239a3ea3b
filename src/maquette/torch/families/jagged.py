"""`torch.nested._internal.nested_tensor`: jagged tensors, and torch's names of what makes them."""

from maquette.nested.construction import (
    buffer_from_jagged,
    jagged_from_list,
    jagged_from_tensor_and_lengths,
    nested_view_from_values_offsets,
    nested_view_from_values_offsets_lengths,
)
from maquette.nested.tensor import NestedTensor
from maquette.symbolic.nested_ints import NestedInt
from maquette.tensor.nested_ints import nested_size
from maquette.tensor.tensor import Tensor
from maquette.torch.saving.layouts import _rebuild_njt


def get_tensor_symint(tensor: Tensor, *, coeff: int = 1) -> NestedInt:
    """The nested int of a tensor of offsets or lengths, times ``coeff``."""
    return nested_size(tensor) * coeff


__all__ = [
    "NestedTensor",
    "_rebuild_njt",
    "buffer_from_jagged",
    "get_tensor_symint",
    "jagged_from_list",
    "jagged_from_tensor_and_lengths",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]
