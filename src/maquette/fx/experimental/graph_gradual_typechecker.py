"""Broadcasting of tensor types, of which sizes may be unknown (`fx.tensor_type`).

Under the name of PyTorch's module, whose checker of whole graphs is not here.
"""

from __future__ import annotations

from typing import Any

from maquette.fx.tensor_type import Dyn, TensorType


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Both types after broadcasting: as long as the longer, each 1 the other's size.

    An unknown type leaves both as they are. Sizes are not compared. Raises TypeError for anything
    but `Dyn` and `TensorType`.
    """
    if t1 == Dyn or t2 == Dyn:
        return t1, t2
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}: expected TensorType or Dyn")
    rank = max(len(t1.__args__), len(t2.__args__))
    first, second = ([1] * (rank - len(t.__args__)) + list(t.__args__) for t in (t1, t2))
    pairs = [(b if a == 1 else a, a if b == 1 else b) for a, b in zip(first, second)]
    return TensorType(tuple(a for a, _ in pairs)), TensorType(tuple(b for _, b in pairs))
