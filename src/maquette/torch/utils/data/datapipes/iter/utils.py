"""`IterableWrapper`: the samples of any iterable, as a pipe."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeVar

from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of

T = TypeVar("T")

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe[T]):
    """What ``iterable`` gives, of a copy for each iteration unless ``deepcopy`` is False.

    Without copies, a pipe that writes into samples changes what the next iteration reads.
    """

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[T]:
        yield from self._copied() if self.deepcopy else self.iterable

    def _copied(self) -> Iterable[T]:
        try:
            return copy.deepcopy(self.iterable)
        except TypeError:  # generators, open files
            warnings.warn(
                "The input iterable can not be deepcopied, please be aware of in-place "
                "modification would affect source data.",
                stacklevel=2,
            )
            return self.iterable

    def __len__(self) -> int:
        return length_of(self.iterable, self)
