"""`SequenceWrapper`: the samples of a sequence or a mapping, as a pipe."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from maquette.torch.utils.data.datapipes.datapipe import MapDataPipe

T = TypeVar("T")

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe[T]):
    """What ``sequence`` has by index or key: a copy of it, unless ``deepcopy`` is False."""

    sequence: Any

    def __init__(self, sequence: Sequence[T] | Mapping[Any, T], deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The input sequence can not be deepcopied, please be aware of in-place "
                    "modification would affect source data",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> T:
        found: T = self.sequence[index]
        return found

    def __len__(self) -> int:
        return len(self.sequence)
