"""`torch.cpu.amp`, the old place of `torch.amp`, where the device is the cpu."""

from __future__ import annotations

from typing import Any

from maquette.core import dtype as dtypes
from maquette.torch import amp
from maquette.torch.devices.old_amp import warn_of_old_place


class autocast(amp.autocast):
    """`torch.amp.autocast` for the cpu."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        warn_of_old_place("cpu", "autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for the cpu."""

    def __init__(self, *args: Any, **options: Any) -> None:
        warn_of_old_place("cpu", "GradScaler")
        super().__init__("cpu", *args, **options)


__all__ = ["GradScaler", "autocast"]
