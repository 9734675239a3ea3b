"""`DataParallel`: a module on several devices; where there is none, it only holds its module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

    def replicate(self, module: Module, device_ids: Devices) -> list[Module]:
        """The module, for the one place."""
        return [module]

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Devices
    ) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
        """The inputs of the one place."""
        return (inputs,), (kwargs or {},)

    def parallel_apply(
        self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Sequence[dict[str, Any]]
    ) -> list[Any]:
        """What each replica gives of its inputs, one after the other."""
        return [m(*given, **named) for m, given, named in zip(replicas, inputs, kwargs)]

    def gather(self, outputs: Sequence[Any], output_device: int | device) -> Any:
        """The outputs of the one place."""
        return outputs[0]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Devices | None = None,
    output_device: int | device | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """The module of the inputs, in one place; NotImplementedError if devices are named."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))
