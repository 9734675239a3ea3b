"""`DataLoader`: batches of a data set, read here or by worker processes (`workers.py`).

Samples become a batch by `collate.py`; in which order, by `sampler.py`. Pinned memory is a mark
only, so ``pin_memory`` changes nothing.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import multiprocessing
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import Any, cast

from maquette.api import functions as mq
from maquette.core.dtype import int64
from maquette.torch.utils.data.collate import default_collate, default_convert
from maquette.torch.utils.data.dataset import Dataset, IterableDataset, Sized
from maquette.torch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from maquette.torch.utils.data.workers import Workers, get_worker_info

_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)


class _DatasetKind:
    """How samples are asked for, under PyTorch's names: by number, or one after another."""

    Map = 0
    Iterable = 1


class DataLoader:
    """The batches of ``dataset``, anew at each iteration.

    batch_size: None gives the samples themselves. shuffle: in a random order, drawn from
    ``generator``. sampler, batch_sampler: the order, or the batches, of another. drop_last: leave
    out a last batch that is too short. collate_fn: how samples become a batch.

    num_workers: how many processes read; 0 reads here. prefetch_factor: how many batches each is
    ahead (2). timeout: longest wait for a batch, in seconds; 0 waits. worker_init_fn: called in
    each with its number. persistent_workers: they stay from one iteration to the next. in_order:
    False gives batches as they come. Raises ValueError for options that contradict each other.
    """

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias:
        """``DataLoader[T]``, as annotations have it."""
        return GenericAlias(cls, item)

    _done_init = False

    def __init__(
        self,
        dataset: Dataset[Any],
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
        multiprocessing_context: Any = None,
        generator: object = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset: Any = dataset
        if _is_pipe(dataset):
            self.dataset = _pipes().held(dataset, shuffle)
            # A pipe that is read in order shuffles by itself, if it is to.
            shuffle = None if isinstance(dataset, IterableDataset) else shuffle
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self.sampler = sampler if sampler is not None else self._order(bool(shuffle))
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(cast("Any", self.sampler), batch_size, drop_last)
        default = default_collate if self._auto_collation else default_convert
        self.collate_fn: Callable[..., object] = collate_fn or default
        self._iterator: Workers | None = None  # those that stay; programs end them by it
        self._told_length: int | None = None  # of an iterable data set, once it was asked for
        self.check_worker_number_rationality()
        self._done_init = True

    def __setattr__(self, name: str, value: object) -> None:
        if self._done_init and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @staticmethod
    def _check_workers(workers: int, timeout: float, ahead: int | None, persistent: bool) -> None:
        if workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if workers == 0 and ahead is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing: give "
                "num_workers > 0, or leave prefetch_factor None"
            )
        if ahead is not None and ahead < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent and workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

    def check_worker_number_rationality(self) -> None:
        """Warn where there are more workers than processors."""
        here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if here is not None and self.num_workers > here:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {here}, as many as there are "
                "processors: excessive worker creation might get DataLoader running slow or even "
                "freeze.",
                stacklevel=3,
            )

    def _check_order(
        self,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: object,
        batch_sampler: object,
        drop_last: bool,
    ) -> None:
        if isinstance(self.dataset, IterableDataset):
            for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
                if given is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, "
                        f"but got {name}={given}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )

    def _order(self, shuffle: bool) -> Iterable[Any]:
        if isinstance(self.dataset, IterableDataset):
            if shuffle:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but "
                    f"got shuffle={shuffle}"
                )
            return _InfiniteConstantSampler()
        sized = cast(Sized, self.dataset)
        if shuffle:
            return RandomSampler(sized, generator=self.generator)
        return SequentialSampler(sized)

    @property
    def multiprocessing_context(self) -> Any:
        """How processes are started: a context of `multiprocessing`, or None for its default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    f"multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in "
                        f"{known}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    f"multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got {context!r}"
                )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _dataset_kind(self) -> int:
        iterated = isinstance(self.dataset, IterableDataset)
        return _DatasetKind.Iterable if iterated else _DatasetKind.Map

    @property
    def _of_pipes(self) -> bool:
        return _is_pipe(self.dataset)

    @property
    def _worker_begins(self) -> tuple[Callable[[int], None] | None, Callable[..., None] | None]:
        """What a worker calls first, with its number, and what seeds its pipes."""
        if not self._of_pipes:
            return self.worker_init_fn, None
        return _pipes().sharing_init(self.worker_init_fn), _pipes().seed

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def _fetcher(self) -> Callable[[Any], Callable[[Any], Any]]:
        """A function of the data set that gives a function of indices: in workers, too."""
        kind = fetch_next if isinstance(self.dataset, IterableDataset) else fetch_indices
        return functools.partial(kind, self._auto_collation, self.collate_fn, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        return self._get_iterator()

    def _get_iterator(self) -> Iterator[Any]:  # programs' own loaders replace it
        indices = iter(self._index_sampler)
        pipes_seed = _pipes().draw_seed(self.dataset, self.generator) if self._of_pipes else None
        # Drawn with no workers, too: programs draw the same numbers after it either way.
        seed = int(mq.empty((), dtype=int64).random_(generator=self.generator).item())
        if self.num_workers == 0:
            if self._of_pipes:
                _pipes().seed(self.dataset, pipes_seed)
                _pipes().share(self.dataset)
            return Batches(self, map(self._fetcher(self.dataset), indices))
        if self._iterator is not None and not self._iterator.done.is_set():
            self._iterator.begin_again(pipes_seed)
            return WorkersBatches(self, self._iterator, indices)
        workers = Workers(self, seed, pipes_seed)
        if self._of_pipes:  # PyTorch draws another, which nobody uses
            _pipes().draw_seed(self.dataset, self.generator)
        if self.persistent_workers:
            self._iterator = workers
            weakref.finalize(self, workers.close)
            return WorkersBatches(self, workers, indices)
        try:
            made = WorkersBatches(self, workers, indices)
        except BaseException:  # of a sampler
            workers.close()
            raise
        made.at_end = weakref.finalize(made, workers.close)
        return made

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            self._told_length = len(cast("Any", self.dataset))
            return self._iterable_length(self._told_length)
        return len(self._index_sampler)

    def _iterable_length(self, size: int) -> int:
        if self.batch_size is None:
            return size
        whole, rest = divmod(size, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


class Batches:
    """One iteration over a loader; workers that do not stay end with it."""

    def __init__(self, loader: DataLoader, batches: Iterator[Any]) -> None:
        self._loader = loader
        self._batches = batches
        self._given = 0
        self.at_end: Callable[[], object] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            if self.at_end is not None:
                self.at_end()
            raise
        self._given += 1
        told = self._loader._told_length
        if told is not None and self._given > told:
            self._warn_of_more(told)
        return batch

    def _warn_of_more(self, told: int) -> None:
        text = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {told} (when "
            f"accessing len(dataloader)), but {self._given} samples have been fetched."
        )
        if self._loader.num_workers > 0:
            text += (
                " For multiprocessing data-loading, this could be caused by each worker reading "
                "all samples: let it read its part by torch.utils.data.get_worker_info()."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._loader)


class WorkersBatches(Batches):
    """One iteration whose batches come from worker processes."""

    def __init__(self, loader: DataLoader, workers: Workers, indices: Iterator[Any]) -> None:
        super().__init__(loader, workers.batches(indices))
        self._workers = workers.processes

    def _shutdown_workers(self) -> None:
        """End workers that do not stay, before the last batch has come."""
        if self.at_end is not None:
            self.at_end()


def _is_pipe(dataset: object) -> bool:
    """Whether it is of `datapipes`, which are loaded by those who have pipes."""
    return getattr(type(dataset), "_is_datapipe", False)


def _pipes() -> Any:
    return importlib.import_module("maquette.torch.utils.data.datapipes.loading")


class _InfiniteConstantSampler:
    """None, again and again: a data set that is iterated needs no indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def fetch_indices(
    batched: bool, collate: Callable[..., Any], drop_last: bool, dataset: Any
) -> Callable[[Any], Any]:
    """A function of indices: their samples, collated; of one index if nothing is batched."""

    def fetch(indices: Any) -> Any:
        if not batched:
            return collate(dataset[indices])
        many = getattr(dataset, "__getitems__", None)
        return collate(many(indices) if many else [dataset[i] for i in indices])

    return fetch


def fetch_next(
    batched: bool, collate: Callable[..., Any], drop_last: bool, dataset: Any
) -> Callable[[Any], Any]:
    """A function of indices: as many of the next samples; StopIteration where there are none."""
    samples = iter(dataset)

    def fetch(indices: Any) -> Any:
        if not batched:
            return collate(next(samples))
        batch = list(itertools.islice(samples, len(indices)))
        if not batch or (drop_last and len(batch) < len(indices)):
            raise StopIteration
        return collate(batch)

    return fetch


__all__ = ["DataLoader", "get_worker_info"]
