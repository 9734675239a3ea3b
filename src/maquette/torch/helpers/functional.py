"""`torch.functional`: functions that are made of operators. Names only."""

from __future__ import annotations

import importlib

from maquette.api import functions
from maquette.nn import functional as F  # noqa: F401  # which programs take from here

__all__ = (  # what `__getattr__` finds
    "atleast_1d atleast_2d atleast_3d broadcast_shapes broadcast_tensors cartesian_prod block_diag "
    "cdist chain_matmul einsum istft lu norm meshgrid pca_lowrank split stft svd_lowrank tensordot "
    "unique unique_consecutive unravel_index".split()
)


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    for module in (functions, importlib.import_module("maquette.torch")):
        found: object = getattr(module, name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'torch.functional' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
