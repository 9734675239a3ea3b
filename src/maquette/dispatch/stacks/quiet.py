"""Function modes that are asked nothing: they only say where what is made is to be.

A quiet mode has a place among the other function modes, and no call is slower under it. What is
above it, other modes and handlers of classes, gets calls as its `said` has them; functions read the
thread's ``default_device``, that of the innermost such mode that holds where they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeGuard, cast

from maquette.core.device import device
from maquette.dispatch.tls import DispatchState, tls


class QuietMode(Protocol):
    """What a quiet mode has."""

    device: device
    is_quiet: bool

    def said(self, func: Callable[..., object], kwargs: dict[str, object]) -> dict[str, object]:
        """The keywords of a call with the device in them, if it is one that takes it."""


def is_quiet(mode: object) -> TypeGuard[QuietMode]:
    """Whether a function mode is a quiet one."""
    return getattr(mode, "is_quiet", False) is True


class NoModes(list[object]):
    """The modes where none is to be asked, whatever is active outside or entered inside."""

    def __bool__(self) -> bool:
        return False


def device_said(st: DispatchState) -> device | None:
    """The device of the innermost quiet mode below which are no more modes than there are now."""
    if type(st.function_modes) is NoModes:
        return None
    below = len(st.function_modes)
    for least, mode in reversed(st.quiet_modes):
        if least <= below:
            return cast(QuietMode, mode).device
    return None


def push_quiet(mode: QuietMode, *, lowest: bool = False) -> None:
    """Put a quiet mode on top of this thread's modes, or below all."""
    st = tls.st
    if lowest:
        st.quiet_modes.insert(0, (0, mode))
    else:
        st.quiet_modes.append((len(st.function_modes), mode))
    st.default_device = device_said(st)


def remove_quiet(mode: QuietMode) -> None:
    """Take a quiet mode away from this thread's modes, the uppermost if it is there twice."""
    st = tls.st
    at = max((i for i, (_, m) in enumerate(st.quiet_modes) if m is mode), default=None)
    if at is not None:
        del st.quiet_modes[at]
    st.default_device = device_said(st)


def said(
    st: DispatchState, func: Callable[..., object], kwargs: dict[str, object]
) -> dict[str, object]:
    """The keywords of a call as the quiet modes say them that are above the top mode."""
    count = len(st.function_modes)
    for below, mode in reversed(st.quiet_modes):
        if below == count:
            kwargs = cast(QuietMode, mode).said(func, kwargs)
    return kwargs


def function_mode_stack() -> list[object]:
    """All function modes of this thread, the top last."""
    st = tls.st
    found: list[object] = []
    for i in range(len(st.function_modes) + 1):
        found += [mode for below, mode in st.quiet_modes if below == i]
        found += st.function_modes[i : i + 1]
    return found


def pop_quiet(st: DispatchState) -> QuietMode:
    """Take the uppermost quiet mode away, and give it."""
    mode = cast(QuietMode, st.quiet_modes.pop()[1])
    st.default_device = device_said(st) if st.quiet_modes else None
    return mode
