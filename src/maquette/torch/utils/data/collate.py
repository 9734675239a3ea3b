"""Collating: a list of samples becomes one batch, tensors stacked, containers kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from maquette.api import functions as mq
from maquette.core.dtype import float64
from maquette.tensor.tensor import Tensor


def default_collate(batch: Sequence[object]) -> object:
    """The samples as one: tensors stacked, numbers in a tensor, containers element by element.

    Raises TypeError for samples that are no tensors, arrays, numbers, strings or containers of
    them, RuntimeError for sequences of different lengths.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return mq.stack(cast("list[Tensor]", list(batch)))
    if isinstance(first, np.ndarray):
        return mq.stack([mq.as_tensor(array) for array in batch])
    if isinstance(first, np.generic) and not isinstance(first, str | bytes):
        return mq.as_tensor(np.asarray(batch))
    if isinstance(first, float):
        return mq.tensor(batch, dtype=float64)
    if isinstance(first, int):
        return mq.tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    return _collate_containers(batch)


def _collate_containers(batch: Sequence[object]) -> object:
    first = batch[0]
    if isinstance(first, Mapping):
        samples = cast("Sequence[Mapping[object, object]]", batch)
        return {key: default_collate([sample[key] for sample in samples]) for key in first}
    if not isinstance(first, Sequence):
        raise TypeError(
            f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {type(first)}"
        )
    rows = cast("Sequence[Sequence[object]]", batch)
    if any(len(row) != len(first) for row in rows):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [default_collate(column) for column in zip(*rows)]
    if hasattr(first, "_fields"):
        return type(first)(*columns)
    return columns


def default_convert(data: object) -> object:
    """One sample with its arrays as tensors."""
    if isinstance(data, np.ndarray):
        return mq.as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, list | tuple) and not hasattr(data, "_fields"):
        return type(data)([default_convert(value) for value in data])
    return data


CollateMap = Mapping[type | tuple[type, ...], Callable[..., Any]]


def collate(batch: Sequence[object], *, collate_fn_map: CollateMap | None = None) -> object:
    """The samples as one by the function that the map has for their class, or for a base of it.

    Containers are gone through; what is in no map is as in `default_collate`.
    """
    found = _of_map(batch[0], collate_fn_map or {})
    if found is not None:
        return found(batch, collate_fn_map=collate_fn_map)
    first = batch[0]
    if isinstance(first, Mapping):
        samples = cast("Sequence[Mapping[object, object]]", batch)
        return {
            key: collate([sample[key] for sample in samples], collate_fn_map=collate_fn_map)
            for key in first
        }
    if isinstance(first, list | tuple):
        rows = cast("Sequence[Sequence[object]]", batch)
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*rows)]
        named = cast("Callable[..., object]", type(first))
        return named(*columns) if hasattr(first, "_fields") else columns
    return default_collate(batch)


def _of_map(sample: object, functions: CollateMap) -> Callable[..., Any] | None:
    exact = functions.get(type(sample))
    if exact is not None:
        return exact
    return next((f for kind, f in functions.items() if isinstance(sample, kind)), None)


def _by_default(batch: Sequence[object], *, collate_fn_map: CollateMap | None = None) -> object:
    """`default_collate`, as a function for a map."""
    return default_collate(batch)


collate_tensor_fn = collate_numpy_array_fn = collate_numpy_scalar_fn = _by_default
collate_float_fn = collate_int_fn = collate_str_fn = _by_default
default_collate_fn_map: dict[type | tuple[type, ...], Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
