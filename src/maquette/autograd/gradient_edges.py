"""Places in the backward graph without their tensors: edges, and hooks on several gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from maquette.autograd.engine import current_run
from maquette.autograd.hooks import RemovableHandle
from maquette.autograd.node import Node, grad_edge, hooks_of
from maquette.core.dtype import dtype as DType
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
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
        handles.append(RemovableHandle(hooks_of(edge.node).tensor, entry))
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
