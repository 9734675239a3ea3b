"""How masked tensors are made: as leaves, or within the graph of their data."""

from __future__ import annotations

from maquette.tensor.tensor import Tensor
from maquette.torch.masked_tensors.core import MaskedTensor


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of copies, a leaf of the graph; see `MaskedTensor`."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor whose gradient goes to ``data``; see `MaskedTensor`."""
    return MaskedTensor._from_values(data, mask)


__all__ = ["as_masked_tensor", "masked_tensor"]
