"""`DataLoader`: batches of a data set, read in this process as they are asked for.

Workers, pinned memory and prefetching are ways to keep a device busy; their arguments are taken and
not used, and the batches are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from maquette.torch.utils.data.collate import default_collate, default_convert
from maquette.torch.utils.data.dataset import Dataset, IterableDataset, Sized
from maquette.torch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """The batches of ``dataset``, anew at each iteration.

    batch_size: None gives the samples themselves. shuffle: in a random order, drawn from
    ``generator``. sampler, batch_sampler: the order, or the batches, of another. drop_last: leave
    out a last batch that is too short. collate_fn: how samples become a batch.
    """

    def __init__(
        self,
        dataset: Dataset[object],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[..., object] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: object = None,
        generator: object = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None disables auto-batching: drop_last must be False")
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.generator = generator
        self.batch_size = None if batch_sampler is not None else batch_size
        self.sampler = sampler if sampler is not None else self._order(bool(shuffle))
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None and self.sampler is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        batched = batch_sampler is not None or batch_size is not None
        self.collate_fn: Callable[..., object] = default_collate if batched else default_convert
        if collate_fn is not None:
            self.collate_fn = collate_fn

    def _order(self, shuffle: bool) -> Iterable[int] | None:
        """The sampler; None for a data set that can only be iterated."""
        if isinstance(self.dataset, IterableDataset):
            if shuffle:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but "
                    f"got shuffle={shuffle}"
                )
            return None
        sized = cast(Sized, self.dataset)
        if shuffle:
            return RandomSampler(sized, generator=self.generator)
        return SequentialSampler(sized)

    def __iter__(self) -> Iterator[object]:
        if isinstance(self.dataset, IterableDataset):
            yield from self._from_iterable(iter(self.dataset))
        elif self.batch_sampler is not None:
            for indices in self.batch_sampler:
                yield self.collate_fn(self._samples(indices))
        else:
            assert self.sampler is not None
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])

    def _samples(self, indices: Sequence[int]) -> Sequence[object]:
        many: Callable[[Sequence[int]], Sequence[object]] | None
        many = getattr(self.dataset, "__getitems__", None)
        return many(indices) if many is not None else [self.dataset[i] for i in indices]

    def _from_iterable(self, samples: Iterator[object]) -> Iterator[object]:
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            return self._iterable_length(len(self.dataset))  # type: ignore[arg-type]  # or Python's error
        chosen = self.sampler if self.batch_sampler is None else self.batch_sampler
        return len(chosen)  # type: ignore[arg-type]  # likewise

    def _iterable_length(self, size: int) -> int:
        if self.batch_size is None:
            return size
        whole, rest = divmod(size, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


def get_worker_info() -> None:
    """None: this is the main process, and there is no other."""
