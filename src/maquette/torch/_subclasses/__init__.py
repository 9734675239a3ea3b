"""`torch._subclasses`: fake tensors."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette.fake")
