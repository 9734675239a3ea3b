"""`torch._VF`: the functions of `torch`, under the name that modules of PyTorch's call them by."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette")
