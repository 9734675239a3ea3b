"""`torch.utils`: modules, and `swap_tensors`."""

from __future__ import annotations

from maquette.nn.base.swapping import swap_tensors
from maquette.torch.face.forwarding import forward


def set_module(obj: object, mod: str) -> None:
    """Say of a class or function that it is of another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


__getattr__ = forward(__name__)
__all__ = ["swap_tensors"]
