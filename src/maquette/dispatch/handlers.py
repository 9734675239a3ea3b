"""The kernels at Python and PythonTLSSnapshot: modes and subclasses answer calls (spec D96-D100).

What a mode is and how the stack of modes is kept is in `modes.py`. The one idea: a handler is a
kernel like any other; while it runs, its mode is off the stack and every key above Python is
excluded, so that what it calls goes to the next mode and down, never up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, cast

from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import TensorBase, tensors_in
from maquette.dispatch.guards import ForceDispatchKeyGuard
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet
from maquette.dispatch.modes import (
    ABOVE_PYTHON,
    ACTIVE_MODES,
    PYTHON,
    SNAPSHOT,
    WITHOUT_HANDLER,
    python_classes,
)
from maquette.dispatch.operator import OpOverload, set_fallback
from maquette.dispatch.overrides import PYTHON_DISPATCHER
from maquette.dispatch.schemas.matching import check_result, normaliser, returned_arguments
from maquette.dispatch.tls import tls

_MODE_BITS = PYTHON | SNAPSHOT
# What an effective key set has left for the calls of a mode's handler.
_BELOW_MODES = ~ABOVE_PYTHON
_BELOW_LAST_MODE = ~(ABOVE_PYTHON | _MODE_BITS)


def python_kernel(op: OpOverload, ks: int) -> Boxed:
    """The kernel at Python: the top mode, then the subclasses among the arguments (D99)."""
    return _asking(op, noting=False)


def _asking(op: OpOverload, *, noting: bool) -> Boxed:
    """`python_kernel`; noting: for `enable_reentrant_dispatch`, what `snapshot_kernel` notes.

    A mode is asked in this one function: 1.9 us of 6.0 less than by one for each kernel, for the
    classes and for the change of the key sets (timeit of `add` under a mode, CPython 3.11).
    """
    schema = op._schema
    as_seen: Callable[..., Any] | None = None  # those who answer with kernels' parameters need none
    one_tensor = len(schema.returns) == 1 and schema.returns[0].type.kind == "tensor"
    returned = returned_arguments(schema)
    below = ~_MODE_BITS

    def kernel(ks: int, *params: object) -> object:
        nonlocal as_seen
        st = tls.st
        modes = st.dispatch_modes
        types: tuple[type, ...] = ()
        for value in params:
            cls = value.__class__
            if cls not in WITHOUT_HANDLER:
                types = python_classes(params)
                break
        if not modes:
            if not noting:
                return _without_mode(op, ks & below, types, params)
            outer, st.snapshot = st.snapshot, (st.include, st.exclude)
            try:
                return _without_mode(op, ks & below, types, params)
            finally:
                st.snapshot = outer
        mode = modes.pop()
        include, exclude, grad_enabled = st.include, st.exclude, st.grad_enabled
        keep, effective = st.keep, st.effective
        # One change of both sets, where popping, excluding and their undoing would be four; what
        # it was before is known by its table: 0.3 us less (timeit).
        known = _asked.get(id(effective)) if not modes else None
        if known is not None and known[0] is effective and known[1] == exclude:
            _, _, within, st.exclude, st.keep, st.effective = known
            st.include = within
        else:
            st.set_both(include if modes else include & below, exclude | ABOVE_PYTHON)
            within = st.include
            if not modes:
                _remember_asked(effective, exclude)
        outer = st.snapshot
        try:
            answers = mode._answers_of_operators  # type: ignore[attr-defined]  # modes of any class
            answer = answers.get(op) if answers and not types and not op.dispatch_rules else None
            if answer is not None:
                result = answer(ks & (_BELOW_MODES if modes else _BELOW_LAST_MODE), *params)
            else:
                if noting:
                    st.snapshot = include, exclude
                if as_seen is None:
                    as_seen = normaliser(schema)
                args, kwargs = as_seen(params)
                handler = mode.__torch_dispatch__  # type: ignore[attr-defined]  # of any class
                if op.dispatch_rules or getattr(handler, "__self__", None) is not mode:
                    handler = _handler_of_mode(mode, op, handler)
                result = handler(op, types, args, kwargs)
        finally:
            st.dispatch_modes.append(mode)
            if st.include is within and st.grad_enabled is grad_enabled:
                st.include, st.exclude, st.keep, st.effective = include, exclude, keep, effective
            else:  # the handler has changed what is included, or grad mode, for good
                st.include = st.include | _MODE_BITS
                st.exclude = exclude
                st._derive()
            st.snapshot = outer
        if one_tensor and isinstance(result, TensorBase):
            # `check_result`, where there is nothing to convert
            return params[cast(int, returned[0])] if returned else result
        if result is not NotImplemented:
            return _answer(op, returned, result, params)
        if noting:
            st.snapshot = include, exclude
        try:
            return _ask_classes(op, mode, types, params)
        finally:
            st.snapshot = outer

    return kernel


_Asked = tuple[dict[int, int], int, int, int, int, dict[int, int]]
_asked: dict[int, _Asked] = {}
"""The state in which a thread's only mode is asked, by the table of effective key sets before."""
_MOST_ASKED = 256


def _remember_asked(effective: dict[int, int], exclude: int) -> None:
    st = tls.st
    if len(_asked) >= _MOST_ASKED:
        _asked.clear()
    _asked[id(effective)] = effective, exclude, st.include, st.exclude, st.keep, st.effective


def _handler_of_mode(
    mode: object, op: OpOverload, handler: Callable[..., object]
) -> Callable[..., object]:
    """What answers for a mode: a rule of the operator's, or else its handler."""
    if op.dispatch_rules and type(mode) in op.dispatch_rules:
        return functools.partial(op.dispatch_rules[type(mode)], mode)
    if isinstance(getattr(handler, "__self__", None), type):
        raise RuntimeError(
            f"{type(mode).__name__}.__torch_dispatch__: a classmethod is not supported, please "
            f"make it a plain method"
        )
    return handler


def _without_mode(
    op: OpOverload, below: int, types: tuple[type, ...], params: Sequence[object]
) -> object:
    if not types:  # the key alone was included
        return op.run(below, params)
    return _ask_classes(op, None, types, params)


def _ask_classes(
    op: OpOverload, mode: object | None, types: tuple[type, ...], params: Sequence[object]
) -> object:
    """What the subclasses among the arguments answer, where the top mode has not."""
    args, kwargs = normaliser(op._schema)(tuple(params))
    returned = returned_arguments(op._schema)
    st = tls.st
    exclude = st.exclude
    st.set_exclude(exclude | ABOVE_PYTHON)
    try:
        for cls in types:
            result = _handler_of(cls, op)(op, types, args, kwargs)
            if result is not NotImplemented:
                return _answer(op, returned, result, params)
    finally:
        st.set_exclude(exclude)
    _raise_declined(op, mode, types, params)


def _answer(
    op: OpOverload,
    returned: Sequence[int | None],
    result: object,
    params: Sequence[object],
) -> object:
    """What a handler has given, checked; for what the operator wrote, the argument itself.

    A handler wraps what it gets from below anew, and the new object has neither the identity nor
    the history of the one that was written.
    """
    checked = check_result(op._schema, result)
    if not returned:
        return checked
    if len(returned) == 1:
        return params[cast(int, returned[0])]
    values = cast("tuple[object, ...]", checked)
    return tuple([v if i is None else params[i] for v, i in zip(values, returned, strict=True)])


def _handler_of(cls: type, op: OpOverload) -> Callable[..., object]:
    if cls in op.dispatch_rules:
        return functools.partial(op.dispatch_rules[cls], cls)
    handler: Callable[..., object] = cls.__torch_dispatch__  # type: ignore[attr-defined]  # it has one
    return handler


def _raise_declined(
    op: OpOverload, mode: object | None, types: tuple[type, ...], params: Sequence[object]
) -> NoReturn:
    asked = ([] if mode is None else [repr(mode)]) + [cls.__name__ for cls in types]
    # Fakes, say, which lie below whatever has a handler.
    others = dict.fromkeys(type(t).__name__ for t in tensors_in(params) if type(t) not in types)
    beside = f"; they came with arguments of type {', '.join(others)}" if others else ""
    raise TypeError(
        f"Multiple dispatch failed for 'torch.ops.{op}'; all __torch_dispatch__ handlers returned "
        f"NotImplemented; asked were {', '.join(asked)}{beside}"
    )


def snapshot_kernel(op: OpOverload, ks: int) -> Boxed:
    """The kernel at PythonTLSSnapshot: the thread's sets, for `enable_reentrant_dispatch`."""
    low = ks & ~SNAPSHOT
    if not low & PYTHON_DISPATCHER:
        next_kernel = op.kernel_at(K.highest(low))
        if next_kernel is not None and next_kernel.factory is python_kernel:
            return _asking(op, noting=True)
    table, resolve = op._table, op.resolve

    def kernel(ks: int, *params: object) -> object:
        st = tls.st
        before, st.snapshot = st.snapshot, (st.include, st.exclude)
        try:
            return (table.get(low) or resolve(low))(low, *params)
        finally:
            st.snapshot = before

    return kernel


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """In a handler: the key sets as they were when the operator was called, for the block (D97).

    Autograd and transforms act again; the running mode stays off the stack.
    """
    st = tls.st
    if st.snapshot is None:
        raise RuntimeError(
            "enable_reentrant_dispatch() works inside a __torch_dispatch__ only: no call has been "
            "handed to one here"
        )
    include, exclude = (DispatchKeySet.from_raw_repr(bits) for bits in st.snapshot)
    active = st.include & ACTIVE_MODES  # these follow the stacks of modes, which have not changed
    include = DispatchKeySet.from_raw_repr(include.raw_repr() & ~ACTIVE_MODES | active)
    with ForceDispatchKeyGuard(include, exclude):
        yield


def autograd_would_have_decomposed(op: OpOverload, args: object) -> bool:
    """Whether a call, but for inference mode or the like, runs as the pieces of ``op`` (D100).

    That is so where the backend of the first tensor has no kernel of its own.
    """
    first = next(tensors_in(args), None)
    if first is None:
        raise ValueError(f"{op}: no tensor among the arguments, so no backend to ask about")
    return not op.has_kernel_for_dispatch_key(K.highest(first._keys & _BACKEND_KEYS))


_BACKEND_KEYS = K.BACKENDS | K.functionality_bits(DispatchKey.CPU)

set_fallback(DispatchKey.Python, python_kernel)
set_fallback(DispatchKey.PythonTLSSnapshot, snapshot_kernel)
