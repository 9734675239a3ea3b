"""`torch.utils.data._utils.pin_memory`: a batch with each of its parts pinned.

Here pinned memory is a mark only. Objects with a method ``pin_memory`` are asked what they give.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any


def pin_memory(data: Any, device: object = None) -> Any:
    """``data`` with tensors and other things that can be pinned pinned, in like containers.

    device: taken for PyTorch's sake.
    """
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value, device) for key, value in data.items()}
        return _refilled(data, pinned) if isinstance(data, MutableMapping) else _like(data, pinned)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, Sequence):
        values = [pin_memory(value, device) for value in data]
        return _refilled(data, values) if isinstance(data, MutableSequence) else _like(data, values)
    return data


def _refilled(container: Any, values: Any) -> Any:
    """A copy of a mutable container, which may have attributes of its own, with other values."""
    refilled = copy.copy(container)
    if isinstance(values, dict):
        refilled.update(values)
    else:
        refilled[:] = values
    return refilled


def _like(container: Any, values: Any) -> Any:
    try:
        return type(container)(values)
    except TypeError:  # its class is not made of its values
        return values


__all__ = ["pin_memory"]
