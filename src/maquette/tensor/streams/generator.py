"""Generators of random numbers: one state each, a default one for every device.

Only kernels draw from them, so work on fake and meta tensors never advances one. The numbers of a
seed are those of PyTorch's CPU generator (`mersenne.py`), and states are exchanged with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from maquette.core.device import canonical, cpu
from maquette.core.device import device as Device
from maquette.core.dtype import uint8
from maquette.core.errors import check, check_value
from maquette.tensor.streams.mersenne import MersenneStream
from maquette.tensor.tensor import Tensor, from_array

_SEEDS = 2**64
FIRST_SEED = 67280421310721  # PyTorch's, of a generator that is made


_DEVICES = ("cpu", "cuda", "meta", "mps", "xpu", "mtia", "privateuseone")


class Generator:
    """A stream of random numbers; equal seeds give equal streams.

    `Generator("cuda")` is a stream for that device, None is the cpu. Pass one as ``generator=``.
    """

    def __init__(self, device: Device | str | None = "cpu") -> None:
        self._device = canonical(Device("cpu" if device is None else device))
        check(
            self._device.type in _DEVICES,
            lambda: f"{self._device.type} device type not an accelerator: no Generator draws on it",
        )
        self._seed = FIRST_SEED
        # Made at the first draw: numpy.random is a tenth of what `import maquette` may take.
        self._drawn: MersenneStream | None = None

    @property
    def device(self) -> Device:
        """The device whose tensors this fills."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``; negative seeds count from 2**64."""
        check(
            isinstance(seed, int) and not isinstance(seed, bool),
            lambda: f"manual_seed expected a long, but got {type(seed).__name__}",
        )
        check_value(
            -(2**63) <= seed < _SEEDS, lambda: f"Overflow when unpacking long long: seed {seed}"
        )
        self._seed = seed % _SEEDS
        self._drawn = None
        return self

    def seed(self) -> int:
        """Start the stream of a random seed, and say which."""
        self.manual_seed(int.from_bytes(os.urandom(6), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> Tensor:
        """Where the stream is: a uint8 tensor of 5,056 bytes, laid out as PyTorch's."""
        return from_array(np.frombuffer(bytearray(self.stream().state()), np.uint8))

    def set_state(self, state: Tensor) -> Generator:
        """Go where `get_state`, ours or PyTorch's, found a stream; else RuntimeError."""
        if not isinstance(state, Tensor) or state.meta.dtype is not uint8:
            what = state.meta if isinstance(state, Tensor) else type(state).__name__
            raise TypeError(f"expected a torch.ByteTensor, what get_state() gives, got {what}")
        try:
            drawn = MersenneStream.from_state(state.numpy().tobytes())
        except ValueError as error:
            raise RuntimeError(
                f"set_state() expects what get_state() gave, got {state.meta}: {error}"
            ) from None
        self._seed, self._drawn = drawn.seed, drawn
        return self

    def clone_state(self) -> Generator:
        """A generator of its own at the same place of the same stream."""
        other = Generator(self._device)
        other.set_state(self.get_state())
        return other

    def get_offset(self) -> int:
        """RuntimeError: streams here are told by their state, not by a seed and an offset."""
        raise RuntimeError(f"{self._device.type.upper()} Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """RuntimeError, likewise."""
        raise RuntimeError(f"{self._device.type.upper()} Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        """The same as `clone_state`: there are no captured graphs here."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Generator) -> None:
        """Go where another generator is."""
        self.set_state(state.get_state())

    def stream(self) -> MersenneStream:
        """What kernels draw from."""
        if self._drawn is None:
            self._drawn = MersenneStream(self._seed)
        return self._drawn

    def __reduce__(self) -> tuple[object, ...]:
        return Generator, (self._device,), (self._seed, None, self.get_state())

    def __setstate__(self, state: tuple[int, int | None, Tensor]) -> None:
        self.set_state(state[2])

    def __repr__(self) -> str:
        return f"<Generator device='{self._device}' seed={self._seed}>"


_defaults: dict[Device, Generator] = {cpu: Generator()}
default_generator = _defaults[cpu]
# A program that sets no seed draws other numbers each time it runs.
default_generator.seed()


def generator_of(device: Device) -> Generator:
    """The default generator of a device, made when first asked for."""
    where = canonical(device)
    found = _defaults.get(where)
    if found is None:
        found = _defaults[where] = Generator(where)
        found.manual_seed(default_generator.initial_seed())
    return found


class _Stream(Protocol):
    def stream(self) -> MersenneStream: ...


def stream_of(generator: _Stream | None) -> MersenneStream:
    """What a kernel draws from: the generator it was given, or the default one."""
    return (default_generator if generator is None else generator).stream()


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices: with the whole part of a float, as of a time."""
    seed = int(seed)
    default_generator.manual_seed(seed)
    for generator in _defaults.values():
        generator.manual_seed(seed)
    return default_generator


def seed() -> int:
    """Seed the default generators with a random number, and say which."""
    chosen = int.from_bytes(os.urandom(6), "little")
    manual_seed(chosen)
    return chosen


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Where the default generator is."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator where `get_rng_state` found it."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[Device | str | int] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Draws in the block leave no trace: default generators are where they were before.

    devices: those that the block draws on beside the cpu, an int for one of ``device_type``, which
    is cuda unless it is said; None for all. The names of the caller are for PyTorch's warnings.
    """
    if not enabled:
        yield
        return
    kept = list(_defaults.values())
    if devices is not None:
        named = [
            Device(device_type or "cuda", d) if isinstance(d, int) else Device(d) for d in devices
        ]
        kept = list({id(g): g for g in map(generator_of, [cpu, *named])}.values())
    before = {generator: generator.get_state() for generator in kept}
    try:
        yield
    finally:
        for generator, state in before.items():
            generator.set_state(state)


__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "generator_of",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "stream_of",
]
