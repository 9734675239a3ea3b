"""`DataParallel`: a module on several devices; where there is none, it only holds its module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from maquette.core.device import device
from maquette.nn.base import Module

Devices = Sequence[int | device]


class DataParallel(Module):
    """Holds a module as ``.module`` and calls it: so does PyTorch's on a machine without devices.

    Raises NotImplementedError if devices are named.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Devices | None = None,
        output_device: int | device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        if device_ids:
            raise NotImplementedError(
                f"DataParallel over {list(device_ids)} is not supported by maquette yet: leave "
                "device_ids out to run the module in one place"
            )
        self.module = module
        self.dim = dim
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's."""
        return self.module(*inputs, **kwargs)


def data_parallel(*args: object, **kwargs: object) -> NoReturn:
    """Not there yet: NotImplementedError."""
    raise NotImplementedError("data_parallel is not supported by maquette yet: call the module")


def replicate(*args: object, **kwargs: object) -> NoReturn:
    """Not there yet: NotImplementedError."""
    raise NotImplementedError("replicate is not supported by maquette yet: use the module itself")


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
