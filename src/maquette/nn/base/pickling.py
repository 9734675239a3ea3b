"""Modules in the form that PyTorch gives them: as pickles, as copies, and as `vars(module)`.

A module of ours keeps its members as attributes and its hooks in tables (`members.py`,
`hooks.py`). Here they stand as in PyTorch's: dicts of parameters, buffers and children, and a dict
for each kind of hook. So a saved module is read by either, and a class that writes its own
``__setstate__`` for PyTorch, or goes through ``__dict__``, finds what it expects.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from maquette.autograd.hooks import RemovableHandle, reserve
from maquette.nn.base.calling import Calling
from maquette.nn.base.hooks import Hook, HookTable, StateHookTable
from maquette.nn.base.members import BUFFERS, DICTS, MODULES, PARAMETERS, MemberView
from maquette.nn.base.state_dict import StateDict, WithModule

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
_BEFORE_LOADING = "_load_state_dict_pre_hooks"
_FLAGS = ("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
_ALWAYS = "_forward_hooks_always_called"
_FULL = "_is_full_backward_hook"
_KINDS = {name: kind for kind, name in DICTS.items()}
_SHOWN = frozenset((*_KINDS, *_CALL_HOOKS, *_STATE_HOOKS, *_FLAGS, _PERSISTENCE, _ALWAYS, _FULL))


def _refill(hooks: dict[int, Any], new: dict[int, Any]) -> None:
    new = dict(new)  # it may be these hooks
    hooks.clear()
    hooks.update(new)


class _WrappedHook:
    """A hook on loading as PyTorch's files hold it: with its module, if it is given that."""

    def __init__(self, hook: Hook, module: object) -> None:
        self.hook = hook
        self.with_module = True
        self.module = module

    def __call__(self, *args: object) -> object:
        return self.hook(self.module, *args) if self.with_module else self.hook(*args)


def _unwrapped(hook: Hook) -> Hook:
    if not isinstance(hook, _WrappedHook):
        return hook
    return WithModule(hook.hook) if hook.with_module else hook.hook


def _in_one_of(handle: RemovableHandle, dicts: list[dict[int, Any]]) -> RemovableHandle:
    """A handle of the dict, of those of a state, that its hook stands in."""
    held = [hooks for hooks in dicts if handle.id in hooks]
    return handle.in_dicts(held[0], held[1:]) if held else handle


class Pickling(Calling, StateDict):
    """The base of `Module` that takes its state apart and puts it together.

    What is shown of the hooks of a module that has none yet is empty, and belongs to nothing.
    """

    def _mq_shown(self) -> State:
        attributes = self._mq_attributes
        own = dict(attributes)
        if PARAMETERS not in own:
            return own  # its __init__ was not run
        hooks = own.pop("_mq_hooks", None) or HookTable()
        state_hooks = own.pop("_mq_state_hooks", None) or StateHookTable()
        for kind in DICTS:
            for member in own.pop(kind):
                own.pop(member, None)
        return {
            "training": own.pop("training", True),
            "_parameters": MemberView(attributes, PARAMETERS),
            "_buffers": MemberView(attributes, BUFFERS),
            _PERSISTENCE: self._non_persistent_buffers_set,
            "_backward_pre_hooks": hooks.backward_pre,
            "_backward_hooks": hooks.backward,
            _FULL: self._is_full_backward_hook,
            "_forward_hooks": hooks.forward,
            _FLAGS[0]: hooks.flagged(hooks.forward),
            _ALWAYS: dict.fromkeys(hooks.always_called, True),
            "_forward_pre_hooks": hooks.forward_pre,
            _FLAGS[1]: hooks.flagged(hooks.forward_pre),
            **{name: getattr(state_hooks, ours) for name, ours in _STATE_HOOKS.items()},
            "_modules": MemberView(attributes, MODULES),
            **own,
        }

    def _mq_show(self, name: str, value: Any) -> Any:
        if name not in _SHOWN:
            self._mq_attributes[name] = value
            return value
        if PARAMETERS not in self._mq_attributes:
            self._mq_attributes.update((kind, {}) for kind in DICTS)
        if name in _KINDS:
            self._mq_replace_all(_KINDS[name], value)
        elif name == _PERSISTENCE:
            names = self._mq_attributes[BUFFERS]
            names.update((buffer, buffer not in value) for buffer in names)
        elif value or self._mq_hooks is not None or self._mq_state_hooks is not None:
            self._mq_set_hooks(name, value)
        return self._mq_shown()[name]

    def _mq_hide(self, name: str) -> None:
        if name in _SHOWN:
            self._mq_show(name, {})
        else:
            del self._mq_attributes[name]

    def _mq_set_hooks(self, name: str, value: Any) -> None:
        """Take over one of PyTorch's dicts of hooks, or of what is known of them."""
        if name in _STATE_HOOKS:
            _refill(getattr(self._mq_state_hook_table(), _STATE_HOOKS[name]), value)
            reserve(value)
            return
        table = self._mq_hook_table()
        if name in _CALL_HOOKS:
            _refill(getattr(table, _CALL_HOOKS[name]), value)
            table.ids.update(value)
            reserve(value)
        elif name in _FLAGS:
            table.with_kwargs.update(value)
        elif name == _ALWAYS:
            table.always_called.update(value)

    def __getstate__(self) -> State:
        """All attributes, members and hooks, in PyTorch's form."""
        state = self._mq_shown()
        if "_parameters" not in state:
            return state
        state.update((name, state[name].copy()) for name in DICTS.values())
        hooks = (*_CALL_HOOKS, *_STATE_HOOKS, *_FLAGS, _ALWAYS)
        state.update((name, OrderedDict(state[name])) for name in hooks)
        before_loading = state[_BEFORE_LOADING]
        for key, hook in before_loading.items():
            if isinstance(hook, WithModule):
                before_loading[key] = _WrappedHook(hook.hook, self)
        dicts = [state[name] for name in hooks]
        state.update(
            (name, _in_one_of(value, dicts))
            for name, value in state.items()
            if isinstance(value, RemovableHandle)
        )
        return state

    def __setstate__(self, state: State) -> None:
        """Take over a state of ours or of PyTorch's; what it does not say stays as it is."""
        state = dict(state)
        attributes = self._mq_attributes
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
            getattr(table, ours).update((key, _unwrapped(hook)) for key, hook in hooks.items())
            reserve(hooks)
            found = found or bool(hooks)
        if found:
            self._mq_state_hooks = table
