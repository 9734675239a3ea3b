"""`torch.testing._internal.composite_compliance`: what kind of operator one is, by its schema.

The rest of PyTorch's module tests its own operators and is not here.
"""

from __future__ import annotations

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag


def is_inplace_view_fn(func: OpOverload) -> bool:
    """Whether it gives the tensor itself, which has become another view: ``t_``."""
    return Tag.inplace_view in func.tags


def is_view_fn(func: OpOverload) -> bool:
    """Whether it gives a view of an argument: ``view``, and ``t_``."""
    return func.is_view or is_inplace_view_fn(func)


def is_inplace(func: OpOverload) -> bool:
    """Whether it is the form that mutates its first argument: ``add_``."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("__i") and name.endswith("__"):
        return True
    return name.endswith("_") and not name.endswith("__")


__all__ = ["is_inplace", "is_inplace_view_fn", "is_view_fn"]
