"""`torch.utils.data._utils.fetch`: readers of a data set that loaders of libraries derive from.

`DataLoader` itself reads by the functions that these classes call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.torch.utils.data.loader import fetch_indices, fetch_next


class _BaseDatasetFetcher:
    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """A batch, or a sample where nothing is collated. NotImplementedError: a subclass reads."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index: Any) -> Any:
        """The samples of these indices, collated."""
        read = fetch_indices(self.auto_collation, self.collate_fn, self.drop_last, self.dataset)
        return read(possibly_batched_index)


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)

    def fetch(self, possibly_batched_index: Any) -> Any:
        """As many of the next samples as there are indices, collated. StopIteration at the end."""
        samples = self.dataset_iter
        read = fetch_next(self.auto_collation, self.collate_fn, self.drop_last, samples)
        return read(possibly_batched_index)


__all__ = ["_BaseDatasetFetcher", "_IterableDatasetFetcher", "_MapDatasetFetcher"]
