"""Making modules without drawing their initial values."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from maquette.nn.base import Module

T = TypeVar("T", bound=Module)


def skip_init(module_cls: type[T], *args: Any, **kwargs: Any) -> T:
    """A module of uninitialized parameters, on the device asked for (cpu).

    Raises RuntimeError for a class that is no module or whose constructor takes no device.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    make: Any = module_cls  # its constructor takes a device, as was just seen
    made: T = make(*args, device="meta", **kwargs).to_empty(device=device)
    return made
