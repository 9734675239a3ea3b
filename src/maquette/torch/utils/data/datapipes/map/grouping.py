"""`Batcher`: samples put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import DataChunk, MapDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk[Any]]):
    """``batch_size`` samples at an index, in a ``wrapper_class``; the last ones may be fewer.

    drop_last: a last batch that is too short is not there: IndexError. AssertionError for sizes
    below 1.

    (functional name: ``batch``)
    """

    def __init__(
        self,
        datapipe: Any,
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

    def __getitem__(self, index: int) -> DataChunk[Any]:
        batch: list[Any] = []
        try:
            for place in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[place])
        except IndexError as error:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from error
        found: DataChunk[Any] = self.wrapper_class(batch)
        return found

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self.datapipe, self), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
