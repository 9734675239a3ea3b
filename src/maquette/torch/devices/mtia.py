"""`torch.mtia`: there is no such device here."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
