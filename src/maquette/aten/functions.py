"""The functional face: every aten operator as a torch-named function, found when first used.

``from maquette.aten import functions as mq`` then ``mq.conv2d(...)``. What is no operator (`tensor`,
`from_numpy` ...) is defined in `creation.py` and handed on here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.aten.catalogue import explain
from maquette.aten.creation import (
    as_tensor,
    asarray,
    from_numpy,
    frombuffer,
    get_default_device,
    set_default_device,
    tensor,
)
from maquette.aten.faces import find_function
from maquette.aten.product_functions import chain_matmul, einsum, tensordot


def __getattr__(name: str) -> Callable[..., Any]:  # what an operator returns, its schema says
    found = None if name.startswith("__") else find_function(name)
    if found is None:
        hint = "" if name.startswith("__") else explain("aten", name)
        raise AttributeError(f"module 'maquette' has no attribute '{name}'.{hint}")
    globals()[name] = found
    return found


__all__ = [
    "as_tensor",
    "asarray",
    "chain_matmul",
    "einsum",
    "from_numpy",
    "frombuffer",
    "get_default_device",
    "set_default_device",
    "tensor",
    "tensordot",
]
