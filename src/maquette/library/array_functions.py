"""Functions of arrays as kernels of operators: tensors are unwrapped before, results wrapped after.

A page's array kernel (`arrays.py`) is laid out by its shape rule; these functions have none, so
their results are what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from maquette.core.device import device
from maquette.tensor.tensor import Array, Tensor, from_array

Function = Callable[..., object]


def on_arrays(function: Function) -> Function:
    """The function of tensors that runs ``function`` on their arrays.

    Arrays in the result become tensors on the device of the first tensor argument; one that shares
    memory with an argument is copied.
    """

    def on_tensors(*args: object, **kwargs: object) -> object:
        given = list(_tensors((*args, *kwargs.values())))
        named = {name: _unwrapped(value) for name, value in kwargs.items()}
        result = function(*map(_unwrapped, args), **named)
        arrays = [t._data for t in given if t._data is not None]
        return _wrapped(result, arrays, given[0].meta.device if given else device("cpu"))

    on_tensors.__module__ = getattr(function, "__module__", on_tensors.__module__)
    return on_tensors


def _tensors(values: Sequence[object]) -> Sequence[Tensor]:
    found: list[Tensor] = []
    for v in values:
        if isinstance(v, Tensor):
            found.append(v)
        elif isinstance(v, (tuple, list)):
            found += _tensors(v)
    return found


def _unwrapped(value: object) -> object:
    if isinstance(value, Tensor):
        return value._data
    return [_unwrapped(v) for v in value] if isinstance(value, (tuple, list)) else value


def _wrapped(result: object, arguments: Sequence[Array], on: device) -> object:
    if isinstance(result, (np.ndarray, np.generic)):
        array = np.asarray(result)
        if any(np.may_share_memory(array, a) for a in arguments):
            array = array.copy()
        return from_array(array, on)
    if isinstance(result, (tuple, list)):
        return type(result)([_wrapped(r, arguments, on) for r in result])
    return result
