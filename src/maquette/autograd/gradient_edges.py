"""Places in the backward graph: edges without their tensors, and the hooks at a tensor's edge."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

from maquette.autograd.engine import current_run
from maquette.autograd.hooks import RemovableHandle, TensorHook
from maquette.autograd.node import Edge, Node, grad_edge, hooks_of
from maquette.core.dtype import dtype as DType
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.tensor.history import refuse_deletion
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor

Grad = Tensor | None


class EdgeToken:
    """What `get_gradient_edge` knows of the tensor: what its gradient is like."""

    __slots__ = ("meta",)

    def __init__(self, meta: TensorMeta) -> None:
        self.meta = meta

    @property
    def shape(self) -> Shape:
        """The sizes of the tensor."""
        return self.meta.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor."""
        return self.meta.dtype


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: `grad` and `backward` take it in the tensor's place.

    ``ownership_token``: what is known of the tensor, where `get_gradient_edge` made the edge.
    """

    node: Node
    output_nr: int
    ownership_token: object | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor; RuntimeError if it does not require grad."""
    edge = grad_edge(tensor)
    if edge is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    return GradientEdge(*edge, EdgeToken(tensor.meta))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write to tensors that autograd did not see, so that backward may refuse."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if t._keys & ADINPLACE:
            t._version_counter().value += 1


class MultiHandle:
    """Takes all hooks away that `register_multi_grad_hook` registered."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks away; again is no error."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> MultiHandle:
    """Call ``fn`` once in each backward, when the gradients of several tensors are known.

    mode: "all" calls ``fn`` with a list of the gradients, None for tensors that backward does not
    reach, when the last has come; "any" with the first gradient that comes. ValueError otherwise.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    edges = [get_gradient_edge(t) for t in tensors]
    hook = _AnyOf(fn) if mode == "any" else _AllOf(fn, [edge.node for edge in edges])
    handles = []
    for index, edge in enumerate(edges):
        entry = (edge.output_nr, _at(hook, index))
        hooks = hooks_of(edge.node)
        handles.append(hooks.add(hooks.tensor, entry))
        # An accumulator lives no longer than who refers to it.
        tensors[index]._autograd().hooked = edge.node
    return MultiHandle(handles)


def _at(hook: Callable[[int, Tensor], None], index: int) -> Callable[[Tensor], None]:
    return lambda grad: hook(index, grad)


class _AllOf:
    """Gathers gradients, for each run of the engine its own."""

    def __init__(self, fn: Callable[[list[Grad]], None], nodes: list[Node]) -> None:
        self.fn = fn
        self.nodes = nodes
        self.gathered: dict[object, tuple[list[Grad], list[int]]] = {}
        self.lock = threading.Lock()

    def __call__(self, index: int, grad: Tensor) -> None:
        run = current_run()
        with self.lock:
            if run not in self.gathered:
                count = sum(run is not None and run.will_run(node) for node in self.nodes)
                self.gathered[run] = [None] * len(self.nodes), [count]
            grads, left = self.gathered[run]
            grads[index] = grad
            left[0] -= 1
            done = left[0] == 0
            if done:
                del self.gathered[run]
        if done:
            self.fn(grads)


class _AnyOf:
    """Passes on the first gradient of each run."""

    def __init__(self, fn: Callable[[Tensor], None]) -> None:
        self.fn = fn
        self.last: object = None
        self.lock = threading.Lock()

    def __call__(self, index: int, grad: Tensor) -> None:
        run = current_run()
        with self.lock:
            first, self.last = self.last is not run, run
        if first:
            self.fn(grad)


# --- at one tensor ------------------------------------------------------------------------------


def renew_leaf(t: Tensor) -> None:
    """Have graphs recorded so far no longer lead to a leaf: its memory is another's now."""
    edge = _known_edge(t)
    if edge is None or not t.is_leaf:
        return
    ag, hooks = t._autograd(), edge[0].hooks
    ag.accumulator = None
    if hooks is not None:  # they are the tensor's, and stay with it
        made = grad_edge(t)
        assert made is not None
        made[0].hooks = hooks
        ag.hooked = made[0]


def _known_edge(t: Tensor) -> Edge | None:
    """The edge of a tensor, without the making of an accumulator that is not there."""
    ag = t._ag
    if t.grad_fn is None and (ag is None or ag.accumulator is None or ag.accumulator() is None):
        return None
    return grad_edge(t)


class TensorHooks(MutableMapping[int, Callable[..., object]]):
    """The hooks on one output of a node, by their handles' ids: as they are now, to be changed."""

    def __init__(self, edge: Edge) -> None:
        node, self._number = edge
        self._hooks = hooks_of(node).tensor

    def __getitem__(self, key: int) -> Callable[..., object]:
        number, hook = self._hooks[key]
        if number != self._number:
            raise KeyError(key)
        return hook

    def __setitem__(self, key: int, hook: Callable[..., object]) -> None:
        self._hooks[key] = self._number, cast(TensorHook, hook)

    def __delitem__(self, key: int) -> None:
        self[key]  # it may be another output's
        del self._hooks[key]

    def __iter__(self) -> Iterator[int]:
        return iter([key for key, (number, _) in self._hooks.items() if number == self._number])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _backward_hooks(self: Tensor) -> MutableMapping[int, Callable[..., object]] | None:
    """The hooks on the value that the tensor has now, by their handles' ids; None before the first.

    A dict of hooks, or None, may be assigned; any other object is kept and does nothing.
    """
    edge = _known_edge(self)
    if edge is not None and edge[0].hooks is not None:
        return TensorHooks(edge)
    return None if self._ag is None else self._ag.unused_hooks


def _assign_hooks(self: Tensor, hooks: MutableMapping[int, Callable[..., object]] | None) -> None:
    known = _backward_hooks(self)
    given = dict(hooks) if isinstance(hooks, Mapping) else None
    if isinstance(known, TensorHooks):
        known.clear()
    if given is None or not self.requires_grad:  # nothing calls them
        self._autograd().unused_hooks = hooks
        return
    for hook in given.values():
        self.register_hook(hook)


def _keep_hooks(self: Tensor) -> None:
    refuse_deletion("_backward_hooks")


def _post_accumulate_grad_hooks(self: Tensor) -> Mapping[int, Callable[..., object]] | None:
    """What `register_post_accumulate_grad_hook` registered, by the handles' ids."""
    hooks = None if self._ag is None else self._ag.post_accumulate_hooks
    return None if hooks is None else MappingProxyType(hooks)


for _name, _property in (
    ("_backward_hooks", property(_backward_hooks, _assign_hooks, _keep_hooks)),
    ("_post_accumulate_grad_hooks", property(_post_accumulate_grad_hooks)),
):
    setattr(Tensor, _name, _property)
