"""The stack of modes that see operators before autograd and decompositions (spec D107-D110).

It has a slot for a proxy and one for a functional mode, or else one schema-checking mode alone. The
modes of every other purpose are in `modes.py`; who asks these ones is `overrides.py`. The one idea:
a thread includes the key PreDispatch while a slot is taken.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.tls import tls

BITS = K.functionality_bits(DispatchKey.PreDispatch)
_SCHEMA_CHECK = 2


class TorchDispatchModeKey(enum.Enum):
    """The infra kinds: a thread has at most one mode of each on a stack, below all others."""

    FAKE = 0
    PROXY = 1
    FUNCTIONAL = 2


ON_ENTRY: list[Callable[[], None]] = []
"""Called whenever a mode enters the stack: caches of operators forget PreDispatch."""
_SLOTS = {TorchDispatchModeKey.PROXY: 0, TorchDispatchModeKey.FUNCTIONAL: 1}


def _slot_of(mode: object) -> int:
    if getattr(mode, "_schema_check", False):
        return _SCHEMA_CHECK
    kind = getattr(mode, "_mode_key", None)
    assert kind in _SLOTS, (
        f"only a proxy, a functional or a schema-checking mode stands at PreDispatch, not a "
        f"{type(mode).__name__}"
    )
    return _SLOTS[kind]


def set_mode_pre_dispatch(mode: object) -> None:
    """Put a mode into the slot of its kind; AssertionError for other kinds and a taken slot."""
    st = tls.st
    slot = _slot_of(mode)
    slots = st.pre_dispatch_modes
    checking = slots[_SCHEMA_CHECK]
    alone = checking is None if slot != _SCHEMA_CHECK else not listed()
    assert alone, (
        f"{type(mode).__name__}: a schema-checking mode is on the PreDispatch stack exclusively; "
        f"there are {', '.join(type(m).__name__ for m in listed())}"
    )
    assert slots[slot] is None, f"the slot of {type(mode).__name__} is taken by {slots[slot]!r}"
    slots[slot] = mode
    st.add_include(BITS)
    for forget in ON_ENTRY:
        forget()


def get_mode_pre_dispatch(kind: TorchDispatchModeKey) -> object | None:
    """The PreDispatch mode of a kind, or None."""
    slot = _SLOTS.get(kind)
    return None if slot is None else tls.st.pre_dispatch_modes[slot]


def unset_mode_pre_dispatch(
    kind: TorchDispatchModeKey | None, schema_check: bool = False
) -> object | None:
    """Empty the slot of a kind, or the schema-checking one; its mode or None."""
    if schema_check:
        assert kind is None, f"schema_check=True names a slot of its own; got {kind} too"
        return _empty(_SCHEMA_CHECK)
    assert kind in _SLOTS, f"only PROXY and FUNCTIONAL modes stand at PreDispatch, not {kind}"
    return _empty(_SLOTS[kind])


def _empty(slot: int) -> object | None:
    st = tls.st
    mode = st.pre_dispatch_modes[slot]
    st.pre_dispatch_modes[slot] = None
    if not listed():
        st.drop_include(BITS)
    return mode


def pop_mode_pre_dispatch() -> object:
    """Take the top mode off: the schema-checking one, else FUNCTIONAL, else PROXY."""
    slots = tls.st.pre_dispatch_modes
    taken = [slot for slot, mode in enumerate(slots) if mode is not None]
    assert taken, "the PreDispatch stack is empty"
    return _empty(taken[-1])


def listed() -> list[object]:
    """The modes on the PreDispatch stack, the top last."""
    return [mode for mode in tls.st.pre_dispatch_modes if mode is not None]


def len_torch_dispatch_stack_pre_dispatch() -> int:
    """How many modes are on the PreDispatch stack."""
    return len(listed())


def get_dispatch_stack_at_pre_dispatch(slot: int) -> object | None:
    """The mode in slot 0 (PROXY) or 1 (FUNCTIONAL), or None."""
    assert slot in (0, 1), f"the PreDispatch stack has slots 0 and 1, not {slot}"
    return tls.st.pre_dispatch_modes[slot]
