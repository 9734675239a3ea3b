"""`torch._VF`: the functions of `torch`, under the name that modules of PyTorch's call them by."""

from __future__ import annotations

from maquette.dispatch.registry import ops
from maquette.torch.face.forwarding import forward

unique_dim = ops.aten.unique_dim
__and__, __or__, __xor__ = ops.aten.bitwise_and, ops.aten.bitwise_or, ops.aten.bitwise_xor
__lshift__, __rshift__ = ops.aten.bitwise_left_shift, ops.aten.bitwise_right_shift
__getattr__ = forward(__name__, "maquette")
