"""`torch.utils._python_dispatch`: dispatch modes and their stack, with torch's underscores."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward, without_underscores

__getattr__ = forward(
    __name__,
    "maquette.dispatch.modes",
    "maquette.dispatch.pre_dispatch",
    "maquette.dispatch.handlers",
    "maquette.dispatch.overrides",
    "maquette.dispatch.base",
    "maquette.dispatch.packet",
    "maquette.dispatch.torch_function",
    "maquette.dispatch",
    "maquette.tensor.subclass",
    spellings=without_underscores,
)
