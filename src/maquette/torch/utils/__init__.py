"""`torch.utils`: modules, and `swap_tensors`."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.swapping import swap_tensors

__all__ = ["swap_tensors"]
__getattr__ = forward(__name__)
__all__ = ["swap_tensors"]
