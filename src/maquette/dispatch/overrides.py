"""Python overrides of an overload's kernels, and what they are at each key (spec D67, D78-D82).

`OperatorBase.py_impl` stores overrides; they act while the key PythonDispatcher is included, which
`enable_python_dispatcher` does. Here an operator's answer for one key is found and cached, and a
call under that key is run. The one idea: overrides are looked up per key, walking down from the
highest, and a key without one is served by the registered kernel as ever.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maquette.dispatch import keysets as K
from maquette.dispatch import pre_dispatch
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import (
    PYTHON,
    above_python_excluded,
    pop_mode_temporarily,
    python_classes,
)
from maquette.dispatch.resolution import resolve_key
from maquette.dispatch.schemas.matching import check_result, normalise
from maquette.dispatch.tls import tls

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload

PYTHON_DISPATCHER = K.functionality_bits(DispatchKey.PythonDispatcher)
Answer = DispatchKey | Callable[..., object]
"""What serves a key: a registered kernel, named by its key, or a Python function."""

_CACHED: weakref.WeakSet[OpOverload] = weakref.WeakSet()


@contextmanager
def enable_python_dispatcher() -> Iterator[None]:
    """Let `py_impl` overrides act for the block."""
    with _python_dispatcher(PYTHON_DISPATCHER):
        yield


@contextmanager
def no_python_dispatcher() -> Iterator[None]:
    """Run registered kernels only for the block."""
    with _python_dispatcher(0):
        yield


@contextmanager
def _python_dispatcher(bit: int) -> Iterator[None]:
    st = tls.st
    before = st.include & PYTHON_DISPATCHER
    st.set_include(st.include & ~PYTHON_DISPATCHER | bit)
    try:
        yield
    finally:
        st.set_include(st.include & ~PYTHON_DISPATCHER | before)


def get_cached_ops() -> set[OpOverload]:
    """The overloads that have cached an answer for some key."""
    return set(_CACHED)


def add_cached_op(op: OpOverload) -> None:
    """Count ``op`` among those that have cached an answer."""
    _CACHED.add(op)


def reset_cached_ops() -> None:
    """Forget which overloads have cached answers; the answers stay."""
    _CACHED.clear()


def _uncache_pre_dispatch() -> None:
    for op in get_cached_ops():
        op._uncache_dispatch(DispatchKey.PreDispatch)


pre_dispatch.ON_ENTRY.append(_uncache_pre_dispatch)


def compute_dispatch(op: OpOverload, key: DispatchKey) -> Answer:
    """Find what serves ``key`` for ``op``, and cache it, but at PreDispatch (D78-D80).

    AssertionError where it is cached already; NotImplementedError where nothing serves the key.
    """
    assert key not in op._dispatch_cache, f"{op} has cached its answer for {key} already"
    add_cached_op(op)
    if key is DispatchKey.PreDispatch:
        # Whether a mode is active changes from call to call, so this is never cached.
        return _at_pre_dispatch(op) if _pre_dispatch_acts() else _override(op, key)
    if key is DispatchKey.Python:
        answer: Answer = _at_python(op) if op.python_key_table else key
    else:
        answer = _override(op, key)
    op._dispatch_cache[key] = answer
    return answer


def _override(op: OpOverload, key: DispatchKey) -> Answer:
    serving = resolve_key(op, key)
    return op.py_kernels.get(serving, serving)


def _pre_dispatch_acts() -> bool:
    return bool(pre_dispatch.listed()) and not tls.st.exclude & PYTHON


def _at_pre_dispatch(op: OpOverload) -> Callable[..., object]:
    def handler(*args: object, **kwargs: object) -> object:
        types = python_classes([*args, *kwargs.values()])
        mode = pre_dispatch.pop_mode_pre_dispatch()
        try:
            return mode.__torch_dispatch__(  # type: ignore[attr-defined]  # modes of any class
                op, types, args, kwargs
            )
        finally:
            pre_dispatch.set_mode_pre_dispatch(mode)

    return handler


def _at_python(op: OpOverload) -> Callable[..., object]:
    """The rule for the class of the top mode, where there is one; else modes as usual (D79)."""

    def handler(*args: object, **kwargs: object) -> object:
        st = tls.st
        rule = op.python_key_table.get(type(st.dispatch_modes[-1])) if st.dispatch_modes else None
        if rule is None:
            return op._op_dk(DispatchKey.Python, *args, **kwargs)
        with above_python_excluded(), pop_mode_temporarily() as mode:
            return rule(mode, *args, **kwargs)

    return handler


def overridden_kernel(op: OpOverload, ks: int) -> Boxed:
    """The callable for an effective key set that has PythonDispatcher."""
    if ks & pre_dispatch.BITS:
        return lambda ks, *params: _walk(op, ks)(ks, *params)
    return _walk(op, ks)


def _walk(op: OpOverload, ks: int) -> Boxed:
    rest = ks & ~PYTHON_DISPATCHER
    while True:
        key = K.highest(rest)
        answer = op._dispatch_cache.get(key) or compute_dispatch(op, key)
        if not isinstance(answer, DispatchKey):
            return _boxed(op, answer)
        kernel = op.registered_kernel(answer, key)
        if not kernel.only_with_grad or ks & K.REQUIRES_GRAD:
            built = kernel.factory(op, ks)
            if built is not None:
                return built
        rest &= ~K.functionality_bits(key)


def refuse_array_kernel(op: OpOverload, ks: int) -> None:
    """RuntimeError if a call that needs Python kernels would end in one of arrays alone (D131)."""
    rest = ks & ~PYTHON_DISPATCHER
    while True:
        key = K.highest(rest)
        answer = op._dispatch_cache.get(key) or compute_dispatch(op, key)
        if not isinstance(answer, DispatchKey):
            return
        kernel = op.registered_kernel(answer, key)
        own = bool(op._kernels.get(answer))  # fallbacks of higher keys hand the call on
        if own and kernel.factory(op, ks) is not None:
            break
        if key is DispatchKey.Undefined:
            return
        rest &= ~K.functionality_bits(key)
    if kernel.of_arrays:
        raise RuntimeError(
            f"{op.name()} was called with a fake script object, but its kernel at the dispatch key "
            f"{key} has no Python implementation: it takes arrays. Register one with "
            f"maquette.library.impl, or with register_fake on fake tensors"
        )


def _boxed(op: OpOverload, function: Callable[..., object]) -> Boxed:
    schema = op._schema

    def kernel(ks: int, *params: object) -> object:
        args, kwargs = normalise(schema, params)
        return check_result(schema, function(*args, **kwargs))

    return kernel
