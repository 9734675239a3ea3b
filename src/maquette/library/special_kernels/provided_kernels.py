"""Kernels that a provider compiles when an operator is first called with a signature of inputs.

A signature is what a compiled function may depend on: the metas of tensors, the values of all other
arguments. The one idea: what the provider gives for it is kept, and called from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Boxed, Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import check_result, normalise
from maquette.tensor.tensor import Tensor

Provider = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Callable[..., Any]]
_DENSE = K.functionality_bits(DispatchKey.CPU)


class ProvidedKernel:
    """The kernel of an operator at a backend's key, made by ``provider`` for each signature."""

    provider: Provider | None = None

    def __init__(self, qualname: str, key: DispatchKey) -> None:
        assert K.functionality_bits(key) == _DENSE, (
            f"compiled kernels are for the keys of dense backends, such as CPU or CUDA, not "
            f"{key.name} of {qualname}"
        )
        self.qualname = qualname
        self.key = key
        self._compiled: dict[object, Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def kernel(self, place: str) -> Kernel:
        """What is registered."""
        return Kernel(self._factory, python=self.__call__, place=place)

    def _factory(self, op: OpOverload, ks: int) -> Boxed:
        schema = op._schema

        def kernel(ks: int, *params: object) -> object:
            args, kwargs = normalise(schema, params)
            return check_result(schema, self._of(op, params, args, kwargs)(*args, **kwargs))

        return kernel

    def _of(self, op: OpOverload, params: object, args: Any, kwargs: Any) -> Callable[..., Any]:
        signature = signature_of(params)
        with self._lock:  # asked once, also by two threads
            known = self._compiled.get(signature)
            if known is None:
                known = self._compiled[signature] = self._ask(op, tuple(args), kwargs)
        return known

    def _ask(self, op: OpOverload, args: tuple[Any, ...], kwargs: Any) -> Callable[..., Any]:
        if self.provider is None:
            raise NotImplementedError(
                f"{self.qualname} has no provider of compiled kernels at {self.key.name}: give one "
                f"to _impl_with_aoti_compile, a function of (op, args, kwargs)"
            )
        made = self.provider(op, args, kwargs)
        if not callable(made):
            raise TypeError(
                f"the provider of compiled kernels of {self.qualname} must give a function, gave "
                f"{type(made).__name__}"
            )
        return made

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise NotImplementedError(f"{self.qualname}: a compiled kernel is called by the dispatcher")


def signature_of(value: object) -> object:
    """What a compiled function may depend on, hashable."""
    if isinstance(value, Tensor):
        return value.meta
    if isinstance(value, (tuple, list)):
        return tuple([signature_of(v) for v in value])
    return type(value), value
