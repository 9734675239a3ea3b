"""`torch.mps`: there is no such device here."""

from __future__ import annotations

from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette.torch._absent", "maquette.torch.streams")
