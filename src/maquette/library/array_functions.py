"""Functions of arrays as kernels of operators: tensors are unwrapped before, results wrapped after.

Where the operator has a shape rule, results are laid out by it, as those of a page's array kernel
are (`arrays.py`); where it has none, they are what the function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from maquette.autograd.formulas import parameter_names
from maquette.core.device import device
from maquette.dispatch.forms import returns_of
from maquette.dispatch.operator import OpOverload
from maquette.library.arrays import (
    arrays_of,
    build,
    fresh_from,
    resize_outputs,
    run_kernel,
    take_back,
    view_of,
)
from maquette.library.infer import lookup
from maquette.library.python_kernels import python_kernel
from maquette.tensor.arrays import Array
from maquette.tensor.backend import backend_of
from maquette.tensor.tensor import Tensor, from_array

Function = Callable[..., object]


def array_factory(function: Function, device_type: str) -> Callable[[OpOverload, int], Function]:
    """The factory of a kernel that runs a function of arrays, on one type of device."""
    on_namespace = with_namespace(function)

    def factory(op: OpOverload, ks: int) -> Function:
        backend = backend_of(device_type)
        if op.shape_rule is None:
            return python_kernel(on_arrays(partial(on_namespace, backend.namespace)))(op, ks)
        kinds = returns_of(op)

        def kernel(ks: int, *params: object) -> object:
            outcome = lookup(op, params)
            resized = resize_outputs(op, kinds, outcome, params)
            given = arrays_of(params)
            try:
                results = run_kernel(backend.runner, on_namespace, backend.namespace, *given)
            except Exception:
                take_back(resized)
                raise
            return build(op, kinds, outcome, params, results, fresh_from, view_of)

        return kernel

    return factory


def with_namespace(function: Function) -> Function:
    """A function whose first parameter is ``xp``, the array namespace: itself if it has one."""
    if parameter_names(function)[:1] == ("xp",):
        return function
    return lambda xp, *args, **kwargs: function(*args, **kwargs)


def on_arrays(function: Function) -> Function:
    """The function of tensors that runs ``function`` on their arrays.

    Arrays in the result become tensors on the device of the first tensor argument; one that shares
    memory with an argument is copied.
    """

    def on_tensors(*args: object, **kwargs: object) -> object:
        given = list(_tensors((*args, *kwargs.values())))
        named = {name: _unwrapped(value) for name, value in kwargs.items()}
        result = function(*map(_unwrapped, args), **named)
        arrays = [t._mq_data for t in given if t._mq_data is not None]
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
        return value._mq_data
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
