"""Hooks on nodes: what they are, and how the engine runs them; and the handles of all hooks.

A node has four kinds, run in this order: hooks on the tensors that it gave, which may replace
their gradients; the hook of `retain_grad`, which takes what those made of it; hooks that see all
the gradients that come (`Node.register_prehook`); hooks that see those that go
(`Node.register_hook`). Most nodes have none, and None in the place of a `NodeHooks`.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.autograd.node import Node

Grad = Tensor | None
TensorHook = Callable[[Tensor], Grad]
Hook = Callable[..., object]
Hooks = dict[int, Any]  # a kind of them, by the ids of their handles
T = TypeVar("T")
_ids = itertools.count()


class NodeHooks:
    """The hooks of one node; those that can be taken away by the number of their handle."""

    __slots__ = ("__weakref__", "after", "before", "metadata", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, tuple[int, TensorHook]] = {}
        self.retained: dict[int, Callable[[Tensor], None]] = {}  # by output
        self.before: dict[int, Callable[..., object]] = {}
        self.after: dict[int, Callable[..., object]] = {}
        self.metadata: dict[str, object] = {}  # the user's

    def add(self, hooks: dict[int, T], hook: T) -> RemovableHandle:
        """Enter ``hook`` in ``hooks``, one of this table's."""
        handle = RemovableHandle(self)
        hooks[handle.id] = hook
        return handle

    def dicts(self) -> tuple[Hooks, ...]:
        """The kinds of which hooks are taken away."""
        return self.tensor, self.before, self.after

    def remove(self, hook_id: int) -> None:
        """Take a hook out, if it is here."""
        for hooks in self.dicts():
            hooks.pop(hook_id, None)


# --- handles -------------------------------------------------------------------------


class Table(Protocol):
    """Where hooks stand by their id."""

    def dicts(self) -> tuple[Hooks, ...]:
        """Its hooks, kind by kind."""

    def remove(self, hook_id: int) -> None:
        """Take a hook out, if it is here."""


class RemovableHandle:
    """Takes its hook away by `remove`, or at the end of a `with`.

    It does not keep the table alive: a module or a node may go before its handles. Programs with
    hooks of their own give an OrderedDict, in which they enter the hook by the handle's ``id``;
    extra_dict: one such dict, or a list of them, that what is known of the hook goes from too.
    """

    def __init__(
        self, hooks_dict: Table | Hooks, *, extra_dict: Hooks | list[Hooks] | None = None
    ) -> None:
        self.id = next(_ids)
        self._table = weakref.ref(hooks_dict)
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._extra = tuple(weakref.ref(each) for each in extra if each is not None)

    @property
    def hooks_dict_ref(self) -> Callable[[], Hooks]:
        """A function that gives the dict that the hook stands in, an empty one after removal."""
        return self._dict

    def _dict(self) -> Hooks:
        table = self._table()
        if isinstance(table, dict):
            return table
        dicts = () if table is None else table.dicts()
        return next((hooks for hooks in dicts if self.id in hooks), {})

    def in_dicts(self, hooks: Hooks, extra: list[Hooks]) -> RemovableHandle:
        """Another handle of the same hook, which takes it out of these dicts."""
        made = copy.copy(self)
        made._table = weakref.ref(hooks)
        made._extra = tuple(map(weakref.ref, extra))
        return made

    def __getstate__(self) -> tuple[object, ...]:
        # As PyTorch has it. Of a table only its module knows, which gives its handles their own.
        hooks = self._table()
        extra = tuple(each() for each in self._extra)
        return (hooks if isinstance(hooks, OrderedDict) else None, self.id, extra)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, *rest = state
        self._table = weakref.ref(_Gone() if hooks is None else hooks)
        self._extra = tuple(weakref.ref(each) for each in (*rest, ())[0] if each is not None)

    def belongs_to(self, table: Table) -> None:
        """Let it take hooks out of this table."""
        self._table = weakref.ref(table)

    def remove(self) -> None:
        """Remove the hook; again is harmless."""
        for table in (self._table(), *(each() for each in self._extra)):
            if isinstance(table, dict):
                table.pop(self.id, None)
            elif table is not None:
                table.remove(self.id)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def reserve(used: Iterable[int]) -> None:
    """Give no new hook an id that a loaded one has."""
    global _ids
    _ids = itertools.count(max([next(_ids), *(i + 1 for i in used)]))


class _Gone:
    """The table of a handle whose module is no more."""

    def dicts(self) -> tuple[Hooks, ...]:
        """None."""
        return ()

    def remove(self, hook_id: int) -> None:
        """Nothing."""


# --- running them ----------------------------------------------------------------------


def run_before(node: Node, grads: list[Grad]) -> None:
    """Run the hooks on gradients that come, which replace them in ``grads``."""
    hooks = node.hooks
    if hooks is None:
        return
    run_tensor_hooks(node, grads)
    run_prehooks(node, grads)


def run_prehooks(node: Node, grads: list[Grad]) -> None:
    """Run the hooks of `Node.register_prehook`, whose answers take the places of ``grads``."""
    hooks = node.hooks
    if hooks is None:
        return
    for hook in list(hooks.before.values()):
        answer = hook(tuple(grads))
        if answer is not None:
            grads[:] = _replacing(hook, grads, answer)


def run_tensor_hooks(node: Node, grads: list[Grad]) -> None:
    """Run the hooks on tensors, and keep what `retain_grad` asks for."""
    hooks = node.hooks
    if hooks is None:
        return
    for number, hook in list(hooks.tensor.values()):
        answer = hook(grads[number])  # type: ignore[arg-type]  # None too, as in PyTorch
        if answer is not None:
            grads[number] = _replacement(hook, grads[number], answer)
    for number, keep in list(hooks.retained.items()):
        grad = grads[number]
        if grad is not None:
            keep(grad)


def run_after(node: Node, answers: list[Grad], grads: Sequence[Grad]) -> list[Grad]:
    """Run the hooks on gradients that go, the gradients that came given too."""
    hooks = node.hooks
    if hooks is None:
        return answers
    for hook in list(hooks.after.values()):
        answer = hook(tuple(answers), tuple(grads))
        if answer is not None:
            answers = _replacing(hook, answers, answer)
    return answers


def _replacing(hook: object, grads: Sequence[Grad], answer: object) -> list[Grad]:
    if not isinstance(answer, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
    if len(answer) != len(grads):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(answer)}, "
            f"but expected {len(grads)})"
        )
    return [_replacement(hook, old, new) for old, new in zip(grads, answer, strict=True)]


def _replacement(hook: object, grad: Grad, answer: object) -> Grad:
    """What a hook gave in the place of a gradient, if it may stand there."""
    if answer is None:
        return None
    if grad is None:
        raise RuntimeError(
            f"can't replace a None gradient with a non-None value (hook '{_name(hook)}')"
        )
    if not isinstance(answer, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(answer).__name__}'")
    old, new = grad.meta, answer.meta
    for what, name in (("dtype", "type"), ("device", "type"), ("shape", "size")):
        if getattr(old, what) != getattr(new, what):
            raise RuntimeError(
                f"hook '{_name(hook)}' has changed the {name} of value (was {old}, got {new})"
            )
    return answer


def _name(hook: object) -> str:
    return str(getattr(hook, "__name__", "<unknown>"))
