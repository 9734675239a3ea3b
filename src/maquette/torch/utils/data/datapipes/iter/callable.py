"""`Mapper` and `Collator`: a function of each sample, or of some of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from maquette.torch.utils.data.collate import default_collate
from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of
from maquette.torch.utils.data.datapipes.utils.common import (
    Columns,
    _check_unpickable_fn,
    validate_input_col,
)

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """``fn`` of each sample.

    input_col: an index or key, or a list of them: ``fn`` is called with these columns of the
    sample. output_col: where its result goes, -1 for a new last column; None puts it in the place
    of the first input column and leaves the other ones out. Tuples stay tuples.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Columns = None,
        output_col: Columns = None,
    ) -> None:
        _check_unpickable_fn(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, list | tuple):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.output_col = output_col

    def _apply_fn(self, data: Any) -> Any:
        if self.input_col is None:
            return self.fn(data)
        several = isinstance(self.input_col, list | tuple)
        columns: list[Any] = list(self.input_col) if several else [self.input_col]  # type: ignore[arg-type]
        result = self.fn(*(data[column] for column in columns))
        row: Any = list(data) if isinstance(data, tuple) else data
        if self.output_col is None:
            row[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del row[column]
        elif self.output_col == -1:
            row.append(result)
        else:
            row[self.output_col] = result
        return tuple(row) if isinstance(data, tuple) else row

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length_of(self.datapipe, self)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Each sample, a batch, as `default_collate` or another function makes it one.

    conversion: the function. A dict, for columns of data frames, raises NotImplementedError.
    collate_fn: the function, before ``conversion``.

    (functional name: ``map``)
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] | dict[Any, Any] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        chosen = conversion if collate_fn is None else collate_fn
        if isinstance(chosen, dict):
            raise NotImplementedError(
                "Collator: conversions by column, of data frames, are not supported by maquette; "
                "give a function of the batch"
            )
        super().__init__(datapipe, fn=chosen)  # type: ignore[arg-type]  # or TypeError
