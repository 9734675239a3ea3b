"""`torch.nested`: jagged and strided nested tensors; torch's private functions that make them."""

from maquette.nested import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)
from maquette.nested.construction import nested_from_padded as _nested_from_padded
from maquette.nested.construction import (
    nested_from_padded_and_nested_example as _nested_from_padded_and_nested_example,
)
from maquette.nested.construction import nested_tensor_from_mask as _nested_tensor_from_mask

__all__ = [
    "_nested_from_padded",
    "_nested_from_padded_and_nested_example",
    "_nested_tensor_from_mask",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
