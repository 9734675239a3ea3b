"""`torch.xpu`: there is no such device here."""

from __future__ import annotations

from maquette.core.device import device as Device
from maquette.torch.devices import _absent, streams
from maquette.torch.face.forwarding import forward

default_generators: tuple[object, ...] = ()


def get_arch_list() -> list[str]:
    """None: nothing was compiled for such a device."""
    return []


def get_gencode_flags() -> str:
    """None: nothing was compiled for such a device."""
    return ""


def is_tf32_supported() -> bool:
    """False."""
    return False


def seed() -> None:
    """Nothing: there is no generator."""


seed_all = seed


def memory_stats(device: object = None) -> dict[str, int]:
    """No figures."""
    return {}


def memory_stats_as_nested_dict(device: object = None) -> dict[str, object]:
    """No figures."""
    return {}


class Event(streams.Event):
    """A moment of a device's work, which has come when it is recorded."""

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(enable_timing=enable_timing)


class Stream(streams.Stream):
    """A queue of work of a device; all work of it is done."""

    event_type = Event

    def __init__(
        self, device: Device | str | int | None = None, priority: int = 0, **kwargs: int
    ) -> None:
        """kwargs: PyTorch's numbers of an existing stream, as `torch.Stream` has them."""
        super().__init__(device, priority, **kwargs)


class graph(streams.graph):  # PyTorch's name
    """A block whose work is captured: RuntimeError, for there is no device that works."""

    def __init__(
        self,
        xpu_graph: streams.CUDAGraph,
        pool: object = None,
        stream: streams.Stream | None = None,
    ) -> None:
        super().__init__(xpu_graph, pool, stream)


get_rng_state, set_rng_state = _absent.rng_state_functions("xpu")

__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
