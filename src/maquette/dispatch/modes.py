"""Modes and subclasses: the handlers at Python and of torch functions.

`TorchDispatchMode` objects see every operator below autograd; `TorchFunctionMode` objects see calls
before anything else. A mode is popped while its handler runs. The stacks are per thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.matching import check_result, normalise
from maquette.dispatch.operator import (
    NO_OVERRIDE,
    TORCH_FUNCTION_HANDLER,
    OpOverload,
    set_fallback,
)
from maquette.dispatch.tls import DispatchState, tls

PYTHON = K.functionality_bits(DispatchKey.Python)
SNAPSHOT = K.functionality_bits(DispatchKey.PythonTLSSnapshot)
_ABOVE_PYTHON = K.bits_above(DispatchKey.Python)


class TorchDispatchMode:
    """See and answer every operator called in the block, after autograd (D94-D99).

    Override ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``; call ``func`` in it to
    go on to the next mode, then to the tensors.
    """

    _mode_key: object | None = None

    def __init__(self, _dispatch_key: DispatchKey | None = None) -> None:
        if _dispatch_key is not None:
            assert isinstance(_dispatch_key, DispatchKey), (
                f"_dispatch_key must be a DispatchKey, got {type(_dispatch_key).__name__}"
            )
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_dispatch__")

    def __enter__(self) -> TorchDispatchMode:
        key = getattr(self, "_dispatch_key", None)
        assert key in (None, DispatchKey.PreDispatch), f"modes cannot stand at {key}"
        push_mode(self)
        return self

    def __exit__(self, *exc: object) -> None:
        pop_mode()


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that passes every call on."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return func(*args, **(kwargs or {}))


def push_mode(mode: TorchDispatchMode) -> None:
    """Put a mode on top of this thread's stack."""
    st = tls.st
    st.dispatch_modes.append(mode)
    st.set_include(st.include | PYTHON | SNAPSHOT)


def pop_mode() -> TorchDispatchMode:
    """Take the top mode off this thread's stack."""
    st = tls.st
    mode = st.dispatch_modes.pop()
    if not st.dispatch_modes:
        st.set_include(st.include & ~(PYTHON | SNAPSHOT))
    assert isinstance(mode, TorchDispatchMode)
    return mode


def get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The top mode of this thread, or None."""
    modes = tls.st.dispatch_modes
    top = modes[-1] if modes else None
    assert top is None or isinstance(top, TorchDispatchMode)
    return top


@contextmanager
def pop_mode_temporarily() -> Iterator[TorchDispatchMode]:
    """Without the top mode for the block, which gets it."""
    mode = pop_mode()
    try:
        yield mode
    finally:
        push_mode(mode)


@contextmanager
def disable_current_modes() -> Iterator[list[object]]:
    """Without any dispatch mode for the block, fake modes included."""
    st = tls.st
    modes, fake = st.dispatch_modes, st.fake_mode
    include = st.include
    st.dispatch_modes, st.fake_mode = [], None
    st.set_include(include & ~(PYTHON | SNAPSHOT | K.functionality_bits(DispatchKey.Fake)))
    try:
        yield [*([fake] if fake is not None else []), *modes]
    finally:
        st.dispatch_modes, st.fake_mode = modes, fake
        st.set_include(include)


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Skip modes and ``__torch_dispatch__`` of subclasses for the block."""
    st = tls.st
    exclude = st.exclude
    st.set_exclude(exclude | PYTHON | SNAPSHOT)
    try:
        yield
    finally:
        st.set_exclude(exclude)


def _classes_with(bit: int, params: Sequence[object]) -> tuple[type, ...]:
    """Distinct classes of arguments that carry ``bit``, subclasses first, else left to right (D98)."""
    found: list[type] = []
    for t in _tensors(params):
        cls = type(t)
        if not getattr(cls, "_class_bits", 0) & bit or cls in found:
            continue
        at = next((i for i, known in enumerate(found) if issubclass(cls, known)), len(found))
        found.insert(at, cls)
    return tuple(found)


def _tensors(params: Sequence[object]) -> Iterator[TensorBase]:
    for p in params:
        if isinstance(p, TensorBase):
            yield p
        elif isinstance(p, (tuple, list)):
            yield from _tensors(p)


def python_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    """The kernel at Python: the top mode, then the subclasses among the arguments."""
    schema = op._schema

    def kernel(ks: int, *params: object) -> object:
        args, kwargs = normalise(schema, params)
        types = _classes_with(PYTHON, params)
        st = tls.st
        asked: list[object] = []
        exclude = st.exclude
        st.set_exclude(exclude | _ABOVE_PYTHON)
        try:
            if st.dispatch_modes:
                with pop_mode_temporarily() as mode:
                    asked.append(mode)
                    result = _ask_mode(mode, op, types, args, kwargs)
                if result is not NotImplemented:
                    return check_result(schema, result)
            for cls in types:
                asked.append(cls)
                result = cls.__torch_dispatch__(op, types, args, kwargs)  # type: ignore[attr-defined]  # D98: it has one
                if result is not NotImplemented:
                    return check_result(schema, result)
        finally:
            st.set_exclude(exclude)
        names = ", ".join(repr(a) if not isinstance(a, type) else a.__name__ for a in asked)
        raise TypeError(f"{op}: every handler returned NotImplemented; asked were: {names}")

    return kernel


def _ask_mode(
    mode: TorchDispatchMode,
    op: OpOverload,
    types: tuple[type, ...],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    rule = op.python_key_table.get(type(mode))
    if rule is not None:
        return rule(mode, *args, **kwargs)
    return mode.__torch_dispatch__(op, types, args, kwargs)


set_fallback(DispatchKey.Python, python_kernel)


class TorchFunctionMode:
    """See every call of a torch-named function or operator in the block, before matching."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_function__")

    def __enter__(self) -> TorchFunctionMode:
        _push_function_mode(tls.st, self)
        return self

    def __exit__(self, *exc: object) -> None:
        _pop_function_mode(tls.st)


def _push_function_mode(st: DispatchState, mode: TorchFunctionMode) -> None:
    st.function_modes.append(mode)
    st.set_include(st.include | K.TORCH_FUNCTION)


def _pop_function_mode(st: DispatchState) -> TorchFunctionMode:
    mode = st.function_modes.pop()
    if not st.function_modes:
        st.set_include(st.include & ~K.TORCH_FUNCTION)
    assert isinstance(mode, TorchFunctionMode)
    return mode


@contextmanager
def disable_torch_function_subclass() -> Iterator[None]:
    """Skip the ``__torch_function__`` of argument classes for the block; modes still see calls."""
    st = tls.st
    before = st.subclass_functions
    st.subclass_functions = False
    try:
        yield
    finally:
        st.subclass_functions = before


def call_torch_function(
    func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Offer a call to the top function mode, then to argument classes; NO_OVERRIDE if none is."""
    st = tls.st
    found: tuple[type, ...] = ()
    if st.subclass_functions:
        found = _classes_with(K.TORCH_FUNCTION, [*args, *kwargs.values()])
    asked: list[object] = []
    if st.function_modes:
        mode = _pop_function_mode(st)
        asked.append(mode)
        try:
            result = mode.__torch_function__(func, found, args, kwargs)
        finally:
            _push_function_mode(st, mode)
        if result is not NotImplemented:
            return result
    for cls in found:
        asked.append(cls)
        result = cls.__torch_function__(func, found, args, kwargs)  # type: ignore[attr-defined]  # it has one
        if result is not NotImplemented:
            return result
    if not asked:
        return NO_OVERRIDE
    names = ", ".join(repr(a) if not isinstance(a, type) else a.__name__ for a in asked)
    raise TypeError(f"no implementation found for '{func}': every handler declined: {names}")


TORCH_FUNCTION_HANDLER[0] = call_torch_function
