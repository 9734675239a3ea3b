"""Operators whose result has a size that only the data tells: `unique`, `bincount` and the like.

Their shape rule checks the arguments and then gives up (`DependsOnData`, on fake tensors
`DynamicOutputShapeException`); on data, the same checks run and the kernel's arrays say the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from maquette.core.dtype import from_numpy_dtype
from maquette.core.meta import TensorMeta
from maquette.core.strides import is_dense
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.arrays import arrays_of, fresh_from
from maquette.library.infer import DependsOnData, infer, rule_argument
from maquette.tensor.backend import backend_of
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
        xp = backend_of("cpu").namespace

        def kernel(ks: int, *params: object) -> object:
            if checks is not None:
                checks(*[rule_argument(p) for p in params])
            results = function(xp, *arrays_of(params))
            if isinstance(results, tuple):
                return tuple([_as_tensor(op, array) for array in results])
            return _as_tensor(op, results)

        return kernel

    return Kernel(factory, python=function)


def refused_on_meta(op: OpOverload, ks: int) -> Callable[..., object]:
    """On ``meta``, where no size can be told: refuse in the rule's words, or for want of data."""

    def kernel(ks: int, *params: object) -> object:
        with contextlib.suppress(DependsOnData):
            infer(op, params)
        op._raise_no_kernel(DispatchKey.Meta)

    return kernel


def _as_tensor(op: OpOverload, array: Array) -> Tensor:
    """A tensor laid out as the array is, where that has no gaps."""
    strides = tuple([s // array.itemsize for s in array.strides])
    kept = strides if array.size and is_dense(array.shape, strides) else None
    meta = TensorMeta.of(from_numpy_dtype(array.dtype), array.shape, kept)
    return fresh_from(op, meta, array)
