"""Data sets: things with samples, by number or one after another."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from maquette.api import functions as mq
from maquette.tensor.streams.generator import Generator, default_generator
from maquette.tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Sized(Protocol):
    """A data set that knows how many samples it has."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> object: ...


class Dataset(Generic[T_co]):
    """Samples by number: subclasses define ``__getitem__`` and, mostly, ``__len__``."""

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset:
        return ConcatDataset([self, other])  # type: ignore[list-item]  # sized, or an error


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples one after another: subclasses define ``__iter__``, or cannot be made."""

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]  # of its kind
        return ChainDataset([self, other])  # type: ignore[list-item]  # iterable, or an error


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors cut along their first dimension: sample i is ``(a[i], b[i], ...)``."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = {t.size(0) for t in tensors}
        if len(sizes) > 1:
            raise AssertionError(f"Size mismatch between tensors: first sizes {sorted(sizes)}")
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[object]):
    """Data sets side by side: a sample is a tuple, or by keyword a dict, with a sample of each."""

    def __init__(self, *args: Sized, **kwargs: Sized) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either all datasets by position (a tuple), or all by keyword (a dict)"
                if args
                else "At least one dataset should be passed"
            )
        self.datasets: tuple[Sized, ...] | dict[str, Sized] = args or kwargs
        lengths = {len(d) for d in (args or kwargs.values())}
        if len(lengths) > 1:
            raise ValueError(f"Size mismatch between datasets: {sorted(lengths)}")

    def __getitem__(self, index: int) -> object:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[object]:
        """Several samples: each data set is asked for all of them at once, if it can be."""
        sets = self.datasets
        listed = sets.values() if isinstance(sets, dict) else sets
        columns = [_samples(dataset, indices) for dataset in listed]
        if isinstance(sets, dict):
            return [dict(zip(sets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*columns, strict=True))

    def __len__(self) -> int:
        sets = self.datasets
        return len(next(iter(sets.values() if isinstance(sets, dict) else sets)))


def _samples(dataset: Any, indices: list[int]) -> Sequence[object]:
    """The samples of a data set at some indices."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    found: Sequence[object] = dataset.__getitems__(indices)
    if len(found) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(found)}"
        )
    return found


class ConcatDataset(Dataset[object]):
    """Data sets one behind the other."""

    def __init__(self, datasets: Iterable[Sized]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Sized]) -> list[int]:
        """Where each data set ends."""
        return list(itertools.accumulate(len(each) for each in sequence))

    @property
    def cummulative_sizes(self) -> list[int]:
        """`cumulative_sizes`, as it was once written, which a FutureWarning says."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes

    def __getitem__(self, index: int) -> object:
        size = len(self)
        if index < -size:
            raise ValueError(f"the absolute value of index {index} exceeds the {size} samples")
        if index >= size:
            raise IndexError(f"index {index} is out of range for {size} samples")
        index %= size
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[object]):
    """Iterable data sets one behind the other."""

    def __init__(self, datasets: Iterable[IterableDataset[object]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[object]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)  # type: ignore[arg-type, misc]  # or an error


class Subset(Dataset[object]):
    """The samples of a data set at some indices."""

    def __init__(self, dataset: Sized, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int | slice | list[int]) -> object:
        """One sample; of a list of places, or a slice, what the data set has for several."""
        several: Any = self.dataset
        if isinstance(index, list):
            return several[[self.indices[i] for i in index]]
        return several[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> Sequence[object]:
        """Several samples."""
        return _samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Sized,
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset]:
    """Subsets of these lengths, or of these fractions that sum to 1, in random order."""
    size = len(dataset)
    counts = _counts(size, lengths)
    if sum(counts) != size:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset: {counts} of "
            f"{size}"
        )
    order = mq.randperm(size, generator=generator).tolist()
    ends = list(itertools.accumulate(counts))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, counts)]


def _counts(size: int, lengths: Sequence[int | float]) -> list[int]:
    if not math.isclose(sum(lengths), 1) or sum(lengths) > 1:
        return [int(n) for n in lengths]
    counts = [math.floor(size * fraction) for fraction in lengths]
    for i in range(size - sum(counts)):
        counts[i % len(counts)] += 1
    return counts
