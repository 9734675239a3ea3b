"""`torch.cpu.amp`, the old place of `torch.amp`, where the device is the cpu."""

from __future__ import annotations

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

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_of_old_place("cpu", "GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast"]
