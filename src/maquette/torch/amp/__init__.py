"""`torch.amp`: autocast, where maquette has it."""

from __future__ import annotations

from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette")
