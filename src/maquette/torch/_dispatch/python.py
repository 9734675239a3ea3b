"""`torch._dispatch.python`: overrides in Python, pre-dispatch, functionalization checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from maquette.api.functions import empty_strided
from maquette.core.meta import TensorMeta
from maquette.core.pytree import tree_flatten, tree_map
from maquette.dispatch.guards import ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.modes import disable_current_modes
from maquette.dispatch.operator import OpOverload, replace_fallback
from maquette.dispatch.overrides import enable_python_dispatcher, no_python_dispatcher
from maquette.dispatch.schemas.matching import normalise
from maquette.fake.exceptions import DataDependentOutputException, DynamicOutputShapeException
from maquette.fake.mode import FakeTensorMode
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.level import key_kernel
from maquette.transforms.interpreter import temporarily_clear_interpreter_stack

Kernel = Callable[..., object]


def enable_pre_dispatch() -> AbstractContextManager[object]:
    """For a block: operators are seen before autograd takes them apart."""
    return IncludeDispatchKeyGuard(DispatchKey.PreDispatch)


def suspend_functionalization() -> AbstractContextManager[object]:
    """For a block: calls pass the key Functionalize over, and factories give plain tensors."""
    return ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Functionalize))


@contextmanager
def enable_crossref_functionalize() -> Iterator[None]:
    """For a block: what the key Functionalize answers must be what the operator gives on fakes.

    Each call runs in a fresh fake mode as well. Raises AssertionError that names the operator where
    sizes, dtypes or significant strides differ. `lift_fresh`, whose result is its argument, and
    calls that fakes cannot answer without data are not compared.
    """
    replace_fallback(DispatchKey.Functionalize, _checked_kernel)
    try:
        yield
    finally:
        replace_fallback(DispatchKey.Functionalize, key_kernel)


def _checked_kernel(op: OpOverload, ks: int) -> Kernel:
    kernel = key_kernel(op, ks)
    if op._opname == "lift_fresh":
        return kernel

    def checked(ks: int, *params: object) -> object:
        expected = _on_fakes(op, params)
        result = kernel(ks, *params)
        if expected is not None:
            for fake, t in zip(_tensors(expected), _tensors(result), strict=True):
                _check(op, fake.meta, t.meta)
        return result

    return checked


def _on_fakes(op: OpOverload, params: tuple[object, ...]) -> object:
    """The result of a call on fakes of its tensors; None where data would have to say it."""
    mode = FakeTensorMode()

    def fake(t: object) -> object:
        if not isinstance(t, Tensor):
            return t
        m = t.meta
        return empty_strided(m.shape, m.strides, dtype=m.dtype, device=m.device)

    with (
        temporarily_clear_interpreter_stack(),
        disable_current_modes(),
        suspend_functionalization(),
        mode,
    ):
        args, kwargs = normalise(op._schema, tuple([tree_map(fake, p) for p in params]))
        try:
            return op(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return None


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def _check(op: OpOverload, expected: TensorMeta, found: TensorMeta) -> None:
    same = found.shape == expected.shape and found.dtype is expected.dtype
    if not same or _significant(found) != _significant(expected):
        raise AssertionError(
            f"{op}: functionalization gave {found} with strides {found.strides}, on fakes it gives "
            f"{expected} with strides {expected.strides}"
        )


def _significant(meta: TensorMeta) -> list[object]:
    """The strides by which an element is found: none of dimensions of size 1, or of no elements."""
    return [] if not meta.numel else [s for n, s in zip(meta.shape, meta.strides) if n != 1]


__all__ = [
    "enable_crossref_functionalize",
    "enable_pre_dispatch",
    "enable_python_dispatcher",
    "no_python_dispatcher",
    "suspend_functionalization",
]
