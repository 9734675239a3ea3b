"""`torch.utils`: modules only."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__)
