"""`torch.autograd.profiler`, the old place of `torch.profiler`."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.profiler import profile, record_function

__all__ = ["profile", "record_function"]
__getattr__ = forward(__name__, "maquette.torch.profiler")
