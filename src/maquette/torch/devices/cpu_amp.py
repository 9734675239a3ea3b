"""`torch.cpu.amp`, the old place of `torch.amp`, where the device is the cpu."""

from __future__ import annotations

import warnings
from typing import Any

from maquette.core import dtype as dtypes
from maquette.torch import amp


def _moved(name: str) -> None:
    warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', "
        f"args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """`torch.amp.autocast` for the cpu."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        _moved("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for the cpu."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _moved("GradScaler")
        super().__init__("cpu", *args, **options)


__all__ = ["GradScaler", "autocast"]
