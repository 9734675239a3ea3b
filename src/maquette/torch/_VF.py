"""`torch._VF`: the functions of `torch`, under the name that modules of PyTorch's call them by."""

from __future__ import annotations

from maquette.dispatch.registry import ops
from maquette.torch.face.forwarding import forward

unique_dim = ops.aten.unique_dim
__getattr__ = forward(__name__, "maquette")
