"""`Batcher`, `UnBatcher` and `Grouper`: samples put together, and taken apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import DataChunk, IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of
from maquette.torch.utils.data.datapipes.utils.common import _check_unpickable_fn

T = TypeVar("T")

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """``batch_size`` samples at a time, in a ``wrapper_class``; the last ones may be fewer.

    drop_last: leave out a last batch that is too short. AssertionError for sizes below 1.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[DataChunk[Any]]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self.datapipe, self), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The samples in batches, or in batches of batches: ``unbatch_level`` deep, -1 all the way.

    Batches are lists. Raises ValueError for levels below -1, IndexError for batches that are less
    deep.
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element: Any, level: int) -> Iterator[Any]:
        if isinstance(element, list) and level != 0:
            for inner in element:
                yield from self._dive(inner, level if level == -1 else level - 1)
        elif level > 0:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )
        else:
            yield element


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Samples with one key, in batches of up to ``group_size``.

    group_key_fn: a sample's key. keep_key: give the key with each batch. A batch is given when it
    is full. When ``buffer_size`` samples wait, the largest group is given; if it is smaller than
    ``guaranteed_group_size`` (``group_size``, unless given) it is left out if ``drop_remaining``,
    else RuntimeError. What waits in the end is given, however small. AssertionError for sizes that
    contradict each other.

    (functional name: ``batch``)
    """

    def __init__(
        self,
        datapipe: IterDataPipe[T],
        group_key_fn: Callable[[T], Hashable],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        least = group_size if guaranteed_group_size is None else guaranteed_group_size
        if least is not None and (group_size is None or not 0 < least <= group_size):
            raise AssertionError(
                "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
            )
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = least
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk

    def __iter__(self) -> Iterator[Any]:
        waiting: dict[Hashable, list[Any]] = {}
        held = 0
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            group = waiting.setdefault(key, [])
            group.append(sample)
            held += 1
            if len(group) == self.group_size:
                yield self._chunk(key, waiting.pop(key))
                held -= len(group)
            if held == self.max_buffer_size:
                key = max(waiting, key=lambda k: len(waiting[k]))
                group = waiting.pop(key)
                held -= len(group)
                if self._large_enough(group):
                    yield self._chunk(key, group)
        for key, group in waiting.items():
            yield self._chunk(key, group)

    def _chunk(self, key: Hashable, group: list[Any]) -> Any:
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def _large_enough(self, group: list[Any]) -> bool:
        """Whether a group is given when the buffer is full; RuntimeError if it must not be lost."""
        if self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size:
            return True
        if not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        return False
