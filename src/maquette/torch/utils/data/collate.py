"""Collating: a list of samples becomes one batch, tensors stacked, containers kept.

What becomes of a sample is asked of a table, `default_collate_fn_map`, by its type, before
containers are gone into; programs give tables of their own, or add to this one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, cast

import numpy as np

from maquette.api import functions as mq
from maquette.core.dtype import float64
from maquette.core.layout import strided
from maquette.tensor.tensor import Tensor

Collate = Callable[..., Any]
Table = Mapping[type | tuple[type, ...], Collate]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
np_str_obj_array_pattern = re.compile("[SaUO]")


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Table | None = None) -> Tensor:
    """The tensors of one shape, stacked; RuntimeError for those that are sparse or nested."""
    first = batch[0]
    if first.is_nested or first.layout is not strided:
        raise RuntimeError(
            f"default_collate: the batch holds {'nested' if first.is_nested else 'sparse'} tensors "
            f"({first.meta}), which are not stacked: give a collate_fn that knows what to do"
        )
    return mq.stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Tensor:
    """Arrays as one tensor; TypeError for those of strings or objects."""
    kind = batch[0].dtype
    if np_str_obj_array_pattern.search(kind.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(kind))
    return mq.stack([mq.as_tensor(array) for array in batch])


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Tensor:
    """NumPy's numbers in a tensor."""
    return mq.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: Table | None = None) -> Tensor:
    """Numbers in a tensor of float64."""
    return mq.tensor(batch, dtype=float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: Table | None = None) -> Tensor:
    """Whole numbers, or truths, in a tensor."""
    return mq.tensor(batch)


def collate_str_fn(batch: Sequence[str], *, collate_fn_map: Table | None = None) -> Any:
    """The texts as they are."""
    return batch


default_collate_fn_map: dict[type | tuple[type, ...], Collate] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples as one: tensors stacked, numbers in a tensor, containers element by element.

    Raises TypeError for samples that are no tensors, arrays, numbers, strings or containers of
    them, RuntimeError for sequences of different lengths.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """The samples as one, by a table of types and functions; containers element by element.

    A function is called with the samples and ``collate_fn_map=``. A container of its own class
    stays of it where that can be made; a tuple becomes a list. Raises as `default_collate`.
    """
    first = batch[0]
    found = _function_for(type(first), collate_fn_map or {})
    if found is not None:
        return found(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _like_mapping(first, columns)
    if not isinstance(first, Sequence):
        raise TypeError(default_collate_err_msg_format.format(type(first)))
    if any(len(row) != len(first) for row in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    made = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
    return _like_sequence(first, made)


def _function_for(kind: type, table: Table) -> Collate | None:
    """What the table has for a class itself, or for the first of its bases in the table."""
    own = table.get(kind)
    if own is not None:
        return own
    return next((f for base, f in table.items() if issubclass(kind, base)), None)


def _like_mapping(first: Mapping[Any, Any], columns: dict[Any, Any]) -> Any:
    kind = cast("Any", type(first))
    try:
        if not isinstance(first, MutableMapping):
            return kind(columns)
        # A copy keeps what else the mapping knows, as the default of a defaultdict.
        made = copy.copy(first)
        made.update(columns)
        return made
    except TypeError:  # a class that cannot be made so
        return columns


def _like_sequence(first: Sequence[Any], made: list[Any]) -> Any:
    kind = cast("Any", type(first))
    if hasattr(first, "_fields"):
        return kind(*made)
    if isinstance(first, tuple):
        return made
    try:
        if not isinstance(first, MutableSequence):
            return kind(made)
        copied = copy.copy(first)
        for place, element in enumerate(made):
            copied[place] = element
        return copied
    except TypeError:  # a class that cannot be made so, or that has no places
        return made


def default_convert(data: object) -> object:
    """One sample with its arrays and NumPy's numbers as tensors; a tuple becomes a list."""
    if isinstance(data, np.ndarray | np.generic):
        texts = np_str_obj_array_pattern.search(data.dtype.str) is not None
        return data if texts else mq.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data
