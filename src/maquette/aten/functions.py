"""The functional face: every aten operator as a torch-named function, found when first used.

``from maquette.aten import functions as mq`` then ``mq.conv2d(...)``. What is no operator (`tensor`,
`from_numpy` ...) is defined in `creation.py` and handed on here.
"""

from __future__ import annotations

from maquette.aten.faces import Face, find_function


def __getattr__(name: str) -> Face:
    found = None if name.startswith("__") else find_function(name)
    if found is None:
        raise AttributeError(f"module 'maquette' has no attribute '{name}'")
    globals()[name] = found
    return found
