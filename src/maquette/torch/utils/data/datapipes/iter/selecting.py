"""`Filter`: the samples that a function says True of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.utils.common import (
    Columns,
    StreamWrapper,
    _check_unpickable_fn,
    validate_input_col,
)

T = TypeVar("T")

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[T]):
    """The samples that ``filter_fn`` says True of; streams in the other ones are closed.

    input_col: an index or key, or a list of them: the function is called with these columns.
    Raises ValueError if it does not say True or False.

    (functional name: ``filter``)
    """

    def __init__(
        self,
        datapipe: IterDataPipe[T],
        filter_fn: Callable[..., bool],
        input_col: Columns = None,
    ) -> None:
        _check_unpickable_fn(filter_fn)
        validate_input_col(filter_fn, input_col)
        self.datapipe = datapipe
        self.filter_fn = filter_fn
        self.input_col = input_col

    def _apply_filter_fn(self, data: Any) -> bool:
        if self.input_col is None:
            return self.filter_fn(data)
        if isinstance(self.input_col, list | tuple):
            return self.filter_fn(*(data[column] for column in self.input_col))
        return self.filter_fn(data[self.input_col])

    def __iter__(self) -> Iterator[T]:
        for data in self.datapipe:
            kept = self._apply_filter_fn(data)
            if not isinstance(kept, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got "
                    f"{type(kept)}"
                )
            if kept:
                yield data
            else:
                StreamWrapper.close_streams(data)
