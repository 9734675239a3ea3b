"""Hooks on the calls of modules: tables of them, handles to remove them, and a call that runs them.

A table belongs to one module or, `GLOBAL`, to all. What a module without hooks does is in
`calling.py`; it asks whether there is any hook before it comes here. Backward hooks work through
nodes of the graph: `backward_hooks.py`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from maquette.autograd.hooks import Hook, Hooks, RemovableHandle
from maquette.dispatch.module_calls import HOOKS
from maquette.nn.base.backward_hooks import BackwardHooks, watch_last_node

if TYPE_CHECKING:
    from maquette.nn.base.module import Module


class HookTable:
    """The hooks on calls of one module, or of all, each under the id of its handle."""

    def __init__(self, ids: set[int] | None = None) -> None:
        self.forward_pre: Hooks = {}
        self.forward: Hooks = {}
        self.backward_pre: Hooks = {}
        self.backward: Hooks = {}
        self.backward_old: Hooks = {}  # on the last node alone
        self.ids: set[int] = set() if ids is None else ids  # of all kinds
        self.with_kwargs: set[int] = set()  # these take the keyword arguments, too
        self.always_called: set[int] = set()  # these run when forward raises, too

    def add(
        self,
        hooks: Hooks,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Enter `hook` in `hooks`, one of this table's four, last or (prepend) first."""
        handle = RemovableHandle(self)
        add_hook(hooks, handle.id, hook, prepend=prepend)
        self.ids.add(handle.id)
        if with_kwargs:
            self.with_kwargs.add(handle.id)
        if always_call:
            self.always_called.add(handle.id)
        return handle

    def flagged(self, hooks: Hooks) -> dict[int, bool]:
        """Those of some hooks that take the keyword arguments, in PyTorch's form."""
        return dict.fromkeys((i for i in hooks if i in self.with_kwargs), True)

    def dicts(self) -> tuple[Hooks, ...]:
        """All kinds."""
        every = (self.forward_pre, self.forward, self.backward_pre, self.backward)
        return *every, self.backward_old

    def remove(self, hook_id: int) -> None:
        """Take a hook out, if it is here."""
        for hooks in self.dicts():
            hooks.pop(hook_id, None)
        self.ids.discard(hook_id)
        self.with_kwargs.discard(hook_id)
        self.always_called.discard(hook_id)


def add_hook(hooks: Hooks, hook_id: int, hook: Hook, *, prepend: bool) -> None:
    """Enter a hook last or first."""
    if not prepend:
        hooks[hook_id] = hook
        return
    later = dict(hooks)
    hooks.clear()
    hooks[hook_id] = hook
    hooks.update(later)


class StateHookTable:
    """The hooks of one module on saving and loading its state."""

    def __init__(self) -> None:
        self.save_pre: Hooks = {}
        self.save_post: Hooks = {}
        self.load_pre: Hooks = {}
        self.load_post: Hooks = {}

    def add(self, hooks: Hooks, hook: Hook) -> RemovableHandle:
        """Enter `hook` in `hooks`, one of this table's four."""
        handle = RemovableHandle(self)
        hooks[handle.id] = hook
        return handle

    def dicts(self) -> tuple[Hooks, ...]:
        """The four kinds."""
        return self.save_pre, self.save_post, self.load_pre, self.load_post

    def remove(self, hook_id: int) -> None:
        """Take a hook out, if it is here."""
        for hooks in self.dicts():
            hooks.pop(hook_id, None)


GLOBAL = HookTable(HOOKS)
registration_hooks: dict[str, Hooks] = {"parameter": {}, "buffer": {}, "module": {}}
"""Hooks on what modules register: `hook(module, name, member)` may return another member."""


class _Registration:
    """A table of one kind of `registration_hooks`, for their handles."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks

    def dicts(self) -> tuple[Hooks, ...]:
        """The one."""
        return (self.hooks,)

    def remove(self, hook_id: int) -> None:
        """Take a hook out, if it is here."""
        self.hooks.pop(hook_id, None)


_registration = {kind: _Registration(hooks) for kind, hooks in registration_hooks.items()}


def _on_registration(kind: str, hook: Hook) -> RemovableHandle:
    handle = RemovableHandle(_registration[kind])
    registration_hooks[kind][handle.id] = hook
    return handle


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` at each registration; it may return another."""
    return _on_registration("parameter", hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` at each registration; it may return another."""
    return _on_registration("buffer", hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` at each registration; it may return another."""
    return _on_registration("module", hook)


def registered(kind: str, module: object, name: str, member: Any) -> Any:
    """The member as the hooks on registrations leave it."""
    for hook in tuple(registration_hooks[kind].values()):
        replaced = hook(module, name, member)
        if replaced is not None:
            member = replaced
    return member


class HookDict:
    """PyTorch's name for one dict of a module's hooks, for programs that reach for it."""

    def __init__(self, table: str, kind: str) -> None:
        self.table = table
        self.kind = kind

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        return self if module is None else getattr(getattr(module, self.table)(), self.kind)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, module: Any, hooks: Hooks) -> None:
        module._mq_show(self.name, hooks)

    def __delete__(self, module: Any) -> None:
        self.__get__(module).clear()


class HookedCall:
    """One call of a module that has hooks, its own or global ones.

    Arguments and result change on the way, and hooks that run on failure see how far they got.
    """

    def __init__(
        self, module: Module, own: HookTable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.module = module
        self.own = own
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None  # a hook or a forward may return anything
        self.called: set[int] = set()

    def run(self) -> Any:
        """Pre-hooks, forward, hooks; on an exception, those forward hooks that always run."""
        try:
            self._run()
        except Exception:
            self._run_always_called()
            raise
        return self.result

    def _run(self) -> None:
        backward = self._backward_hooks()
        for table in (GLOBAL, self.own):
            for hook_id, hook in tuple(table.forward_pre.items()):
                self._call_pre_hook(hook, hook_id in table.with_kwargs)
        if backward is not None:
            self.args = backward.watch_inputs(self.args)
        self.result = self.module.forward(*self.args, **self.kwargs)
        for table in (GLOBAL, self.own):
            for hook_id, hook in tuple(table.forward.items()):
                self._call_hook(table, hook_id, hook)
        if backward is not None:
            self.result = backward.watch_outputs(self.result)
        old = (*GLOBAL.backward_old.values(), *self.own.backward_old.values())
        if old:
            watch_last_node(self.module, old, self.args, self.result)

    def _backward_hooks(self) -> BackwardHooks | None:
        hooks = (*GLOBAL.backward.values(), *self.own.backward.values())
        pre_hooks = (*GLOBAL.backward_pre.values(), *self.own.backward_pre.values())
        return BackwardHooks(self.module, hooks, pre_hooks) if hooks or pre_hooks else None

    def _call_pre_hook(self, hook: Hook, with_kwargs: bool) -> None:
        if not with_kwargs:
            args = hook(self.module, self.args)
            if args is not None:
                self.args = args if isinstance(args, tuple) else (args,)
            return
        both = hook(self.module, self.args, self.kwargs)
        if both is None:
            return
        if not (isinstance(both, tuple) and len(both) == 2):
            raise RuntimeError(
                "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                f"{both}."
            )
        self.args, self.kwargs = both

    def _call_hook(self, table: HookTable, hook_id: int, hook: Hook) -> None:
        self.called.add(hook_id)
        if hook_id in table.with_kwargs:
            result = hook(self.module, self.args, self.kwargs, self.result)
        else:
            result = hook(self.module, self.args, self.result)
        if result is not None:
            self.result = result

    def _run_always_called(self) -> None:
        for table in (GLOBAL, self.own):
            for hook_id, hook in tuple(table.forward.items()):
                if hook_id in table.always_called and hook_id not in self.called:
                    self._call_hook_on_failure(table, hook_id, hook)

    def _call_hook_on_failure(self, table: HookTable, hook_id: int, hook: Hook) -> None:
        try:
            self._call_hook(table, hook_id, hook)
        except Exception as error:  # noqa: BLE001  # the first exception is the one to be seen
            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that was "
                f"silenced as another error was raised in forward: {error}",
                stacklevel=2,
            )


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before every module's forward; it may return other args."""
    return GLOBAL.add(GLOBAL.forward_pre, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after every module's forward; it may return another."""
    return GLOBAL.add(GLOBAL.forward, hook, with_kwargs=with_kwargs, always_call=always_call)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before every module's backward."""
    return GLOBAL.add(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after every module's backward."""
    return GLOBAL.add(GLOBAL.backward, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` at the last node of every module's output."""
    if GLOBAL.backward:
        raise RuntimeError(_NOT_BOTH.format("as a global Module hook"))
    return GLOBAL.add(GLOBAL.backward_old, hook)


_NOT_BOTH = (
    "Cannot use both regular backward hooks and full backward hooks {}. "
    "Please use only one of them."
)
