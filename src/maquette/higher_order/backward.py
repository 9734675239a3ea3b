"""Backward passes of traced loops and choices: what a function's gradients are, as a function.

A trace keeps a loop as one node, and so its backward pass is to be one: a loop whose step pulls
gradients back through one step of the forward pass, which it runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.autograd import enable_grad
from maquette.autograd import grad as gradients
from maquette.dispatch.tls import tls
from maquette.higher_order.captured import captured_tensors
from maquette.higher_order.common import Function, autograd_acting, flattened
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


class Kept:
    """What a node keeps for its backward pass: tensors by autograd, numbers beside it."""

    def __init__(self, ctx: Any, values: Sequence[Any]) -> None:
        self._numbers = [None if isinstance(a, Tensor) else a for a in values]
        ctx.save_for_backward(*[a for a in values if isinstance(a, Tensor)])

    def values(self, ctx: Any) -> list[Any]:
        """All of them, in order."""
        saved = iter(ctx.saved_tensors)
        return [next(saved) if n is None else n for n in self._numbers]


def pulled(
    function: Function, inputs: Sequence[Any], grads: Sequence[Any], captured: Sequence[Tensor] = ()
) -> list[Tensor]:
    """The gradients of the tensors among the inputs, and of those captured, by the results' own.

    The function is run here; zeros stand for a gradient that there is not. Where the call is
    recorded itself, for second derivatives, so are the gradients.
    """
    recorded = tls.st.grad_enabled
    given = [_input(t, recorded) if isinstance(t, Tensor) else t for t in inputs]
    with enable_grad(), autograd_acting():
        outputs = flattened(function(*given))[0]
    pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
    asked = [t for t in (*given, *captured) if isinstance(t, Tensor)]
    wanted = [t for t in asked if t.requires_grad]
    found: Any = [None] * len(wanted)
    if pairs and wanted:
        outs, upstream = zip(*pairs)
        found = gradients(outs, wanted, upstream, allow_unused=True, create_graph=recorded)
    by_tensor = {id(t): g for t, g in zip(wanted, found)}
    return [_or_zeros(by_tensor.get(id(t)), t) for t in asked]


def spread(grads: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """One gradient for each input: ``grads`` for the tensors in order, None for what is none."""
    remaining = iter(grads)
    return [next(remaining) if isinstance(t, Tensor) else None for t in inputs]


def captured_to_record(functions: Sequence[Function]) -> list[Tensor]:
    """The tensors that functions capture and whose gradient is wanted: inputs of the node, too."""
    reached = [t for f in functions for t in captured_tensors(f).values() if t.requires_grad]
    return list({id(t): t for t in reached}.values())


def _input(t: Tensor, recorded: bool) -> Tensor:
    """A tensor that the function is differentiated by: of its own, or still one with ``t``."""
    if recorded and t.requires_grad:
        found: Tensor = operators.alias(t)
        return found
    return t.detach().requires_grad_(t.is_floating_point() or t.is_complex())


def _or_zeros(grad: Any, t: Tensor) -> Tensor:
    found: Tensor = operators.zeros_like(t) if grad is None else grad
    return found


__all__ = ["Kept", "captured_to_record", "pulled", "spread"]
