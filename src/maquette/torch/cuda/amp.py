"""`torch.cuda.amp`, the old place of `torch.amp`, where the device is cuda."""

from __future__ import annotations

import functools
from typing import Any

from maquette.core import dtype as dtypes
from maquette.torch import amp
from maquette.torch.devices.old_amp import warn_of_old_place
from maquette.torch.face.forwarding import forward


class autocast(amp.autocast):
    """`torch.amp.autocast` for cuda."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.float16,
        cache_enabled: bool = True,
    ) -> None:
        warn_of_old_place("cuda", "autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for cuda."""

    def __init__(self, *args: Any, **options: Any) -> None:
        warn_of_old_place("cuda", "GradScaler")
        super().__init__("cuda", *args, **options)


custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__getattr__ = forward(__name__, "maquette.amp")


def amp_definitely_not_available() -> bool:
    """True: there is no device that would need its gradients scaled."""
    return True
