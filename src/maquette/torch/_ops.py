"""`torch._ops`: the classes of operators."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward, without_underscores

__getattr__ = forward(
    __name__,
    "maquette.dispatch",
    "maquette.dispatch.registry",
    "maquette.dispatch.operator",
    "maquette.dispatch.modes",
    "maquette.dispatch.pre_dispatch",
    "maquette.dispatch.handlers",
    "maquette.dispatch.overrides",
    "maquette.dispatch.base",
    "maquette.dispatch.packet",
    "maquette.dispatch.torch_function",
    "maquette.dispatch.higher_order",
    spellings=without_underscores,
)
