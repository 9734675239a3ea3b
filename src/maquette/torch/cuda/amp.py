"""`torch.cuda.amp`, the old place of `torch.amp`, where the device is cuda."""

from __future__ import annotations

from typing import Any

from maquette.core import dtype as dtypes
from maquette.torch import amp
from maquette.torch.amp import custom_bwd, custom_fwd
from maquette.torch.forwarding import forward


class autocast(amp.autocast):
    """`torch.amp.autocast` for cuda."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.float16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for cuda."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("cuda", *args, **options)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__getattr__ = forward(__name__, "maquette.torch.amp")
