"""Operators whose result has a size that only the data tells: `unique`, `nonzero`, `index`.

Their shape rule checks the arguments and then gives up (`DependsOnData`, on fake tensors
`DynamicOutputShapeException`). On data, the same checks run and either the kernel's arrays say the
rest (`self_describing`), or an argument is first translated into one that the shape rule
understands (`translating`), as a mask is into positions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.core.device import device
from maquette.core.dtype import from_numpy_dtype
from maquette.core.errors import of_data
from maquette.core.meta import TensorMeta
from maquette.core.strides import is_dense
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.library.arrays import (
    arrays_on,
    backend_at,
    backend_kernel,
    device_of,
    fresh_from,
    lent,
    meta_kernel,
)
from maquette.library.infer import DependsOnData, lookup, rule_argument
from maquette.tensor.arrays import Array
from maquette.tensor.backend import byte_strides, is_array
from maquette.tensor.tensor import Tensor

Checks = Callable[..., "TensorMeta | None"]
Layout = Callable[..., "TensorMeta | tuple[TensorMeta, ...]"]


def refusing_rule(op: OpOverload, checks: Checks | None) -> Callable[..., TensorMeta]:
    """The shape rule of such an operator: it makes the checks and says that data must tell."""

    def rule(*args: object) -> TensorMeta:
        known = None if checks is None else checks(*args)
        if known is None:
            raise DependsOnData(f"the size of the result of {op.name()}")
        return known

    return rule


def self_describing(
    function: Callable[..., Any], checks: Checks | None, layout: Layout | None
) -> Kernel:
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
            results = lent(backend.run(on, function, backend.namespace, *arrays))
            if layout is not None:
                return _laid_out(op, layout, results, args)
            if isinstance(results, tuple):
                return tuple([_as_tensor(op, array, on) for array in results])
            return _as_tensor(op, cast(Array, results), on)

        return kernel

    return Kernel(factory, python=function)


def _laid_out(op: OpOverload, layout: Layout, results: object, args: Sequence[object]) -> object:
    """The tensors of a kernel's arrays, with the metas that the page gives their shapes."""
    if isinstance(results, tuple):
        metas = layout([array.shape for array in results], *args)
        return tuple([fresh_from(op, m, a) for m, a in zip(metas, results, strict=True)])  # type: ignore[arg-type]  # a meta for each array
    shape = cast(Array, results).shape
    return fresh_from(op, cast(TensorMeta, layout(shape, *args)), results)


def refused_on_meta(op: OpOverload, ks: int) -> Callable[..., object]:
    """On ``meta``: by the arguments alone where they tell the size, else refused for want of data.

    What the checks refuse is refused in their words.
    """
    by_rule = meta_kernel(op)

    def kernel(ks: int, *params: object) -> object:
        with contextlib.suppress(DependsOnData):
            return by_rule(ks, *params)
        op._raise_no_kernel(DispatchKey.Meta)

    return kernel


def translating(
    name: str, when: Callable[..., bool], function: Callable[..., Sequence[Any]]
) -> Kernel:
    """The page's own kernel, after data turned one list of tensors into another.

    when: asked with metas and plain arguments whether it must be done. function: from ``xp`` and
    the arrays of the list to those that take their place.
    """

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        inner, backend = backend_kernel(op, ks), backend_at(ks)
        position = [argument.name for argument in op._schema.arguments].index(name)
        assert backend is not None  # it is registered for data alone

        def kernel(ks: int, *params: object) -> object:
            args = [rule_argument(p) for p in params]
            if not when(*args):
                return inner(ks, *params)
            with contextlib.suppress(DependsOnData):
                lookup(op, params)  # what needs no data is refused as on fakes
            on = device_of(args, backend)
            (arrays,) = arrays_on(backend, on, params[position : position + 1])
            found = backend.run(on, function, backend.namespace, arrays)
            told = tuple([_as_tensor(op, a, on) if is_array(a) else a for a in found])  # type: ignore[attr-defined]  # a list
            try:
                return inner(ks, *params[:position], told, *params[position + 1 :])
            except (RuntimeError, IndexError) as error:
                raise of_data(error) from None

        return kernel

    return Kernel(factory, python=function)


def _as_tensor(op: OpOverload, array: Array, on: device) -> Tensor:
    """A tensor laid out as the array is, where that has no gaps."""
    strides = tuple([s // array.dtype.itemsize for s in byte_strides(array)])
    kept = strides if array.size and is_dense(array.shape, strides) else None
    meta = TensorMeta.of(from_numpy_dtype(array.dtype), array.shape, kept, 0, on)
    return fresh_from(op, meta, array)
