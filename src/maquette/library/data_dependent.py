"""Operators whose result has a size that only the data tells: `unique`, `bincount` and the like.

Their shape rule checks the arguments and then gives up (`DependsOnData`, on fake tensors
`DynamicOutputShapeException`); on data, the same checks run and the kernel's arrays say the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

from maquette.core.device import device
from maquette.core.dtype import from_numpy_dtype
from maquette.core.meta import TensorMeta
from maquette.core.strides import is_dense
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.arrays import arrays_on, backend_at, device_of, fresh_from
from maquette.library.infer import DependsOnData, infer, rule_argument
from maquette.tensor.backend import byte_strides
from maquette.tensor.tensor import Array, Tensor

Checks = Callable[..., None]


def refusing_rule(op: OpOverload, checks: Checks | None) -> Callable[..., TensorMeta]:
    """The shape rule of such an operator: it makes the checks and says that data must tell."""

    def rule(*args: object) -> TensorMeta:
        if checks is not None:
            checks(*args)
        raise DependsOnData(f"the size of the result of {op.name()}")

    return rule


def self_describing(function: Callable[..., Any], checks: Checks | None) -> Kernel:
    """The kernel of ``function(xp, *parameters)``, whose results say their own shape."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        backend = backend_at(ks)
        assert backend is not None  # `refused_on_meta` is registered there

        def kernel(ks: int, *params: object) -> object:
            args = [rule_argument(p) for p in params]
            if checks is not None:
                checks(*args)
            on = device_of(args, backend)
            arrays = arrays_on(backend, on, params)
            results = backend.run(on, function, backend.namespace, *arrays)
            if isinstance(results, tuple):
                return tuple([_as_tensor(op, array, on) for array in results])
            return _as_tensor(op, cast(Array, results), on)

        return kernel

    return Kernel(factory, python=function)


def refused_on_meta(op: OpOverload, ks: int) -> Callable[..., object]:
    """On ``meta``, where no size can be told: refuse in the rule's words, or for want of data."""

    def kernel(ks: int, *params: object) -> object:
        with contextlib.suppress(DependsOnData):
            infer(op, params)
        op._raise_no_kernel(DispatchKey.Meta)

    return kernel


def _as_tensor(op: OpOverload, array: Array, on: device) -> Tensor:
    """A tensor laid out as the array is, where that has no gaps."""
    strides = tuple([s // array.dtype.itemsize for s in byte_strides(array)])
    kept = strides if array.size and is_dense(array.shape, strides) else None
    meta = TensorMeta.of(from_numpy_dtype(array.dtype), array.shape, kept, 0, on)
    return fresh_from(op, meta, array)
