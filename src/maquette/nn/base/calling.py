"""Calling a module, and the registration of hooks around its calls.

A call without hooks costs 0.14 us more than `forward` itself, half of it CPython's way to
`__call__`, the rest the packing and unpacking of arguments (CPython 3.11: `python -m timeit -s
"from maquette import nn; m = nn.Identity()" "m(1)"`, and the same with `m.forward(1)`). One test
finds that there is no hook, neither of this module (`_hooks` is None until the first one is
registered) nor a global one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from maquette.autograd.hooks import Hook, RemovableHandle
from maquette.dispatch.module_calls import AROUND, call_around
from maquette.nn.base.hooks import _NOT_BOTH, GLOBAL, HookDict, HookedCall, HookTable
from maquette.nn.base.members import Members

_global_hooks = GLOBAL.ids
_NO_HOOKS = HookTable()


def _forward_unimplemented(self: Calling, *input: object) -> None:
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Calling(Members):
    """The part of `Module` that runs it."""

    _mq_hooks: HookTable | None = None

    # Modules take and return what they like: Any, so that a subclass may say more.
    forward: Callable[..., Any] = _forward_unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` between the hooks."""
        if self._mq_hooks is None and not _global_hooks and not AROUND:
            return self.forward(*args, **kwargs) if kwargs else self.forward(*args)
        if AROUND:
            return call_around(self, self._mq_called, args, kwargs)
        return self._mq_called(*args, **kwargs)

    def _mq_called(self, *args: Any, **kwargs: Any) -> Any:
        if self._mq_hooks is None and not _global_hooks:
            return self.forward(*args, **kwargs)
        return HookedCall(cast(Any, self), self._mq_hooks or _NO_HOOKS, args, kwargs).run()

    # By these names programs that wrap calls go on with the module's own call and its forward.
    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return Calling.__call__(self, *args, **kwargs)

    def _slow_forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each forward; it may return other arguments.

        with_kwargs: `hook(module, args, kwargs)`, which may return both. prepend: first in turn.
        """
        table = self._mq_hook_table()
        return table.add(table.forward_pre, hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each forward; it may return another output.

        with_kwargs: `hook(module, args, kwargs, output)`. always_call: also when forward raised.
        """
        table = self._mq_hook_table()
        return table.add(
            table.forward, hook, prepend=prepend, with_kwargs=with_kwargs, always_call=always_call
        )

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when its gradients are known; it may return others."""
        table = self._mq_hook_table()
        return table.add(table.backward_pre, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)`; it may return another grad_input."""
        table = self._mq_hook_table()
        if table.backward_old:
            raise RuntimeError(_NOT_BOTH.format("on a single Module"))
        return table.add(table.backward, hook, prepend=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` at the last node of the output alone.

        Superseded by `register_full_backward_hook`; RuntimeError beside one of those.
        """
        table = self._mq_hook_table()
        if table.backward:
            raise RuntimeError(_NOT_BOTH.format("on a single Module"))
        return table.add(table.backward_old, hook)

    def _mq_hook_table(self) -> HookTable:
        if self._mq_hooks is None:
            self._mq_hooks = HookTable()
        return self._mq_hooks

    # PyTorch's dicts, for programs that reach for them.

    _forward_pre_hooks = HookDict("_mq_hook_table", "forward_pre")
    _forward_hooks = HookDict("_mq_hook_table", "forward")
    _backward_pre_hooks = HookDict("_mq_hook_table", "backward_pre")
    _backward_hooks = HookDict("_mq_hook_table", "backward")

    @property
    def _forward_hooks_with_kwargs(self) -> dict[int, bool]:
        table = self._mq_hook_table()
        return table.flagged(table.forward)

    @_forward_hooks_with_kwargs.setter
    def _forward_hooks_with_kwargs(self, ids: dict[int, bool]) -> None:
        self._mq_show("_forward_hooks_with_kwargs", ids)

    @property
    def _forward_pre_hooks_with_kwargs(self) -> dict[int, bool]:
        table = self._mq_hook_table()
        return table.flagged(table.forward_pre)

    @_forward_pre_hooks_with_kwargs.setter
    def _forward_pre_hooks_with_kwargs(self, ids: dict[int, bool]) -> None:
        self._mq_show("_forward_pre_hooks_with_kwargs", ids)

    @property
    def _forward_hooks_always_called(self) -> dict[int, bool]:
        return dict.fromkeys(self._mq_hook_table().always_called, True)

    @_forward_hooks_always_called.setter
    def _forward_hooks_always_called(self, ids: dict[int, bool]) -> None:
        self._mq_show("_forward_hooks_always_called", ids)

    @property
    def _is_full_backward_hook(self) -> bool | None:
        table = self._mq_hooks
        if table is None or not (table.backward or table.backward_old):
            return None
        return bool(table.backward)

    @_is_full_backward_hook.setter
    def _is_full_backward_hook(self, full: bool | None) -> None:
        """Nothing: the hooks tell."""
