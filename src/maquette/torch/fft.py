"""`torch.fft`: the operators whose names begin with ``fft_``."""

from __future__ import annotations

from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette", spellings=lambda name: (f"fft_{name}",))
