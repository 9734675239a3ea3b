"""`torch.special`: the operators whose names begin with ``special_``."""

from __future__ import annotations

from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette", spellings=lambda name: (f"special_{name}",))
