"""`torch.cuda` on a machine without CUDA: there is no device, and memory in use is none.

Programs that ask get honest answers and go on; those that wait for the device need not wait. A
cuda *tensor* needs no device: it exists as a fake tensor (`FakeTensorMode`), and how much memory a
program would take is what `maquette.plan` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from maquette.torch.face.forwarding import forward

Device = object


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_current_stream_capturing() -> bool:
    """False."""
    return False


def _no_device(what: str) -> NoReturn:
    raise RuntimeError(
        f"torch.cuda.{what}: there is no CUDA device here (torch.cuda.is_available() is False); "
        f"run in FakeTensorMode, or ask maquette.plan what a device would do"
    )


def current_device() -> int:
    """RuntimeError: there is no device."""
    _no_device("current_device()")


def set_device(device: Device) -> None:
    """RuntimeError: there is no device."""
    _no_device(f"set_device({device!r})")


def get_device_name(device: Device = None) -> str:
    """RuntimeError: there is no device."""
    _no_device("get_device_name()")


def get_device_properties(device: Device = None) -> object:
    """RuntimeError: there is no device."""
    _no_device("get_device_properties()")


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """RuntimeError: there is no device."""
    _no_device("get_device_capability()")


def init() -> None:
    """RuntimeError: there is no device."""
    _no_device("init()")


@contextmanager
def device(device: Device) -> Iterator[None]:
    """Nothing for the block: a device that is not there cannot become the current one."""
    yield


def synchronize(device: Device = None) -> None:
    """Nothing: there is nothing to wait for."""


def empty_cache() -> None:
    """Nothing: there is no cache."""


def ipc_collect() -> None:
    """Nothing."""


def reset_peak_memory_stats(device: Device = None) -> None:
    """Nothing: there are no figures."""


def memory_allocated(device: Device = None) -> int:
    """0 bytes."""
    return 0


def max_memory_allocated(device: Device = None) -> int:
    """0 bytes."""
    return 0


def memory_reserved(device: Device = None) -> int:
    """0 bytes."""
    return 0


def max_memory_reserved(device: Device = None) -> int:
    """0 bytes."""
    return 0


def memory_stats(device: Device = None) -> dict[str, int]:
    """No figures."""
    return {}


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator of a device. `torch.manual_seed` seeds all there are."""


def manual_seed_all(seed: int) -> None:
    """Nothing, likewise."""


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """RuntimeError: there is no device."""
    _no_device("mem_get_info()")


def reset_max_memory_allocated(device: Device = None) -> None:
    """Nothing: there are no figures."""


def reset_max_memory_cached(device: Device = None) -> None:
    """Nothing: there are no figures."""


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Nothing: there are no figures."""


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """No figures."""
    return ""


def get_arch_list() -> list[str]:
    """None: no device is there to build for."""
    return []


def get_rng_state_all() -> list[object]:
    """None: there are no devices."""
    return []


def set_rng_state_all(new_states: object) -> None:
    """Nothing: there are no devices."""


def is_tf32_supported() -> bool:
    """False."""
    return False


default_generators: tuple[object, ...] = ()
"""The generators of the devices, of which there are none."""

__getattr__ = forward(__name__, "maquette.torch.devices.streams", "maquette.torch.tensor_types")
