"""Dispatch modes and the thread's stack of them (spec D94-D96, D101-D104).

`TorchDispatchMode` objects see every operator called in a block. Here is how they are pushed, found
and popped; who asks them is `handlers.py`, and the separate stack that sees operators before
autograd is `pre_dispatch.py`. The one idea: a thread has a list of modes, those of the *infra*
kinds (one mode each) below the user's whatever the order of entry, and the active fake mode, which
is not on that list since it has a dispatch key of its own, counts as the lowest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, cast

from maquette.dispatch import keysets as K
from maquette.dispatch import pre_dispatch
from maquette.dispatch.abstract import TensorBase, distinct_classes
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.tls import DispatchState, tls

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload

PYTHON = K.functionality_bits(DispatchKey.Python)
SNAPSHOT = K.functionality_bits(DispatchKey.PythonTLSSnapshot)
FAKE = K.functionality_bits(DispatchKey.Fake)
# What handlers at Python run without. Lazy bits stay: without their keys a value would be dropped.
ABOVE_PYTHON = K.bits_above(DispatchKey.Python) & ~(
    K.functionality_bits(DispatchKey.Conjugate) | K.functionality_bits(DispatchKey.Negative)
)
_MODE_BITS = PYTHON | SNAPSHOT
ACTIVE_MODES = _MODE_BITS | FAKE | pre_dispatch.BITS
"""The keys that a thread includes because modes are active."""
WATCHED = PYTHON | pre_dispatch.BITS
"""The keys that a thread includes while modes other than the fake one see its operators."""
_Mode = TypeVar("_Mode", bound="TorchDispatchMode")
ModeKey = TorchDispatchModeKey | DispatchKey | None
"""Names a slot: of an infra kind, of the PreDispatch stack, or (None) the top of the stack."""


class Answers(Protocol):
    """What `TorchDispatchMode._answers_of_operators` is: a dict, or what stands for one."""

    def get(self, op: OpOverload, /) -> Callable[..., object] | None:
        """What answers calls of an operator."""


class TorchDispatchMode:
    """See and answer every operator called in the block, after autograd (D94-D99).

    Override ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``; call ``func`` in it to
    go on to the next mode, then to the tensors. A mode may be entered again while it is active.
    """

    _mode_key: ClassVar[TorchDispatchModeKey | None] = None
    _schema_check: ClassVar[bool] = False
    measures_memory: ClassVar[bool] = False
    """Whether derivative formulas shall hold what they hold while no mode is active. Else they
    write nothing in place, as PyTorch's do in any mode, so that modes see no mutation."""
    _answers_of_operators: Answers | None = None
    """By operator, what answers calls instead of ``__torch_dispatch__`` where no argument is of a
    class with a handler; for modes that see operators by the thousand. It is given the key set with
    which to go on below the mode, `OpOverload.run`, and the parameters in the form of kernels."""
    _dispatch_key: DispatchKey | None = None  # for subclasses that do not call our __init__

    def __init__(self, _dispatch_key: DispatchKey | None = None) -> None:
        assert _dispatch_key is None or isinstance(_dispatch_key, DispatchKey), (
            f"_dispatch_key must be a DispatchKey or None, got {type(_dispatch_key).__name__}"
        )
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Answer a call, or give NotImplemented to leave it to the classes of its arguments."""
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_dispatch__")

    def __enter__(self: _Mode) -> _Mode:
        push_mode(self)
        tls.st.entered_modes.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        st = tls.st
        pop_mode(self._mode_key if self._dispatch_key is None else self._dispatch_key)
        entered = st.entered_modes
        if entered[-1] is self:
            entered.pop()
        else:
            del entered[max(i for i, mode in enumerate(entered) if mode is self)]

    @classmethod
    def push(cls: type[_Mode], *args: object, **kwargs: object) -> _Mode:
        """An instance; only older programs call this."""
        warnings.warn(
            f"{cls.__name__}.push(...) is not needed: write `with {cls.__name__}(...)`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)  # type: ignore[arg-type]  # a subclass's own parameters

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether this is one of the kinds that a thread has one of: fake, proxy, functional."""
        return cls._mode_key is not None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether the mode asks not to be told of the calls of machinery; infra modes do."""
        return cls.is_infra_mode()


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that passes every call on."""

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return func(*args, **(kwargs or {}))


# --- the stack -------------------------------------------------------------------------------


def push_mode(mode: TorchDispatchMode) -> None:
    """Put a mode on this thread's stack: on top, or in the slot of its kind.

    Raises RuntimeError for a second proxy or functional mode, AssertionError for a mode whose
    ``_dispatch_key`` is neither None nor PreDispatch.
    """
    key = mode._dispatch_key
    assert key in (None, DispatchKey.PreDispatch), (
        f"{type(mode).__name__} asks to stand at {key}; modes stand at Python (None) or PreDispatch"
    )
    if key is DispatchKey.PreDispatch:
        pre_dispatch.set_mode_pre_dispatch(mode)
    elif mode._mode_key is not None:
        set_dispatch_mode(mode)
    else:
        st = tls.st
        st.dispatch_modes.append(mode)
        st.add_include(_MODE_BITS)


push_on_torch_dispatch_stack = push_mode


def pop_mode(key: ModeKey = None) -> object:
    """Take the mode off this thread's stack that is listed last, or the one of a slot.

    Raises RuntimeError where there is none (AssertionError for the PreDispatch stack).
    """
    if key is DispatchKey.PreDispatch:
        return pre_dispatch.pop_mode_pre_dispatch()
    if isinstance(key, TorchDispatchModeKey):
        mode = unset_dispatch_mode(key)
        if mode is None:
            raise RuntimeError(f"there is no {key.name} mode on the stack to pop")
        return mode
    st = tls.st
    if not st.dispatch_modes:
        return _pop_fake(st)
    mode = st.dispatch_modes.pop()
    _drop_bits_with_last(st)
    return mode


pop_torch_dispatch_stack = pop_mode


def _pop_fake(st: DispatchState) -> object:
    if st.fake_mode is None:
        raise RuntimeError("there is no dispatch mode on the stack to pop")
    return unset_dispatch_mode(TorchDispatchModeKey.FAKE)


def _drop_bits_with_last(st: DispatchState) -> None:
    if not st.dispatch_modes:
        st.drop_include(_MODE_BITS)


def get_dispatch_mode(kind: TorchDispatchModeKey) -> object | None:
    """The active mode of an infra kind, or None."""
    st = tls.st
    if kind is TorchDispatchModeKey.FAKE:
        return st.fake_mode
    for mode in st.dispatch_modes:  # without a generator: traces ask often, mostly in vain
        if _kind(mode) is kind:
            return mode
    return None


def set_dispatch_mode(mode: TorchDispatchMode) -> None:
    """Put an infra mode into its slot: RuntimeError where that is taken, but for a fake mode."""
    kind = _kind(mode)
    st = tls.st
    if kind is TorchDispatchModeKey.FAKE:
        st.fake_mode = mode
        st.add_include(FAKE)
        return
    if get_dispatch_mode(kind) is not None:
        raise RuntimeError(
            f"cannot enter {type(mode).__name__}: a mode of kind {kind.name} already exists on "
            f"this thread, and there can be one"
        )
    # The order of the kinds is that of the listing; users' modes, of no kind, stand above.
    below = [m for m in st.dispatch_modes if _rank(m) < _rank(mode)]
    st.dispatch_modes.insert(len(below), mode)
    st.add_include(_MODE_BITS)


def unset_dispatch_mode(kind: TorchDispatchModeKey) -> object | None:
    """Take the mode of an infra kind off, if there is one."""
    st = tls.st
    mode = get_dispatch_mode(kind)
    if mode is None:
        return None
    if kind is TorchDispatchModeKey.FAKE:
        st.fake_mode = None
        st.drop_include(FAKE)
    else:
        st.dispatch_modes.remove(mode)
        _drop_bits_with_last(st)
    return mode


def _kind(mode: object) -> TorchDispatchModeKey:
    return getattr(mode, "_mode_key", None)  # type: ignore[return-value]  # None: a user's mode


def _rank(mode: object) -> int:
    kind = getattr(mode, "_mode_key", None)
    return len(TorchDispatchModeKey) if kind is None else int(kind.value)


def get_current_dispatch_mode_stack() -> list[object]:
    """All modes of this thread: fake, proxy, functional, then the user's, the top last."""
    st = tls.st
    fake = [] if st.fake_mode is None else [st.fake_mode]
    return [*fake, *st.dispatch_modes]


def len_torch_dispatch_stack() -> int:
    """How many modes this thread has."""
    return len(get_current_dispatch_mode_stack())


def get_dispatch_stack_at(position: int) -> object:
    """The mode at a position of the stack, the lowest at 0."""
    return get_current_dispatch_mode_stack()[position]


def get_current_dispatch_mode() -> object | None:
    """The mode listed last, or None."""
    stack = get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def python_classes(values: object) -> tuple[type[TensorBase], ...]:
    """The distinct classes of arguments with a ``__torch_dispatch__``, subclasses first (D98)."""
    found = _python_classes(values if isinstance(values, _SEQUENCES) else (values,))
    return distinct_classes(found) if found else ()


def _python_classes(values: Iterable[object]) -> list[type[TensorBase]]:
    # Without generators: modes ask this of every call, and mostly find none.
    found: list[type[TensorBase]] = []
    for value in values:
        cls = value.__class__
        if cls in _NO_TENSORS:
            continue
        if isinstance(value, TensorBase):
            if value._class_bits & value._keys & PYTHON:
                found.append(type(value))
        elif cls is tuple or cls is list or isinstance(value, _SEQUENCES):
            found += _python_classes(cast("Iterable[object]", value))
    return found


_NO_TENSORS: frozenset[type] = frozenset((int, float, bool, str, type(None)))
WITHOUT_HANDLER: set[type] = set(_NO_TENSORS)
"""Classes of arguments without a ``__torch_dispatch__``: those of tensors are added to it."""
_SEQUENCES = (list, tuple)


# --- without modes for a block ---------------------------------------------------------------


@contextmanager
def pop_mode_temporarily(key: ModeKey = None) -> Iterator[object]:
    """Without one mode for the block, which gets it: the top, or that of a slot."""
    mode = pop_mode(key)
    try:
        yield mode
    finally:
        _put_back(mode, key)


def _put_back(mode: object, key: ModeKey) -> None:
    if key is DispatchKey.PreDispatch:
        pre_dispatch.set_mode_pre_dispatch(mode)
    elif _kind(mode) is not None:
        set_dispatch_mode(mode)  # type: ignore[arg-type]  # a fake mode is of no class we know
    else:
        st = tls.st
        st.dispatch_modes.append(mode)
        st.add_include(_MODE_BITS)


@contextmanager
def disable_current_modes() -> Iterator[list[object]]:
    """Without any mode for the block, which gets them: PreDispatch first, top first (D104)."""
    for kind in TorchDispatchModeKey:
        _check_on_one_stack(kind)
    st = tls.st
    modes, fake, before = st.dispatch_modes, st.fake_mode, st.pre_dispatch_modes
    popped = [*pre_dispatch.listed()[::-1], *get_current_dispatch_mode_stack()[::-1]]
    mode_bits = st.include & ACTIVE_MODES
    st.dispatch_modes, st.fake_mode, st.pre_dispatch_modes = [], None, [None, None, None]
    st.drop_include(mode_bits)
    try:
        yield popped
    finally:
        st.dispatch_modes, st.fake_mode, st.pre_dispatch_modes = modes, fake, before
        st.add_include(mode_bits)


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Skip modes, a fake mode too, and ``__torch_dispatch__`` of subclasses for the block."""
    st = tls.st
    fake, added = st.fake_mode, _MODE_BITS & ~st.exclude
    fake_bit = st.include & FAKE
    st.fake_mode = None
    st.drop_include(FAKE)
    st.add_exclude(added)
    try:
        yield
    finally:
        st.fake_mode = fake
        st.add_include(fake_bit)
        st.drop_exclude(added)


@contextmanager
def above_python_excluded() -> Iterator[None]:
    """Exclude every key above Python for the block: what a handler at Python runs in (D97)."""
    st = tls.st
    exclude = st.exclude
    st.set_exclude(exclude | ABOVE_PYTHON)
    try:
        yield
    finally:
        st.set_exclude(exclude)


# --- questions -------------------------------------------------------------------------------


def _check_on_one_stack(kind: TorchDispatchModeKey) -> None:
    found = (pre_dispatch.get_mode_pre_dispatch(kind), get_dispatch_mode(kind))
    assert None in found, (
        f"a mode of kind {kind.name} is on the PreDispatch stack and on the other too"
    )


def detect_infra_mode(kind: TorchDispatchModeKey) -> object | None:
    """The active mode of an infra kind on either stack, or None."""
    _check_on_one_stack(kind)
    return pre_dispatch.get_mode_pre_dispatch(kind) or get_dispatch_mode(kind)


def unset_infra_mode(kind: TorchDispatchModeKey) -> object | None:
    """Take the mode of an infra kind off the stack it is on, if it is on one."""
    if pre_dispatch.get_mode_pre_dispatch(kind) is not None:
        _check_on_one_stack(kind)
        return pre_dispatch.unset_mode_pre_dispatch(kind)
    return unset_dispatch_mode(kind)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether the ``with`` block of a mode is open in this thread, while its handler runs too."""
    return any(include_infra_modes or _kind(mode) is None for mode in _open_modes())


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Whether the block of a mode is open that wants to be told of the calls of machinery."""
    return any(
        isinstance(mode, TorchDispatchMode) and not mode.ignore_compile_internals()
        for mode in _open_modes()
    )


def _open_modes() -> list[object]:
    st = tls.st
    return [*st.entered_modes, *([] if st.fake_mode is None else [st.fake_mode])]


def any_torch_dispatch_mode_on_stack() -> bool:
    """Whether a user's mode is on this thread's stack."""
    return any(_kind(mode) is None for mode in tls.st.dispatch_modes)
