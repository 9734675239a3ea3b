"""Hooks on nodes: what they are, and how the engine runs them.

A node has four kinds, run in this order: hooks on the tensors that it gave, which may replace
their gradients; the hook of `retain_grad`, which takes what those made of it; hooks that see all
the gradients that come (`Node.register_prehook`); hooks that see those that go
(`Node.register_hook`). Most nodes have none, and None in the place of a `NodeHooks`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.autograd.node import Node

Grad = Tensor | None
TensorHook = Callable[[Tensor], Grad]
Hook = TypeVar("Hook")
_next_id = itertools.count().__next__


class NodeHooks:
    """The hooks of one node; those that can be taken away by the number of their handle."""

    __slots__ = ("after", "before", "metadata", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, tuple[int, TensorHook]] = {}
        self.retained: dict[int, Callable[[Tensor], None]] = {}  # by output
        self.before: dict[int, Callable[..., object]] = {}
        self.after: dict[int, Callable[..., object]] = {}
        self.metadata: dict[str, object] = {}  # the user's


class RemovableHandle:
    """Takes a hook away again with `remove`, or at the end of a ``with`` block."""

    __slots__ = ("__weakref__", "_hooks", "id")

    def __init__(self, hooks: dict[int, Hook], hook: Hook) -> None:
        self.id = _next_id()
        self._hooks: dict[int, Hook] = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; again is no error."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


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
