"""`torch._refs`: PyTorch's operators written in Python; here they are the operators themselves."""

from __future__ import annotations

import importlib
import sys

from maquette.api.from_schema import find_function
from maquette.dispatch.packet import find_packet
from maquette.torch.face import paths

_PUBLIC = {"_broadcast_shapes": "broadcast_shapes"}  # helpers there that are functions here


def __getattr__(name: str) -> object:
    found: object = None
    if not name.startswith("__"):
        served = paths.resolve(f"_refs.{name}")
        found = find_function(name) or find_packet(f"aten::{name}")
        if found is None and served is not None:
            found = importlib.import_module(served)
        if found is None:  # made of operators, as broadcast_shapes is
            found = getattr(
                importlib.import_module("maquette.torch"), _PUBLIC.get(name, name), None
            )
    if found is None:
        raise AttributeError(f"module 'torch._refs' has no attribute '{name}': no such operator")
    setattr(sys.modules[__name__], name, found)
    return found
