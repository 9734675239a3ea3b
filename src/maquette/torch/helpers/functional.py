"""`torch.functional`: functions that are made of operators. Names only."""

from __future__ import annotations

import importlib

from maquette.api import functions


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    for module in (functions, importlib.import_module("maquette.torch")):
        found: object = getattr(module, name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'torch.functional' has no attribute '{name}'")
