"""Which device an operation runs on, given its tensors."""

from collections.abc import Iterable
from typing import Protocol

from maquette.core.device import device


class PlacedOperand(Protocol):
    """What the rule needs of a tensor: a `TensorMeta`, say."""

    @property
    def device(self) -> device:
        """Where it lives."""

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""


class DeviceMismatchError(RuntimeError):
    """Tensors of one operation live on different devices.

    func: the operator, where a fake kernel raised it. common_device: where the tensors before it
    live; device: where the one lives that is elsewhere.
    """

    def __init__(
        self, message: str, common_device: device | None = None, device: device | None = None
    ) -> None:
        super().__init__(message)
        self.func: object = None
        self.common_device = common_device
        self.device = device


def common_device(op_name: str, metas: Iterable[PlacedOperand]) -> device:
    """The device that all tensors share (spec F49, T35).

    A 0-dim cpu tensor goes with any device and yields to it. Raises DeviceMismatchError when two
    other devices meet, ValueError without tensors.
    """
    found: device | None = None
    yields = False
    for meta in metas:
        here = meta.device
        if here is found and not yields:
            continue
        here_yields = meta.ndim == 0 and here.type == "cpu"
        if found is None or (yields and here is not found):
            found, yields = here, here_yields
        elif here is found:
            yields = yields and here_yields
        elif not here_yields:
            raise DeviceMismatchError(
                f"Expected all tensors to be on the same device, but found at least two devices, "
                f"{found} and {here}! ({op_name}: move one of them with .to())",
                found,
                here,
            )
    if found is None:
        raise ValueError(f"{op_name}: expected at least one tensor, got none")
    return found


def any_elsewhere(metas: Iterable[PlacedOperand]) -> bool:
    """Whether a tensor is on a device that holds no data here: neither on the cpu nor on meta.

    Calls on those two alone can be made for real, so what they may mix is what kernels can take.
    """
    return any(meta.device.type not in ("cpu", "meta") for meta in metas)


def check_one_device(op_name: str, metas: Iterable[PlacedOperand]) -> None:
    """Refuse tensors on devices that differ, 0-dim cpu tensors too (spec F51)."""
    devices = list(dict.fromkeys(meta.device for meta in metas))
    if len(devices) > 1:
        raise DeviceMismatchError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}! ({op_name}: 0-dim cpu tensors are no exception here)",
            *devices[:2],
        )
