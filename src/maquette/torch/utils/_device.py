"""`torch.utils._device`: the default device of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from maquette.autograd.decorating import decorated
from maquette.core.device import device as Device

P = ParamSpec("P")
R = TypeVar("R")


def set_device(device: Device | str | int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: factories in the function, a generator too, make tensors on ``device``."""
    where = Device(device)
    return lambda function: decorated(lambda: where, function)
