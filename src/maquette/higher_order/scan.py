"""`scan`: a function along a dimension, which carries a state and gives an output at each step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from maquette.autograd import Function as AutogradFunction
from maquette.core.broadcast import wrap_dim
from maquette.core.meta import TensorMeta
from maquette.core.pytree import TreeSpec, tree_unflatten
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.higher_order.array_steps import LONG, ArraySteps, Untraceable
from maquette.higher_order.backward import Kept, captured_to_record, pulled, spread
from maquette.higher_order.captured import pure
from maquette.higher_order.common import (
    Function,
    FunctionalHop,
    _traced,
    check_same_metadata,
    check_same_tree,
    flattened,
    paths_of,
    same_sizes,
)
from maquette.higher_order.observed import rows_of, stacked, stepped
from maquette.tensor.storage import nobody_watches
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


def scan(
    combine_fn: Function, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """``carry, y = combine_fn(carry, x)`` along ``dim`` of ``xs``; the last carry and all ``y``.

    init: a tree of tensors, whose structure, shapes and dtypes every carry has. xs: a tree of
    tensors of one length along ``dim``. The outputs are stacked along a new first dimension.
    reverse: go from the last to the first.

    The function is to be pure, as PyTorch's is: it mutates nothing, and a long loop that records
    nothing is traced after its first step and run without calling it again (`array_steps.py`).

    >>> import maquette as mq
    >>> scan(lambda c, x: (c + x, c * x), mq.tensor(1.0), mq.tensor([1.0, 2.0, 3.0]))
    (tensor(7.), tensor([ 1.,  4., 12.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    carry, carry_spec = flattened(init)
    flat, spec = flattened(xs)
    _check_leaves(carry, flat)
    if not flat:
        return init, xs
    rows = [_rows(x, wrap_dim(dim, x.dim()), reverse) for x in flat]
    if not same_sizes([x.shape[0] for x in rows]):
        raise RuntimeError(
            f"scan: all xs leaves must have the same size along the scan dimension {dim}, got "
            f"{[x.shape[0] for x in rows]}"
        )
    step = _FlatStep(combine_fn, carry_spec, len(carry), spec)
    result = scan_op(step, list(carry), rows, ())
    final, ys = result[: len(carry)], result[len(carry) :]
    if reverse:
        ys = [operators.flip(y, [0]) for y in ys]
    return tree_unflatten(final, carry_spec), tree_unflatten(ys, step.out_spec)


class _FlatStep:
    """A scan's function on flat lists: of carry and row, giving carry and outputs.

    Structures and metadata are checked at the first step; later ones may only take other values.
    """

    out_spec: TreeSpec

    @property
    def __wrapped__(self) -> Function:
        """The function whose captured tensors are this one's."""
        return self.function

    def __init__(self, function: Function, carry: TreeSpec, count: int, row: TreeSpec) -> None:
        self.function = function
        self.carry = carry
        self.count = count
        self.row = row
        self.lone = carry == row == _LEAF  # whether it carries one tensor and takes one
        self.metas: list[TensorMeta] | None = None

    def __call__(self, *given: Any) -> list[Any]:
        if self.metas is not None and self.lone and len(given) == 2:
            return self._of_two(*given)
        count = self.count
        state, row = _tree(given[:count], self.carry), _tree(given[count:], self.row)
        first = self.metas is None
        function = pure("scan", "combine_fn", self.function) if first else self.function
        return self._flat(given[:count], function(state, row))

    def _of_two(self, state: Any, row: Any) -> list[Any]:
        """The common later step, with nothing to flatten: 2 us of 5 us less (timeit)."""
        result = self.function(state, row)
        if result.__class__ is tuple and len(result) == 2:
            new, out = result
            if isinstance(new, Tensor) and isinstance(out, Tensor) and [new.meta] == self.metas:
                return [new, out]
        return self._flat((state,), result)

    def _flat(self, state: Any, result: Any) -> list[Any]:
        """The leaves of a step's result, compared with the carry that came."""
        new, out = _pair(result)
        news, new_spec = ([new], None) if isinstance(new, Tensor) else flattened(new)
        outs, out_spec = ([out], None) if isinstance(out, Tensor) else flattened(out)
        if self.metas is None or [t.meta for t in news] != self.metas:
            self._check(state, new, news, new_spec)
            self.out_spec = flattened(out)[1] if out_spec is None else out_spec
        return [*news, *outs]

    def _check(self, state: Any, new: Any, news: list[Any], new_spec: TreeSpec | None) -> None:
        found = flattened(new)[1] if new_spec is None else new_spec
        check_same_tree("init and the carry", self.carry, found, "scan")
        check_same_metadata("init and carry", state, news, paths_of(new), "scan")
        self.metas = [t.meta for t in news]


def _tree(leaves: tuple[Any, ...], spec: TreeSpec) -> Any:
    return leaves[0] if spec is _LEAF or spec == _LEAF else tree_unflatten(leaves, spec)


_LEAF = flattened(0)[1]


def _check_leaves(carry: list[Any], flat: list[Any]) -> None:
    if not carry:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, leaves in (("init", carry), ("xs", flat)):
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {x}")
    if any(x.dim() == 0 for x in flat):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    if any(x.shape[0] == 0 for x in flat):
        raise RuntimeError("scan() operator doesn't support scanning over no elements")


def _rows(x: Tensor, dim: int, reverse: bool) -> Tensor:
    moved = x if dim == 0 else x.movedim(dim, 0)
    return operators.flip(moved, [0]) if reverse else moved


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise RuntimeError(
            f"scan: combine_fn must give a pair, (carry, output), but gave {type(result).__name__}"
        )
    return result[0], result[1]


class ScanOp(FunctionalHop):
    """``higher_order.scan(combine_fn, init, xs, additional_inputs)``, along the first dimension."""

    operands_at = 3

    def __init__(self) -> None:
        super().__init__("scan")

    def eager(self, combine_fn: Function, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
        carry, count = list(init), len(init)
        outs: list[Any] = []
        if xs[0].shape[0] > LONG and not additional_inputs and nobody_watches():
            result = list(combine_fn(*carry, *[operators.select(x, 0, 0) for x in xs]))
            carry, outs = result[:count], [result[count:]]
            xs = [operators.narrow(x, 0, 1, x.shape[0] - 1) for x in xs]
            with suppress(Untraceable):
                last, all_outs = ArraySteps(combine_fn, carry, xs).run(carry, xs, outs[0])
                return [*last, *all_outs]
        rows = [operators.unbind(x, 0) for x in xs]
        for step in zip(*rows):
            result = combine_fn(*carry, *step, *additional_inputs)
            carry = result[:count]
            outs.append(result[count:])
        return [*carry, *[operators.stack(list(each)) for each in zip(*outs)]]

    def fake(self, combine_fn: Function, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
        length = xs[0].shape[0]

        rows = list(zip(*[rows_of(x, length) for x in xs]))

        def step(state: list[Any], number: int) -> tuple[list[Any], list[Any]]:
            result = list(combine_fn(*state, *rows[number], *additional_inputs))
            return result[: len(init)], result[len(init) :]

        carry, held = stepped(step, list(init), length)
        check_same_metadata("init and carry", init, carry, paths_of(carry), self.name())
        return [*carry, *[stacked(each, length) for each in zip(*held)]]

    def recorded(
        self, combine_fn: Function, init: Any, xs: Any, additional_inputs: Any = ()
    ) -> Any:
        operands = (*init, *xs, *additional_inputs)
        if _traced() and self.records((combine_fn, operands), {}):
            carried = len(init)

            def keeping(*given: Any) -> list[Any]:
                return [*combine_fn(*given), *[operators.clone(c) for c in given[:carried]]]

            captured = captured_to_record((combine_fn,))
            given = (*operands, *captured)
            results: Any = _ScanAutograd.apply(keeping, carried, len(xs), captured, *given)
            return list(results)[:-carried]
        return super().recorded(combine_fn, init, xs, additional_inputs)

    def graph_name(self, at: int) -> str:
        return "scan_combine_graph"

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        _, init, xs, *more = args
        first = [operators.select(x, 0, 0) for x in xs]
        return (*init, *first, *(more[0] if more else ()))


scan_op = ScanOp()


class _ScanAutograd(AutogradFunction):
    """The whole call as one node, for traces: backward is a `scan` from the last step to the first.

    The step gives what was carried into it, too, as its last outputs. Backward carries the
    gradients of the carry, and those so far of the additional inputs and of what is captured.
    """

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, combine_fn: Function, carried: int, rows: int, captured: Any, *given: Any
    ) -> Any:
        operands = given[: len(given) - len(captured)]
        init, xs, additional = _cut(operands, carried, carried + rows)
        with AutoDispatchBelowAutograd():
            results = tuple(scan_op(combine_fn, list(init), list(xs), additional))
        ctx.function, ctx.carried, ctx.rows, ctx.captured = combine_fn, carried, rows, captured
        ctx.kept = Kept(ctx, (*xs, *additional, *results[-carried:]))
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        kept = ctx.kept.values(ctx)
        combine_fn, carried, captured = ctx.function, ctx.carried, ctx.captured
        xs, additional, before = _cut(kept, ctx.rows, len(kept) - carried)
        shared = [t for t in (*additional, *captured) if isinstance(t, Tensor)]
        state = [*grads[:carried], *[operators.zeros_like(t) for t in shared]]
        backwards = [operators.flip(t, [0]) for t in (*before, *xs, *grads[carried:])]
        own = carried + ctx.rows  # what is carried and a row's parts, whose gradients are a step's

        def step(*given: Any) -> list[Any]:
            sums, row = given[carried : len(state)], given[len(state) :]
            inputs = (*row[:own], *row[len(backwards) :])
            upstream = (*given[:carried], *row[own : len(backwards)])
            found = pulled(combine_fn, inputs, upstream, captured)
            more = [a + b for a, b in zip(sums, found[own:])]
            return [*found[:carried], *more, *found[carried:own]]

        found = scan_op(step, state, backwards, tuple(additional))
        of_rows = [operators.flip(t, [0]) for t in found[len(state) :]]
        of_shared = spread(found[carried : len(state)], (*additional, *captured))
        return (None, None, None, None, *found[:carried], *of_rows, *of_shared)


def _cut(values: Sequence[Any], first: int, second: int) -> tuple[Any, Any, Any]:
    return values[:first], values[first:second], values[second:]


__all__ = ["ScanOp", "scan", "scan_op"]
