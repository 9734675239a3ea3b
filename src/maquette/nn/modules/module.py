"""`Module` under PyTorch's module path; it is `maquette.nn.base`'s.

The tables of hooks on all modules stand here under PyTorch's private names. Programs that replace
one by an empty dictionary take its hooks away.
"""

import sys
from collections.abc import Mapping
from types import ModuleType

from maquette.autograd.hooks import Hook
from maquette.nn.base.calling import _forward_unimplemented as _forward_unimplemented
from maquette.nn.base.hooks import (
    GLOBAL,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registration_hooks,
)
from maquette.nn.base.module import Module, _addindent
from maquette.nn.base.pickling import _WrappedHook
from maquette.nn.base.state_dict import IncompatibleKeys as _IncompatibleKeys

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX",
    "Module",
    "_WrappedHook",
    "_addindent",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]

_TABLES = {
    "_global_backward_hooks": GLOBAL.backward,
    "_global_backward_pre_hooks": GLOBAL.backward_pre,
    "_global_forward_hooks": GLOBAL.forward,
    "_global_forward_pre_hooks": GLOBAL.forward_pre,
    "_global_parameter_registration_hooks": registration_hooks["parameter"],
    "_global_buffer_registration_hooks": registration_hooks["buffer"],
    "_global_module_registration_hooks": registration_hooks["module"],
}
_SETS = {
    "_global_forward_hooks_always_called": GLOBAL.always_called,
    "_global_forward_hooks_with_kwargs": GLOBAL.with_kwargs,
}


class _WithTables(ModuleType):
    """This module: its tables are those of `maquette.nn.base.hooks`, read and replaced."""

    def __getattr__(self, name: str) -> object:
        if name in _TABLES:
            return _TABLES[name]
        if name in _SETS:
            return dict.fromkeys(_SETS[name], True)
        raise AttributeError(f"module 'torch.nn.modules.module' has no attribute '{name}'")

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _TABLES:
            super().__setattr__(name, value)
            return
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} is a dictionary of hooks, not {type(value).__name__}")
        _replace(_TABLES[name], value)


def _replace(table: dict[int, Hook], hooks: Mapping[int, Hook]) -> None:
    """Let a table have these hooks, and no others."""
    # PyTorch keeps backward hooks of both kinds in one table.
    old = GLOBAL.backward_old if table is GLOBAL.backward else {}
    for hook_id in [*table, *old]:
        GLOBAL.remove(hook_id)
    table.update(hooks)
    GLOBAL.ids.update(hooks)


sys.modules[__name__].__class__ = _WithTables
