"""`torch.utils._device`: the default device of a block or of a function, as a function mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from maquette.api import functions
from maquette.api.default_device import NAMES
from maquette.api.default_device import DeviceContext as DeviceContext
from maquette.autograd.decorating import decorated
from maquette.core.device import device as Device
from maquette.dispatch.tls import tls
from maquette.nested import nested_tensor
from maquette.torch.face.forwarding import forward

P = ParamSpec("P")
R = TypeVar("R")

_forwarded = forward(__name__)


def _device_constructors() -> set[Callable[..., object]]:
    """The functions whose calls modes see with the default device."""
    named = (getattr(functions, name) for name in NAMES)
    return {functions.tensor, functions.as_tensor, functions.asarray, nested_tensor, *named}


def set_device(device: Device | str | int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: factories in the function, a generator too, make tensors on ``device``."""
    where = Device(device)
    return lambda function: decorated(lambda: where, function)


def device_decorator(device: Device | str | int, func: Callable[P, R]) -> Callable[P, R]:
    """``func`` with ``device`` as the default device in it."""
    return set_device(device)(func)


def __getattr__(name: str) -> object:
    """``CURRENT_DEVICE``: that of the `DeviceContext` entered last, or None."""
    if name != "CURRENT_DEVICE":
        return _forwarded(name)
    modes = (mode for _, mode in tls.st.quiet_modes)
    lowest = (m.device for m in modes if isinstance(m, DeviceContext) and m.is_lowest)
    return next(lowest, None)


__all__ = ["DeviceContext", "_device_constructors", "device_decorator", "set_device"]
