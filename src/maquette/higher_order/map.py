"""`map`: a function of each slice along the first dimension, the results stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.autograd import Function as AutogradFunction
from maquette.core.pytree import tree_unflatten
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.higher_order.backward import Kept, captured_to_record, pulled, spread
from maquette.higher_order.captured import pure
from maquette.higher_order.common import (
    Function,
    FunctionalHop,
    _traced,
    flattened,
    same_sizes,
)
from maquette.higher_order.observed import rows_of, stacked, stepped
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


def map(f: Function, xs: Any, *args: Any) -> Any:
    """``f(x, *args)`` for each slice ``x`` of ``xs`` along the first dimension, stacked.

    xs: a tree of tensors of one length. Outputs are trees of tensors, of the same shapes each time.

    >>> import maquette as mq
    >>> map(lambda x, y: x + y, mq.tensor([[1.0], [2.0]]), mq.tensor(10.0))
    tensor([[11.],
            [12.]])
    """
    flat, spec = flattened(xs)
    if not flat or not all(isinstance(t, Tensor) for t in flat):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {flat}.")
    shapes = [x.shape for x in flat]
    lengths = [shape[0] if shape else 0 for shape in shapes]
    if any(not shape for shape in shapes):
        raise RuntimeError(
            f"map() cannot operate on scalar tensors or zero dimension tensors. Got shapes {shapes}"
        )
    if any(length == 0 for length in lengths):
        raise RuntimeError(f"Leading dimensions of mapped xs cannot be 0. Got shapes {shapes}")
    if not same_sizes(lengths):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )
    out_spec: list[Any] = []
    count = len(flat)
    f = pure("map", "f", f)

    def flat_fn(*given: Any) -> Any:
        out, found = flattened(f(tree_unflatten(given[:count], spec), *given[count:]))
        out_spec[:] = [found]
        return out

    return tree_unflatten(map_impl(flat_fn, flat, list(args)), out_spec[0])


def _unstack_pytree(xs: Any) -> list[Any]:
    """The slices of a tree of tensors along the first dimension, each a tree."""
    flat, spec = flattened(xs)
    if not flat or not all(isinstance(t, Tensor) for t in flat):
        raise RuntimeError(f"Leaves of xs must be Tensor {flat}")
    lengths = {t.shape[0] if t.shape else 0 for t in flat}
    if len(lengths) > 1:
        raise RuntimeError(
            f"Leaves of xs must have same leading dimension size {[t.shape for t in flat]}"
        )
    return [tree_unflatten(list(step), spec) for step in zip(*flat)]


def _stack_pytree(pytrees: Sequence[Any]) -> Any:
    """Trees of one structure as one, whose tensors are theirs stacked along a first dimension."""
    flat = [flattened(tree)[0] for tree in pytrees]
    spec = flattened(pytrees[0])[1]

    def stacked(leaves: tuple[Any, ...]) -> Any:
        if all(isinstance(leaf, Tensor) for leaf in leaves):
            return operators.stack(list(leaves))
        if all(leaf is None for leaf in leaves):
            return None
        raise RuntimeError(f"Cannot stack {leaves}.")

    return tree_unflatten([stacked(leaves) for leaves in zip(*flat)], spec)


class MapImpl(FunctionalHop):
    """``higher_order.map_impl(f, xs, pos_args)``."""

    operands_at = 2

    def __init__(self) -> None:
        super().__init__("map_impl")

    def eager(self, f: Function, xs: Any, pos_args: Any) -> Any:
        rows = [operators.unbind(x, 0) for x in xs]
        outs = [f(*step, *pos_args) for step in zip(*rows)]
        return [operators.stack(list(each)) for each in zip(*outs)]

    def fake(self, f: Function, xs: Any, pos_args: Any) -> Any:
        length = xs[0].shape[0]

        rows = list(zip(*[rows_of(x, length) for x in xs]))

        def step(_: list[Any], number: int) -> tuple[list[Any], list[Any]]:
            return [], f(*rows[number], *pos_args)

        _, held = stepped(step, [], length)
        return [stacked(each, length) for each in zip(*held)]

    def recorded(self, f: Function, xs: Any, pos_args: Any) -> Any:
        if _traced() and self.records((f, xs, pos_args), {}):
            captured = captured_to_record((f,))
            results: Any = _MapAutograd.apply(f, len(xs), captured, *xs, *pos_args, *captured)
            return list(results)
        return super().recorded(f, xs, pos_args)

    def graph_name(self, at: int) -> str:
        return "body_graph"

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*[operators.select(x, 0, 0) for x in args[1]], *args[2])


map_impl = MapImpl()


class _MapAutograd(AutogradFunction):
    """The whole call as one node, for traces: backward is a `map` of the step's backward."""

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, f: Function, count: int, captured: Any, *operands_and_captured: Any
    ) -> Any:
        operands = operands_and_captured[: len(operands_and_captured) - len(captured)]
        ctx.function, ctx.count, ctx.captured = f, count, captured
        ctx.kept = Kept(ctx, operands)
        with AutoDispatchBelowAutograd():
            return tuple(map_impl(f, list(operands[:count]), list(operands[count:])))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        operands = ctx.kept.values(ctx)
        f, count, captured = ctx.function, ctx.count, ctx.captured
        upstream = count + len(grads)

        def step(*given: Any) -> list[Tensor]:
            inputs = (*given[:count], *given[upstream:])
            return pulled(f, inputs, given[count:upstream], captured)

        found = map_impl(step, [*operands[:count], *grads], operands[count:])
        shared = [each.sum(0) for each in found[count:]]
        inputs = (*operands, *captured)
        return (None, None, None, *spread([*found[:count], *shared], inputs))


__all__ = ["MapImpl", "map", "map_impl"]
