"""`parallel_apply`: several modules on inputs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.core.device import device
from maquette.nn.base import Module
from maquette.tensor.tensor import Tensor


def get_a_var(obj: object) -> Tensor | None:
    """The first tensor in lists, tuples and dicts within each other, or None."""
    if isinstance(obj, Tensor):
        return obj
    parts = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, list | tuple) else ()
    return next((found for part in parts if (found := get_a_var(part)) is not None), None)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[int | device | None] | None = None,
) -> list[Any]:
    """Each module's output on its inputs, one after the other.

    Raises NotImplementedError if devices are named.
    """
    if devices is not None and any(each is not None for each in devices):
        raise NotImplementedError(
            f"parallel_apply on {list(devices)} is not supported by maquette yet: leave devices out"
        )
    options = kwargs_tup or [{}] * len(modules)
    return [
        module(*(given if isinstance(given, list | tuple) else (given,)), **named)
        for module, given, named in zip(modules, inputs, options, strict=True)
    ]
