"""`torch.cuda.amp`, the old place of `torch.amp`."""

from __future__ import annotations

from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette.torch.amp")
