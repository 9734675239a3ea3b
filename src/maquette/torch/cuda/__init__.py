"""`torch.cuda`: the devices that CuPy finds, the one that a plan assumes, or none.

Programs that ask get honest answers and go on. Kernels are done when a call returns, so nothing is
to be waited for. A cuda *tensor* needs no device: it exists as a fake tensor (`FakeTensorMode`),
and how much memory a program would take is what `maquette.plan` says.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, NoReturn

from maquette.core.device import device as _Device
from maquette.dispatch.tls import tls
from maquette.fake import FakeTensorMode
from maquette.tensor.cuda_devices import DeviceProperties, devices
from maquette.torch.face.forwarding import forward
from maquette.torch.settings import AcceleratorError as AcceleratorError
from maquette.torch.settings import OutOfMemoryError as OutOfMemoryError

Device = object
_FAKE_CAPABILITY = (9, 0)
# Programs that save devices' generators read PyTorch's own flag: there are none to save.
_initialized = False


def is_available() -> bool:
    """Whether there is a device."""
    return bool(devices())


def is_initialized() -> bool:
    """Whether there is a device: it needs no other preparation."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a device that computes in bfloat16."""
    found = devices()
    return bool(found) and (including_emulation or found[0].major >= 8)


def device_count() -> int:
    """How many devices there are."""
    return len(devices())


def is_current_stream_capturing() -> bool:
    """False."""
    return False


def _no_device(what: str) -> NoReturn:
    raise RuntimeError(
        f"torch.cuda.{what}: there is no CUDA device here (torch.cuda.is_available() is False); "
        f"run in FakeTensorMode, or ask maquette.plan what a device would do"
    )


def current_device() -> int:
    """0, the device that is used; RuntimeError where there is none."""
    _one("current_device()", None)
    return 0


def set_device(device: Device) -> None:
    """Nothing, of the device that is used; RuntimeError for one that is not there."""
    _one(f"set_device({device!r})", device)


def get_device_name(device: Device = None) -> str:
    """What the device is called; RuntimeError for one that is not there."""
    return _one("get_device_name()", device).name


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Name, total_memory in bytes and more; RuntimeError for a device that is not there."""
    return _one("get_device_properties()", device)


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """(major, minor); RuntimeError for a device that is not there, but in a `FakeTensorMode`.

    The cuda that fake tensors are on has compute capability 9.0 where the machine has none.
    """
    if isinstance(tls.st.fake_mode, FakeTensorMode) and not devices():
        return _FAKE_CAPABILITY
    found = _one("get_device_capability()", device)
    return found.major, found.minor


def _one(what: str, device: Device) -> DeviceProperties:
    index = device if isinstance(device, int) else None
    if isinstance(device, (str, _Device)):
        index = _Device(device).index
    found = devices()
    if not 0 <= (index or 0) < len(found):
        _no_device(what)
    return found[index or 0]


def init() -> None:
    """Nothing; RuntimeError where there is no device."""
    _one("init()", None)


class device:  # PyTorch's name
    """Nothing for the block: there is one device, or none, which cannot become the current one."""

    def __init__(self, device: Device) -> None:
        self.idx = -1

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, *error: object) -> Literal[False]:
        return False


class device_of(device):  # PyTorch's name
    """The device of a tensor or storage for the block: nothing, as `device`."""

    def __init__(self, obj: object) -> None:
        super().__init__(None)


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


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, object]:
    """No figures."""
    return {}


def host_memory_stats() -> dict[str, int]:
    """No figures."""
    return {}


def host_memory_stats_as_nested_dict() -> dict[str, object]:
    """No figures."""
    return {}


def get_gencode_flags() -> str:
    """None: no device is there to build for."""
    return ""


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator of a device. `torch.manual_seed` seeds all there are."""


def manual_seed_all(seed: int) -> None:
    """Nothing, likewise."""


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes, nothing being in use; RuntimeError for a device that is not there."""
    total = _one("mem_get_info()", device).total_memory
    return total, total


def reset_max_memory_allocated(device: Device = None) -> None:
    """Nothing: there are no figures."""


has_half = True
has_magma = False


def memory_cached(device: Device = None) -> int:
    """`memory_reserved`, under a name that is deprecated."""
    warnings.warn(
        "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`",
        FutureWarning,
        stacklevel=2,
    )
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> int:
    """`max_memory_reserved`, under a name that is deprecated."""
    warnings.warn(
        "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`",
        FutureWarning,
        stacklevel=2,
    )
    return max_memory_reserved(device)


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


def get_rng_state(device: Device = "cuda") -> NoReturn:
    """RuntimeError: there is no device."""
    _no_device("get_rng_state()")


def set_rng_state(new_state: object, device: Device = "cuda") -> NoReturn:
    """RuntimeError: there is no device."""
    _no_device("set_rng_state()")


def initial_seed() -> NoReturn:
    """RuntimeError: there is no device."""
    _no_device("initial_seed()")


def seed() -> None:
    """Nothing: there is no generator."""


seed_all = seed


def get_sync_debug_mode() -> int:
    """0."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Nothing: nothing waits for a device."""


def get_rng_state_all() -> list[object]:
    """None: there are no devices."""
    return []


def set_rng_state_all(new_states: object) -> None:
    """Nothing: there are no devices."""


def _lazy_call(callable: Callable[[], object], **kwargs: object) -> None:
    """Call it now if there is a device; without one nothing is ever ready for it."""
    if is_available():
        callable()


def is_tf32_supported() -> bool:
    """Whether there is a device that has it."""
    found = devices()
    return bool(found) and found[0].major >= 8


default_generators: tuple[object, ...] = ()
"""The generators of the devices, of which there are none."""

__getattr__ = forward(
    __name__,
    "maquette.torch.cuda.streams",
    "maquette.torch.devices.streams",
    "maquette.torch.cuda.tensor_types",
)
