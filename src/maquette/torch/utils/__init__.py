"""`torch.utils`: modules, and `swap_tensors`."""

from __future__ import annotations

from maquette.nn.base.swapping import swap_tensors
from maquette.torch.face.forwarding import forward

__all__ = ["swap_tensors"]
__getattr__ = forward(__name__)
__all__ = ["swap_tensors"]
