"""Modules as pickles and copies: their state in the form that PyTorch gives it.

A module of ours keeps its members as attributes and its hooks in tables (`members.py`,
`hooks.py`). In a pickle they stand as in PyTorch's: dicts of parameters, buffers and children, and
a dict for each kind of hook. So a saved module is read by either, and a class that writes its own
``__setstate__`` for PyTorch finds what it expects.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from maquette.nn.base.calling import Calling
from maquette.nn.base.hooks import HookTable, RemovableHandle, StateHookTable, reserve
from maquette.nn.base.members import BUFFERS, DICTS, PARAMETERS
from maquette.nn.base.state_dict import StateDict

State = dict[str, Any]
_PERSISTENCE = "_non_persistent_buffers_set"
# PyTorch's dicts of hooks, and the dicts of our two tables.
_CALL_HOOKS = {
    "_forward_hooks": "forward",
    "_forward_pre_hooks": "forward_pre",
    "_backward_hooks": "backward",
    "_backward_pre_hooks": "backward_pre",
}
_STATE_HOOKS = {
    "_state_dict_hooks": "save_post",
    "_state_dict_pre_hooks": "save_pre",
    "_load_state_dict_pre_hooks": "load_pre",
    "_load_state_dict_post_hooks": "load_post",
}
_FLAGS = ("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
_ALWAYS = "_forward_hooks_always_called"
_FULL = "_is_full_backward_hook"


class Pickling(Calling, StateDict):
    """The base of `Module` that takes its state apart and puts it together."""

    def __getstate__(self) -> State:
        """All attributes, members and hooks, in PyTorch's form."""
        own = dict(self.__dict__)
        if PARAMETERS not in own:
            return own  # its __init__ was not run
        state: State = {"training": own.pop("training", True)}
        hooks = own.pop("_mq_hooks", None) or HookTable()
        state_hooks = own.pop("_mq_state_hooks", None) or StateHookTable()
        buffers = own[BUFFERS]
        for kind, name in DICTS.items():
            own.pop(name, None)  # views, if there are any
            state[name] = {member: own.pop(member, None) for member in own.pop(kind)}
        state[_PERSISTENCE] = {name for name, persistent in buffers.items() if not persistent}
        state |= {name: OrderedDict(getattr(hooks, ours)) for name, ours in _CALL_HOOKS.items()}
        state |= {
            name: OrderedDict(getattr(state_hooks, ours)) for name, ours in _STATE_HOOKS.items()
        }
        for name, ours in zip(_FLAGS, (hooks.forward, hooks.forward_pre)):
            state[name] = OrderedDict.fromkeys((i for i in ours if i in hooks.with_kwargs), True)
        state[_ALWAYS] = OrderedDict.fromkeys(hooks.always_called, True)
        state[_FULL] = True if hooks.backward else None
        return state | own

    def __setstate__(self, state: State) -> None:
        """Take over a state of ours or of PyTorch's; what it does not say stays as it is."""
        state = dict(state)
        attributes = self.__dict__
        for kind, name in DICTS.items():
            members = state.pop(name, None)
            names = dict(state.pop(kind, ()))
            attributes[kind] = names | dict.fromkeys(members or (), None)
            attributes.update(members or {})
        hidden = state.pop(_PERSISTENCE, set())
        attributes[BUFFERS] = {
            name: known is not False and name not in hidden
            for name, known in attributes[BUFFERS].items()
        }
        self._mq_set_call_hooks(state)
        self._mq_set_state_hooks(state)
        attributes.setdefault("training", True)
        attributes.update(state)
        if self._mq_shows_dicts:
            self._mq_show_dicts()
        for value in state.values():
            if isinstance(value, RemovableHandle):
                self._mq_take_handle(value)

    def _mq_take_handle(self, handle: RemovableHandle) -> None:
        for table in (self._mq_hooks, self._mq_state_hooks):
            if table is not None and any(handle.id in d for d in table.dicts()):
                handle.belongs_to(table)

    def _mq_set_call_hooks(self, state: State) -> None:
        table = HookTable()
        for name, ours in _CALL_HOOKS.items():
            getattr(table, ours).update(state.pop(name, None) or {})
            table.ids.update(getattr(table, ours))
        for name in _FLAGS:
            table.with_kwargs.update(state.pop(name, None) or ())
        table.always_called.update(state.pop(_ALWAYS, None) or ())
        state.pop(_FULL, None)
        if table.ids:
            reserve(table.ids)
            self._mq_hooks = table

    def _mq_set_state_hooks(self, state: State) -> None:
        table = StateHookTable()
        found = False
        for name, ours in _STATE_HOOKS.items():
            hooks = state.pop(name, None) or {}
            getattr(table, ours).update(hooks)
            reserve(hooks)
            found = found or bool(hooks)
        if found:
            self._mq_state_hooks = table
