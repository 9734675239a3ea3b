"""`torch._custom_ops`, `torch._custom_op.impl`: older names of `torch.library`'s registrations."""

from typing import Final

from maquette.torch.face.forwarding import forward

global_registry: Final[dict[str, object]] = {}
"""Operators made by PyTorch's first interface for them, which is not here: always empty."""

__getattr__ = forward(__name__, "maquette.library")
