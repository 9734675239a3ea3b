"""What the dispatcher knows of a tensor: that it is one, and its key set.

Floor 3 handles tensors without knowing their storage, shape or autograd state; those live on
floor 4, whose tensor class derives from `TensorBase`. The one idea: the dispatcher reads `_keys`
and nothing else.
"""

from __future__ import annotations


class TensorBase:
    """The class every tensor derives from; `_keys` is its dispatch key set as an int."""

    __slots__ = ()

    _keys: int
