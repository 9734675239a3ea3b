"""`torch._dispatch.python`: overrides in Python, pre-dispatch, functionalization checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from maquette.core.meta import TensorMeta
from maquette.core.pytree import tree_flatten
from maquette.dispatch.guards import ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.operator import OpOverload, replace_fallback
from maquette.dispatch.overrides import enable_python_dispatcher, no_python_dispatcher
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.level import key_kernel

Kernel = Callable[..., object]


def enable_pre_dispatch() -> AbstractContextManager[object]:
    """For a block: operators are seen before autograd takes them apart."""
    return IncludeDispatchKeyGuard(DispatchKey.PreDispatch)


def suspend_functionalization() -> AbstractContextManager[object]:
    """For a block: calls pass the key Functionalize over, and factories give plain tensors."""
    return ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Functionalize))


@contextmanager
def enable_crossref_functionalize() -> Iterator[None]:
    """For a block: what the key Functionalize answers must have the meta that shape rules give.

    Raises AssertionError that names the operator where it has not.
    """
    replace_fallback(DispatchKey.Functionalize, _checked_kernel)
    try:
        yield
    finally:
        replace_fallback(DispatchKey.Functionalize, key_kernel)


def _checked_kernel(op: OpOverload, ks: int) -> Kernel:
    kernel = key_kernel(op, ks)

    def checked(ks: int, *params: object) -> object:
        rule = op.shape_rule
        expected = None if rule is None else rule(*[_meta(p) for p in params])
        result = kernel(ks, *params)
        for meta, t in zip(_found(expected, TensorMeta), _found(result, Tensor), strict=False):
            _check(op, meta, t)
        return result

    return checked


def _meta(p: object) -> object:
    if p.__class__ is tuple:
        return tuple([_meta(item) for item in p])
    return p.meta if isinstance(p, Tensor) else p


def _found(value: object, kind: type) -> list[object]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, kind)]


def _check(op: OpOverload, expected: object, t: object) -> None:
    assert isinstance(expected, TensorMeta)
    assert isinstance(t, Tensor)
    if t.meta.shape != expected.shape or t.meta.dtype is not expected.dtype:
        raise AssertionError(f"{op}: functionalization gave {t.meta}, expected {expected}")


__all__ = [
    "enable_crossref_functionalize",
    "enable_pre_dispatch",
    "enable_python_dispatcher",
    "no_python_dispatcher",
    "suspend_functionalization",
]
