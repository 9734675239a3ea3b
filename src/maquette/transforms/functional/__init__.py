"""Functionalization: a program that mutates tensors and shares memory made one that does neither.

A wrapper stands for each tensor of the program (`wrapper.py`). Operators run on their values,
in-place forms through their functional twins (`kernel.py`); a new value of a view is put into its
base, and other views of it are computed anew when next used (`storage.py`). It comes as the key
Functionalize, as the transform `functionalize` (`level.py`) and as a dispatch mode over tensors of
a class of its own (`mode.py`).
"""

from maquette.transforms.functional.level import (
    disable_functionalization,
    enable_functionalization,
    freeze_functional_tensor,
    from_functional_tensor,
    functionalize,
    is_functional_tensor,
    mirror_autograd_meta_to,
    reapply_views,
    sync,
    to_functional_tensor,
)

__all__ = [
    "disable_functionalization",
    "enable_functionalization",
    "freeze_functional_tensor",
    "from_functional_tensor",
    "functionalize",
    "is_functional_tensor",
    "mirror_autograd_meta_to",
    "reapply_views",
    "sync",
    "to_functional_tensor",
]
