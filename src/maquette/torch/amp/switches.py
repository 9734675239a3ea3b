"""The functions by which programs of old look at autocasting and switch it: it is always off."""

from __future__ import annotations

from maquette.core import dtype as dtypes
from maquette.torch.amp import autocast


class _Cache:
    """Whether autocasting would keep the weights that it cast."""

    enabled = True


def is_autocast_cpu_enabled() -> bool:
    """False."""
    return False


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """What autocasting would cast to on cpu."""
    return dtypes.bfloat16


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """What autocasting would cast to on cuda."""
    return dtypes.float16


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Nothing for False; NotImplementedError for True, as of `autocast` itself."""
    on = device_type if enabled is None else enabled
    autocast("cuda" if isinstance(device_type, bool) else device_type, enabled=bool(on))


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled` of the cpu."""
    set_autocast_enabled("cpu", enabled)


def is_autocast_cache_enabled() -> bool:
    """What `set_autocast_cache_enabled` set."""
    return _Cache.enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Kept and not used."""
    _Cache.enabled = enabled


def clear_autocast_cache() -> None:
    """Nothing: there is nothing in it."""
