"""`torch.masked.maskedtensor`: tensors some of whose elements do not count."""

from maquette.torch.masked_tensors.core import MaskedTensor, is_masked_tensor
from maquette.torch.masked_tensors.creation import as_masked_tensor, masked_tensor
from maquette.torch.masked_tensors.operators import FUNCTIONS as FUNCTIONS

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
