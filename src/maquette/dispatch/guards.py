"""Context managers and functions over a thread's included and excluded keys (spec D15-D20).

Every guard acts on the thread that enters it and undoes on exit, after an exception too, exactly
what it changed: keys that the block itself switched stay switched, except under the two guards that
restore whole sets. Hidden bits belong to whoever set them and pass through all guards untouched.
The state itself is in `tls.py`; modes, which include keys too (D20), are pushed in `modes.py`.
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from maquette.dispatch.keysets import (
    AUTOGRAD,
    VISIBLE,
    DispatchKeySet,
    KeyLike,
    as_key,
)
from maquette.dispatch.tls import DispatchState, tls

Keys = KeyLike | DispatchKeySet
"""What the guards take: a key, its name or a set."""

_AD_INPLACE_OR_VIEW = as_key("ADInplaceOrView").bits
_Guard = TypeVar("_Guard", bound="_KeyGuard")


class _KeyGuard:
    """Enters and leaves; one guard object may be entered again while it is active."""

    __slots__ = ("_undo",)

    def __init__(self) -> None:
        self._undo: list[tuple[int, int]] = []

    def __enter__(self: _Guard) -> _Guard:
        self._undo.append(self._change(tls.st))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore(tls.st, *self._undo.pop())

    def _change(self, st: DispatchState) -> tuple[int, int]:
        """Change the state; the answer goes to `_restore`."""
        raise NotImplementedError

    def _restore(self, st: DispatchState, include: int, exclude: int) -> None:
        """Undo the change. Here: put back both whole visible sets."""
        _replace(st, include, exclude)


class IncludeDispatchKeyGuard(_KeyGuard):
    """Adds keys to the thread's include set: calls see them whatever their arguments are."""

    __slots__ = ("_bits",)

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._bits = DispatchKeySet(keys).raw_repr()

    def _change(self, st: DispatchState) -> tuple[int, int]:
        added = self._bits & ~st.include
        st.add_include(added)
        return added, 0

    def _restore(self, st: DispatchState, include: int, exclude: int) -> None:
        st.drop_include(include)


class ExcludeDispatchKeyGuard(_KeyGuard):
    """Adds keys to the thread's exclude set: calls skip them; exclude beats include (D16).

    What counts is a key's functionality: excluding AutogradCPU skips every Autograd<backend> key.
    """

    __slots__ = ("_bits",)

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._bits = DispatchKeySet(keys).raw_repr()

    def _change(self, st: DispatchState) -> tuple[int, int]:
        added = self._bits & ~st.exclude
        st.add_exclude(added)
        return 0, added

    def _restore(self, st: DispatchState, include: int, exclude: int) -> None:
        st.drop_exclude(exclude)


class AutoDispatchBelowAutograd(ExcludeDispatchKeyGuard):
    """Excludes every Autograd key: calls are not recorded for the backward pass (D18)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(DispatchKeySet.from_raw_repr(AUTOGRAD))


class AutoDispatchBelowADInplaceOrView(ExcludeDispatchKeyGuard):
    """Excludes Autograd and ADInplaceOrView: views and versions are not tracked either (D18)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(DispatchKeySet.from_raw_repr(AUTOGRAD | _AD_INPLACE_OR_VIEW))


class PreserveDispatchKeyGuard(_KeyGuard):
    """Restores both sets on exit, whatever the block did to them."""

    __slots__ = ()

    def _change(self, st: DispatchState) -> tuple[int, int]:
        return st.include & VISIBLE, st.exclude & VISIBLE


class ForceDispatchKeyGuard(PreserveDispatchKeyGuard):
    """Replaces both sets, and restores the old ones on exit."""

    __slots__ = ("_exclude", "_include")

    def __init__(self, include: DispatchKeySet, exclude: DispatchKeySet) -> None:
        super().__init__()
        self._include = include.raw_repr()
        self._exclude = exclude.raw_repr()

    def _change(self, st: DispatchState) -> tuple[int, int]:
        old = super()._change(st)
        _replace(st, self._include, self._exclude)
        return old


def _replace(st: DispatchState, include: int, exclude: int) -> None:
    """Replace the visible part of both sets."""
    st.set_include(st.include & ~VISIBLE | include)
    st.set_exclude(st.exclude & ~VISIBLE | exclude)


def tls_local_include_set() -> DispatchKeySet:
    """The calling thread's included keys."""
    return DispatchKeySet.from_raw_repr(tls.st.include)


def tls_local_exclude_set() -> DispatchKeySet:
    """The calling thread's excluded keys."""
    return DispatchKeySet.from_raw_repr(tls.st.exclude)


def tls_is_dispatch_key_included(key: KeyLike) -> bool:
    """Whether the thread includes the key's functionality (an alias: any member's; D19)."""
    return tls.st.include & as_key(key).functionality_bits != 0


def tls_is_dispatch_key_excluded(key: KeyLike) -> bool:
    """Whether the thread excludes the key's functionality (an alias: any member's; D19)."""
    return tls.st.exclude & as_key(key).functionality_bits != 0


def tls_set_dispatch_key_included(key: KeyLike, included: bool) -> None:
    """Switch the key's functionality (an alias: its members') in the thread's include set."""
    st = tls.st
    switch = st.add_include if included else st.drop_include
    switch(as_key(key).functionality_bits)


def tls_set_dispatch_key_excluded(key: KeyLike, excluded: bool) -> None:
    """Switch the key's functionality (an alias: its members') in the thread's exclude set."""
    st = tls.st
    switch = st.add_exclude if excluded else st.drop_exclude
    switch(as_key(key).functionality_bits)
