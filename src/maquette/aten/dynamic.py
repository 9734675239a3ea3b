"""Operators whose result has a size that only the data tells: `unique`, `bincount` and the like.

They have no shape rule. Their kernel checks its arguments and its arrays are the result as they
are; on fake tensors the call raises `DynamicOutputShapeException`, by the operator's tag.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.aten.axes import Array
from maquette.core.dtype import from_numpy_dtype
from maquette.core.meta import TensorMeta
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.arrays import arrays_of, fresh_from
from maquette.library.page import OperatorPage
from maquette.tensor.storage import namespace_of
from maquette.tensor.tensor import Tensor

ArrayKernel = Callable[..., Array | tuple[Array, ...]]


def dynamic_kernel(page: OperatorPage) -> Callable[[ArrayKernel], ArrayKernel]:
    """Register an array kernel ``function(xp, *parameters)`` whose results say their own shape."""

    def register(function: ArrayKernel) -> ArrayKernel:
        def factory(op: OpOverload, ks: int) -> Callable[..., object]:
            xp = namespace_of("cpu")

            def kernel(ks: int, *params: object) -> object:
                results = function(xp, *arrays_of(params))
                if isinstance(results, tuple):
                    return tuple([_as_tensor(op, array) for array in results])
                return _as_tensor(op, results)

            return kernel

        page.op.register(DispatchKey.CPU, Kernel(factory, python=function))
        return function

    return register


def _as_tensor(op: OpOverload, array: Array) -> Tensor:
    meta = TensorMeta.of(from_numpy_dtype(array.dtype), array.shape)
    return fresh_from(op, meta, array)
