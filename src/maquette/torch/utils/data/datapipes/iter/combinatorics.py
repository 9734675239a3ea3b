"""`Sampler` and `Shuffler`: samples in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, TypeVar

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of
from maquette.torch.utils.data.datapipes.seeds import Seeded
from maquette.torch.utils.data.sampler import Sampler, SequentialSampler

T = TypeVar("T")

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe[Any]):
    """What a sampler of ``datapipe`` gives: ``sampler(*sampler_args, data_source=datapipe, ...)``.

    AssertionError for a pipe that does not know how many samples it has.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler_args = sampler_args or ()
        self.sampler_kwargs = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length_of(self.sampler, self)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Seeded, IterDataPipe[T]):
    """The samples in random order, each one drawn of the ``buffer_size`` that wait.

    A buffer as long as the pipe gives all orders; one of 1, none. unbatch_level: take batches apart
    before, as `UnBatcher`. The seed is drawn by torch's generator, or given by ``set_seed``.

    (functional name: ``shuffle``)
    """

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        super().__init__()
        self.datapipe: IterDataPipe[T] = (
            datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        )
        self.buffer_size = buffer_size
        self._buffer: list[T] = []

    def __iter__(self) -> Iterator[T]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer = self._buffer
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            place = self._rng.randint(0, len(buffer) - 1)
            drawn, buffer[place] = buffer[place], sample
            yield drawn
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length_of(self.datapipe, self)

    def reset(self) -> None:
        """Empty the buffer and begin with a new seed."""
        self._buffer = []
        if self._enabled:
            self._reseed()
