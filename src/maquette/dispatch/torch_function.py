"""`__torch_function__`: who may answer a call before its arguments are matched (spec D135-D136).

Here are the function modes, the switches that turn overriding off, and `call_torch_function`,
which asks modes and classes in their order. The one idea: that a call is to be offered is told by a
hidden bit of the key set, which tensors of such classes carry and a thread includes while a mode is
active; so a call that nobody overrides pays nothing for this.
"""

from __future__ import annotations

import enum
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar, cast

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import memory_format
from maquette.core.symbols import OFFERS
from maquette.dispatch.abstract import (
    ACTIVE,
    TensorBase,
    disabled_torch_function,
    torch_function_of,
)
from maquette.dispatch.keysets import TORCH_FUNCTION
from maquette.dispatch.stacks.quiet import (
    NoModes,
    device_said,
    function_mode_stack,
    is_quiet,
    pop_quiet,
    push_quiet,
    said,
)
from maquette.dispatch.tls import DispatchState, tls

_Mode = TypeVar("_Mode", bound="TorchFunctionMode")
_Function = TypeVar("_Function", bound=Callable[..., object])
_Switch = TypeVar("_Switch", bound="DisableTorchFunctionSubclass")


class _NoOverride:
    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_OVERRIDE"


NO_OVERRIDE = _NoOverride()
"""What `call_torch_function` gives when there was nobody to ask."""


class Overridden(Exception):  # no error: whoever calls a public entry catches it
    """Handlers of ``__torch_function__`` are to be asked before the operator is called.

    What an operator's `public_call` raises, so that the public function over it offers the call in
    its own name, with its arguments as they were written: a call that nobody overrides carries
    neither along.
    """


class TorchFunctionMode:
    """See and answer every call of an operator in the block, before its arguments are matched.

    Override ``__torch_function__(self, func, types, args=(), kwargs=None)``; call ``func`` in it to
    go on to the next mode, then to the classes of the arguments.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Answer a call, or give NotImplemented to leave it to the classes of its arguments."""
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_function__")

    def __enter__(self: _Mode) -> _Mode:
        _push(tls.st, self)
        return self

    def __exit__(self, *exc: object) -> None:
        _pop(tls.st)

    @classmethod
    def push(cls: type[_Mode], *args: object, **kwargs: object) -> _Mode:
        """A mode of the class, for ``with``; as modes were entered once, which warns."""
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that passes every call on."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """Skip the ``__torch_function__`` of argument classes for the block; modes still see calls."""

    def __init__(self) -> None:
        self._undo: list[tuple[bool, list[object]]] = []

    def __enter__(self: _Switch) -> _Switch:
        st = tls.st
        self._undo.append((st.subclass_functions, st.function_modes))
        st.subclass_functions = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        st = tls.st
        st.subclass_functions, st.function_modes = self._undo.pop()
        _show_modes(st)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Skip every ``__torch_function__`` for the block, that of modes too."""

    def __enter__(self: _Switch) -> _Switch:
        super().__enter__()
        st = tls.st
        st.function_modes = NoModes()
        _show_modes(st)
        return self


class TorchFunctionState(enum.Enum):
    """Who is asked in a thread: all, modes alone, nobody."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def torch_function_state() -> TorchFunctionState:
    """Who is asked in this thread."""
    st = tls.st
    if st.subclass_functions:
        return TorchFunctionState.ENABLED
    alone = isinstance(st.function_modes, NoModes)
    return TorchFunctionState.ALL_DISABLED if alone else TorchFunctionState.SUBCLASSES_DISABLED


def set_torch_function_state(state: TorchFunctionState) -> None:
    """Say who is asked in this thread from now on."""
    st = tls.st
    st.subclass_functions = state is TorchFunctionState.ENABLED
    if state is TorchFunctionState.ALL_DISABLED:
        st.function_modes = NoModes()
    elif isinstance(st.function_modes, NoModes):
        st.function_modes = []
    _show_modes(st)


class OverridingSwitch:
    """Turns ``__torch_function__`` off and on again, as it is where the switch is made.

    For what runs operators of its own that no user called, between calls of what users wrote.
    """

    __slots__ = ("_modes", "_subclasses")

    def __init__(self) -> None:
        st = tls.st
        self._subclasses = st.subclass_functions
        self._modes = st.function_modes

    def off(self) -> None:
        """Neither modes nor classes are asked from now on."""
        st = tls.st
        st.subclass_functions = False
        if self._modes:
            st.function_modes = []
            _show_modes(st)

    def on(self) -> None:
        """Those are asked that were at the start."""
        st = tls.st
        st.subclass_functions = self._subclasses
        if self._modes:
            st.function_modes = self._modes
            _show_modes(st)


class _HandlersPassed(DisableTorchFunction):
    """`DisableTorchFunction` for calls that come from handlers: the device is as they have it."""

    def __enter__(self: _Switch) -> _Switch:
        where = tls.st.default_device
        super().__enter__()
        tls.st.default_device = where
        return self


def _push(st: DispatchState, mode: object) -> None:
    ACTIVE.append(None)
    st.function_modes.append(mode)
    _show_modes(st)


def _pop(st: DispatchState) -> TorchFunctionMode:
    mode = st.function_modes.pop()
    ACTIVE.pop()
    _show_modes(st)
    assert isinstance(mode, TorchFunctionMode)
    return mode


def _show_modes(st: DispatchState) -> None:
    """Keep the hidden bit true to whether a mode is active."""
    if st.function_modes:
        st.add_include(TORCH_FUNCTION)
    else:
        st.drop_include(TORCH_FUNCTION)
    if st.quiet_modes:
        st.default_device = device_said(st)


def push_mode(mode: TorchFunctionMode) -> None:
    """Put a mode on top of this thread's, as entering its block does."""
    if is_quiet(mode):
        push_quiet(mode)
    else:
        _push(tls.st, mode)


def pop_mode() -> TorchFunctionMode:
    """Take the top mode of this thread away, and give it."""
    st = tls.st
    if st.quiet_modes and st.quiet_modes[-1][0] == len(st.function_modes):
        return cast(TorchFunctionMode, pop_quiet(st))
    if not len(tls.st.function_modes):  # it may be false though it holds some
        raise RuntimeError("trying to pop from an empty stack of function modes")
    return _pop(tls.st)


@contextmanager
def pop_mode_temporarily() -> Iterator[TorchFunctionMode]:
    """Without the top mode, for a block that gets it."""
    mode = pop_mode()
    try:
        yield mode
    finally:
        push_mode(mode)


def modes_are_active() -> bool:
    """Whether any thread may have an active function mode: a quick question that comes first."""
    return bool(ACTIVE)


def get_current_function_mode() -> TorchFunctionMode | None:
    """The top function mode of this thread, or None."""
    modes = get_current_function_mode_stack()
    return modes[-1] if modes else None


def get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """The function modes of this thread, the top last."""
    return [mode for mode in function_mode_stack() if isinstance(mode, TorchFunctionMode)]


def is_overridden(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether `call_torch_function` has somebody to ask about a call with these arguments."""
    st = tls.st
    if st.function_modes:
        return True
    if not st.subclass_functions:
        return False
    for value in (*args, *kwargs.values()) if kwargs else args:
        if value.__class__ in _PLAIN:
            continue
        if isinstance(value, _SEQUENCES):
            if not _holds_plain(value) and any(torch_function_of(v) is not None for v in value):
                return True
        elif torch_function_of(value) is not None:
            return True
    return False


def member_is_overridden(t: TensorBase) -> bool:
    """`is_overridden` of reading a member of a tensor.

    The handler that classes have who define none is passed over: it says what the member says.
    """
    st = tls.st
    if st.function_modes:
        return True
    if not (t._class_bits and st.subclass_functions):
        return False
    handler: Any = t.__torch_function__  # type: ignore[attr-defined]  # each class of tensors has it
    return getattr(handler, "__func__", handler) not in SILENT_HANDLERS


SILENT_HANDLERS: set[object] = {disabled_torch_function}
"""Functions in the place of handlers of tensors who have nothing to say to reading a member."""


def takes_hop() -> bool:
    """Whether the offer that is due is the one that `redispatch` skips; it is skipped once."""
    st = tls.st
    if not st.hop_skipped:
        return False
    st.hop_skipped = False
    return True


def redispatch(
    func: Callable[..., object],
    types: Sequence[type],
    args: tuple[object, ...],
    kwargs: dict[str, object] | None = None,
) -> object:
    """Call a function from its handler: it is not offered again, the calls inside of it are.

    An operator has no such calls: what it does is not seen by handlers.
    """
    st = tls.st
    st.hop_skipped = True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        st.hop_skipped = False


def offered(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    among: tuple[object, ...] | None = None,
) -> object:
    """What handlers answer to the call of a public function that met `Overridden`.

    among: as for `call_torch_function`.
    """
    answer = call_torch_function(function, args, kwargs, among)
    if answer is not NO_OVERRIDE:
        return answer
    with _HandlersPassed():  # no handler is behind the keys of the arguments
        return function(*args, **kwargs)


def offered_method(
    method: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """`offered`, for methods of tensors whose types are declared: a handler may answer anything."""
    return offered(method, args, kwargs)


def offered_member(
    member: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """`offered_method`, for members that take nothing: of any tensor the class is told."""
    return offered(member, args, kwargs, args[:1])


def offered_in_python(
    method: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """`offered_method`, for what PyTorch has in Python: plain tensors count among the classes."""
    return offered(method, args, kwargs, _tensors_with_handlers(args, kwargs))


def overriding_arguments(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[object, ...]:
    """The arguments whose handlers are asked, one of each class, those of subclasses first.

    Lists and tuples are looked into, one deep.
    """
    found: list[object] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if value.__class__ in _PLAIN:  # a first call asks three times of all its arguments
            continue
        members = value if isinstance(value, _SEQUENCES) else (value,)
        found += [m for m in members if torch_function_of(m) is not None]
    return _one_of_each_class(found) if found else ()


def _one_of_each_class(found: Sequence[object]) -> tuple[object, ...]:
    ordered: list[object] = []
    for value in found:
        cls = type(value)
        if all(type(known) is not cls for known in ordered):
            base = (i for i, known in enumerate(ordered) if issubclass(cls, type(known)))
            ordered.insert(next(base, len(ordered)), value)
    return tuple(ordered)


class NobodyAnswersError(TypeError):
    """Every handler that was asked gave NotImplemented."""


def call_torch_function(
    func: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    among: tuple[object, ...] | None = None,
) -> object:
    """Offer a call to the top function mode, then to handlers of arguments; NO_OVERRIDE if none is.

    among: those whose handlers are asked, where they are not to be looked for in the arguments.

    Raises TypeError, naming those asked, if every one gave NotImplemented (D135).
    """
    if takes_hop():
        return NO_OVERRIDE
    st = tls.st
    if not st.subclass_functions:
        among = ()
    elif among is None:
        among = overriding_arguments(args, kwargs)
    types = tuple([type(value) for value in among])
    asked: list[object] = []
    if st.quiet_modes:
        kwargs = said(st, func, kwargs)
    if st.function_modes:
        mode = _pop(st)
        asked.append(mode)
        try:
            answer = mode.__torch_function__
            if getattr(answer, "__self__", None) is type(mode):
                raise RuntimeError(
                    f"{type(mode).__name__}.__torch_function__: a classmethod is not supported, "
                    f"please make it a plain method"
                )
            result = answer(func, types, args, kwargs)
        finally:
            _push(st, mode)
        if result is not NotImplemented:
            return result
    for value in among:
        asked.append(type(value))
        handler = torch_function_of(value)
        if handler is None:  # a plain tensor among others, or a tensor that is asked nothing
            handler = cast(Any, value).__torch_function__
            if getattr(handler, "__func__", handler) is disabled_torch_function:
                return NO_OVERRIDE
        elif getattr(handler, "__self__", None) is value:
            warnings.warn(_PLAIN_METHOD, stacklevel=3)
        result = handler(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not asked:
        return NO_OVERRIDE
    names = ", ".join(a.__name__ if isinstance(a, type) else repr(a) for a in asked)
    raise NobodyAnswersError(
        f"no implementation found for '{func}': every __torch_function__ gave NotImplemented; "
        f"asked were {names}"
    )


_PLAIN_METHOD = (
    "Defining your `__torch_function__` as a plain method is deprecated and will be an error in "
    "future, please define it as a classmethod."
)
# Classes of arguments that never override anything; no list or tuple, which may hold others.
_PLAIN: set[type] = {int, float, bool, str, complex, type(None), dtype, device, memory_format}
_MOST_CLASSES = 4096
_SEQUENCES = (list, tuple)


def _holds_plain(value: object) -> bool:
    """Whether it is a list or tuple of what never overrides anything, as lists of sizes are."""
    listed = value.__class__ is list or value.__class__ is tuple
    return listed and _PLAIN.issuperset(map(type, cast("Sequence[object]", value)))


def overridable(
    function: _Function,
    *,
    as_written: bool = False,
    by_name: bool = False,
    arranged: Callable[..., Sequence[object]] | None = None,
    told_as: Callable[[dict[str, object]], Callable[..., object] | None] | None = None,
) -> _Function:
    """A function in Python over operators, offered to ``__torch_function__`` as one call.

    Handlers get parameters without a default as positional arguments and the others by name, all of
    them, and plain tensors count among the classes; as_written: just as the caller wrote them, and
    plain tensors do not count; by_name: all of them by name; arranged: makes the one form of the
    positional arguments that they get; told_as: the function that they are told instead, or None,
    by the arguments that have names.
    """

    @functools.wraps(function)
    def public(*args: object, **kwargs: object) -> object:
        for a in args:
            if a.__class__ not in _PLAIN and not _holds_plain(a):
                break
        else:
            for a in kwargs.values():
                if a.__class__ not in _PLAIN and not _holds_plain(a):
                    break
            else:
                if not ACTIVE:
                    return function(*args, **kwargs)
        if is_overridden(args, kwargs):
            if takes_hop():
                return function(*args, **kwargs)
            if as_written:
                return call_torch_function(public, args, kwargs)
            args, kwargs = call_with_defaults(function, args, kwargs)
            if by_name:
                kwargs = {**dict(zip(inspect.signature(function).parameters, args)), **kwargs}
                args = ()
            if arranged is not None:
                args = tuple(arranged(*args))
            told = (told_as(kwargs) if told_as is not None else None) or public
            return call_torch_function(told, args, kwargs, _tensors_with_handlers(args, kwargs))
        if len(_PLAIN) < _MOST_CLASSES:
            _PLAIN.update(type(a) for a in (*args, *kwargs.values()) if _never_overrides(type(a)))
        return function(*args, **kwargs)

    public.__dict__["as_written"] = as_written
    return cast(_Function, public)


def _offer_of_numbers(
    public: Callable[..., object],
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """Call a public function of numbers: handlers of modes and of other arguments come first."""
    if is_overridden(args, kwargs) and not takes_hop():
        answer = call_torch_function(public, args, kwargs)
        if answer is not NO_OVERRIDE:
            return answer
    return function(*args, **kwargs)


OFFERS[0] = _offer_of_numbers


def seen_by_modes(function: _Function) -> _Function:
    """A function of data that is no tensor: function modes are offered its calls, classes not."""

    @functools.wraps(function)
    def public(*args: object, **kwargs: object) -> object:
        if ACTIVE and tls.st.function_modes:
            answer = call_torch_function(public, args, kwargs, ())
            if answer is not NO_OVERRIDE:
                return answer
        return function(*args, **kwargs)

    return cast(_Function, public)


def _tensors_with_handlers(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[object, ...] | None:
    """`overriding_arguments`, plain tensors too: what PyTorch's functions in Python say."""
    if not tls.st.subclass_functions:
        return None
    found: list[object] = []
    for value in (*args, *kwargs.values()):
        for member in value if isinstance(value, list | tuple) else (value,):
            function = getattr(member, "__torch_function__", None)
            if function is None:
                continue
            if getattr(function, "__func__", function) is not disabled_torch_function:
                found.append(member)
    return _one_of_each_class(found)


def _never_overrides(cls: type) -> bool:
    """Whether no object of a class can have a handler, now or later."""
    if issubclass(cls, TensorBase):
        return not cls._class_bits & TORCH_FUNCTION
    return not cls.__flags__ & _MUTABLE and not issubclass(cls, list | tuple)


_MUTABLE = 1 << 9  # the flag of classes that Python code has made, Py_TPFLAGS_HEAPTYPE


def call_with_defaults(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments without a default by position, the others by name; as written if they don't fit."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs
    bound.apply_defaults()
    positional: list[object] = []
    named: dict[str, object] = {}
    for name, parameter in signature.parameters.items():
        value = bound.arguments[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += cast("tuple[object, ...]", value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= cast("dict[str, object]", value)
        elif parameter.default is inspect.Parameter.empty and not named:
            positional.append(value)
        else:
            named[name] = value
    return tuple(positional), named


def default_torch_function(
    cls: type,
    func: Callable[..., object],
    types: Sequence[type],
    args: tuple[object, ...] = (),
    kwargs: dict[str, object] | None = None,
    *,
    convert: Callable[[TensorBase, type], object],
) -> object:
    """What a class without a handler does: call, and make the results of its class (D136).

    convert: makes a plain tensor one of the class. A class among ``types`` that is no base of
    ``cls`` is left to itself: NotImplemented.
    """
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return _converted(result, cls, convert)


def _converted(result: object, cls: type, convert: Callable[[TensorBase, type], object]) -> object:
    if isinstance(result, TensorBase):
        return result if isinstance(result, cls) else convert(result, cls)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        named = cast(Callable[..., object], type(result))
        return named(*[_converted(item, cls, convert) for item in result])
    if isinstance(result, list | tuple):
        return type(result)([_converted(item, cls, convert) for item in result])
    return result
