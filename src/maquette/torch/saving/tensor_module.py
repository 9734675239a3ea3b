"""`torch._tensor`: the class of tensors, and what pickles of its subclasses are made by."""

from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward
from maquette.torch.saving._utils import _rebuild_from_type_v2

__all__ = ["Tensor", "_rebuild_from_type_v2"]

__getattr__ = forward(__name__, "maquette.tensor.tensor")
