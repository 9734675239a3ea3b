"""Which CUDA device there is: CuPy's, one that a plan assumes, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from maquette.tensor.backend import backend_of


@dataclass(frozen=True)
class DeviceProperties:
    """What programs ask of a device; total_memory in bytes."""

    name: str
    total_memory: int
    major: int = 9
    minor: int = 0
    multi_processor_count: int = 132
    warp_size: int = 32


_assumed: list[DeviceProperties] = []


@contextmanager
def device_assumed(properties: DeviceProperties) -> Iterator[None]:
    """In the block programs find one CUDA device, for which fake tensors need no hardware."""
    _assumed.append(properties)
    try:
        yield
    finally:
        _assumed.pop()


def devices() -> list[DeviceProperties]:
    """The devices that programs find."""
    return _assumed[-1:] or _real()


@cache
def _real() -> list[DeviceProperties]:
    try:
        runtime = backend_of("cuda").namespace.cuda.runtime
    except (NotImplementedError, AttributeError):
        return []
    found = []
    for number in range(runtime.getDeviceCount()):
        told = runtime.getDeviceProperties(number)
        found.append(
            DeviceProperties(
                told["name"].decode(),
                told["totalGlobalMem"],
                told["major"],
                told["minor"],
                told["multiProcessorCount"],
                told["warpSize"],
            )
        )
    return found
