"""`torch.cuda.amp`, the old place of `torch.amp`, where the device is cuda."""

from __future__ import annotations

from collections.abc import Callable
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

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_of_old_place("cuda", "GradScaler")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: dtypes.dtype | None = None
) -> Any:
    """`torch.amp.custom_fwd` for cuda."""
    warn_of_old_place("cuda", "custom_fwd")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.amp.custom_bwd` for cuda."""
    warn_of_old_place("cuda", "custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__getattr__ = forward(__name__, "maquette.amp")


def amp_definitely_not_available() -> bool:
    """True: there is no device that would need its gradients scaled."""
    return True
