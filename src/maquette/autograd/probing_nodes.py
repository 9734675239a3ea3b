"""Nodes that a program puts into its graph to try what backward does: errors, no gradients.

PyTorch has them under ``torch._C._functions``.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.autograd.node import Edge, Grad, Node, RaisingNode, grad_edge, set_history
from maquette.tensor.tensor import Tensor, alias


class UndefinedGradBackward(Node):
    """Gives no gradients, whatever comes."""

    __slots__ = ()

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        return [None] * len(self.edges)


class UndefinedGrad:
    """A function that gives its tensors as they are, and no gradients to them."""

    def __call__(self, *tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
        edges = [grad_edge(t) for t in tensors]
        node = UndefinedGradBackward(edges, [t.meta for t in tensors])
        return _results_of(node, tensors)


class DelayedError:
    """A function that gives its tensors as they are; backward through it is RuntimeError.

    message: the error's. num_inputs: how many tensors it takes.
    """

    def __init__(self, message: str, num_inputs: int) -> None:
        self.message = message
        self.num_inputs = num_inputs

    def __call__(self, *tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
        if len(tensors) != self.num_inputs:
            raise RuntimeError(
                f"DelayedError expected {self.num_inputs} tensors, as it was told, got "
                f"{len(tensors)}"
            )
        edges: list[Edge | None] = [grad_edge(t) for t in tensors]
        node = RaisingNode(edges, [t.meta for t in tensors], "Error", self.message, len(tensors))
        return _results_of(node, tensors)


def _results_of(node: Node, tensors: Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    made = tuple([alias(t) for t in tensors])
    if any(t.requires_grad for t in tensors):
        for number, t in enumerate(made):
            set_history(t, node, number)
    return made[0] if len(made) == 1 else made


__all__ = ["DelayedError", "UndefinedGrad"]
