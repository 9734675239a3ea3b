"""`torch._C._functorch`: questions about levels, under torch's private names."""

from __future__ import annotations

from maquette.dispatch.base import TransformType
from maquette.torch.face.forwarding import forward, without_underscores
from maquette.transforms.interpreter import Interpreter as CInterpreter

__getattr__ = forward(
    __name__,
    "maquette.transforms.inspection",
    spellings=without_underscores,
    path="_C._functorch",
)
__all__ = ["CInterpreter", "TransformType"]
