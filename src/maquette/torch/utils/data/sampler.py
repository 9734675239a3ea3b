"""Samplers: the order in which the samples of a data set are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

from maquette.api import functions as mq
from maquette.core.dtype import float64, int64
from maquette.tensor.streams.generator import Generator
from maquette.tensor.tensor import Tensor

_AT_ONCE = 32  # how many indices are drawn together with replacement: part of what a seed gives
T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """The indices to read, in order: subclasses define ``__iter__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new random order each time; with ``replacement``, ``num_samples`` independent draws."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: object | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            # One draw a pass, as in PyTorch: what is drawn between two samples does not matter.
            generator = Generator().manual_seed(int(mq.empty((), dtype=int64).random_().item()))
        # Orders are drawn until one is not used up, as in PyTorch: that shows in the next pass with
        # a generator of the caller's own.
        while wanted > 0 or (wanted == 0 and size and not self.replacement):
            if self.replacement:
                count = min(wanted, _AT_ONCE)
                drawn = mq.randint(0, size, (count,), generator=generator).tolist()
            else:
                drawn = mq.randperm(size, generator=generator).tolist()
            yield from drawn[:wanted]
            wanted -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices, in a new random order each time."""

    def __init__(self, indices: Sequence[int], generator: object | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in mq.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """``num_samples`` indices, each drawn as often as its weight says."""

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: object | None = None,
    ) -> None:
        if type(num_samples) is not int or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer, but got {num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a bool, but got {replacement!r}")
        self.weights = mq.as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(f"weights should be numbers in a row, but got {self.weights.meta}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = mq.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler in lists; ``drop_last`` leaves out a last one too short."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a bool, but got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]  # sized, or Python's own error
        whole, rest = divmod(size, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
