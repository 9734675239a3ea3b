"""`Shuffler`: the samples of a pipe with keys, one after another in random order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from maquette.torch.utils.data.datapipes.seeds import Seeded

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(Seeded, IterDataPipe[Any]):
    """The samples of ``datapipe`` at ``indices`` (from 0, unless given), in random order.

    The seed is drawn by torch's generator, or given by ``set_seed``.

    (functional name: ``shuffle``)
    """

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._shuffled_indices = list(self.indices)

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        """Draw another order."""
        if self._enabled:
            self._reseed()
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
