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
