"""`while_loop`: a function of what it carries, again as long as another one says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maquette.autograd import Function as AutogradFunction
from maquette.core.dtype import int64
from maquette.core.layout import contiguous_format
from maquette.core.pytree import tree_unflatten
from maquette.core.symbols import node_of
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.fake.exceptions import DynamicOutputShapeException
from maquette.fx.tracing.proxy_mode import disable_proxy_modes_tracing
from maquette.higher_order.backward import Kept, captured_to_record, pulled, spread
from maquette.higher_order.captured import pure
from maquette.higher_order.common import (
    Function,
    FunctionalHop,
    _traced,
    check_same_metadata,
    environment_of,
    flattened,
    paths_of,
)
from maquette.higher_order.observed import observers, stepped
from maquette.higher_order.trip_count import trip_count
from maquette.symbolic import check
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

if TYPE_CHECKING:
    from maquette.symbolic import ShapeEnv


def while_loop(cond_fn: Function, body_fn: Function, carried_inputs: Any) -> Any:
    """Run ``carried = body_fn(*carried)`` while ``cond_fn(*carried)`` holds; the last ``carried``.

    carried_inputs: a tuple of trees of tensors and ints; ``body_fn`` gives a tuple of the same
    structure, shapes and dtypes. ``cond_fn`` gives a bool, a condition on sizes, or a boolean
    tensor without dimensions. An int that is carried through a trace, or a run without data, is a
    symbol there, of which nothing is known.

    >>> import maquette as mq
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (mq.tensor(0), mq.ones(1)))
    (tensor(3), tensor([8.]))
    """
    if not callable(cond_fn):
        raise RuntimeError("Expect cond_fn to be callable.")
    if not callable(body_fn):
        raise RuntimeError("Expect body_fn to be callable.")
    leaves = flattened(carried_inputs)[0]
    if not isinstance(carried_inputs, (tuple, list)) or not all(_is_carried(t) for t in leaves):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only "
            f"consists of tensor or int leaves, but got {carried_inputs}."
        )
    flat, spec = flattened(tuple(carried_inputs))
    cond_fn = pure("while_loop", "cond_fn", cond_fn, aliases=True)
    body_fn = pure("while_loop", "body_fn", body_fn)

    def flat_cond(*given: Any) -> Any:
        return cond_fn(*_tuple(tree_unflatten(given, spec)))

    def flat_body(*given: Any) -> Any:
        result = body_fn(*_tuple(tree_unflatten(given, spec)))
        if not isinstance(result, (tuple, list)):
            raise RuntimeError(
                f"body_fn should return a tuple but got {type(result)}, which cannot be carried"
            )
        found, found_spec = flattened(tuple(result))
        if found_spec != spec:
            raise RuntimeError(
                f"body_fn should return the same structure as carried_inputs: {spec}, but gave "
                f"{found_spec}"
            )
        check_same_metadata(
            "carried_inputs and body_output", list(given), found, paths_of(result), "while_loop"
        )
        return tuple(found)

    return tree_unflatten(while_loop_op(flat_cond, flat_body, tuple(flat), ()), spec)


def _is_carried(t: Any) -> bool:
    return isinstance(t, (Tensor, int)) or hasattr(t, "node")


def _tuple(value: Any) -> tuple[Any, ...]:
    assert isinstance(value, tuple)
    return value


class WhileLoopOp(FunctionalHop):
    """``higher_order.while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)``."""

    operands_at = 3

    def __init__(self) -> None:
        super().__init__("while_loop")

    def eager(
        self, cond_fn: Function, body_fn: Function, carried_inputs: Any, additional_inputs: Any = ()
    ) -> Any:
        carried = tuple(carried_inputs)
        while _holds(cond_fn(*carried, *additional_inputs)):
            result = body_fn(*carried, *additional_inputs)
            if not isinstance(result, (tuple, list)):
                raise RuntimeError(f"body_fn should return a tuple but got {type(result)}")
            if len(result) != len(carried):
                raise RuntimeError(
                    f"body_fn should return the same number of elements as carried_inputs: "
                    f"{len(carried)}, but gave {len(result)}"
                )
            carried = tuple(result)
        return carried

    def fake(
        self, cond_fn: Function, body_fn: Function, carried_inputs: Any, additional_inputs: Any = ()
    ) -> Any:
        carried = tuple(carried_inputs)
        _check_pred(cond_fn(*carried, *additional_inputs))

        def step(state: list[Any], number: int) -> tuple[list[Any], list[Any]]:
            new = list(body_fn(*state, *additional_inputs))
            if observers:
                cond_fn(*new, *additional_inputs)  # asked again after each step
            return new, []

        count = 1
        if observers:
            known = trip_count(cond_fn, body_fn, carried, additional_inputs)
            count = known or 1  # a loop that is not entered still makes its results
            if known is None:
                observers[-1].unknown_count("while_loop")
        result = tuple(stepped(step, list(carried), count)[0])
        check_same_metadata(
            "carried_inputs and body_output", carried, result, paths_of(result), self.name()
        )
        return result if observers else _opened(result, environment_of(carried))

    def recorded(
        self, cond_fn: Function, body_fn: Function, carried_inputs: Any, additional_inputs: Any = ()
    ) -> Any:
        operands = (*carried_inputs, *additional_inputs)
        if _traced() and self.records((cond_fn, body_fn, operands), {}):
            with disable_proxy_modes_tracing():
                pred = cond_fn(*operands)
            if isinstance(pred, Tensor):  # how many steps there are the trace cannot tell
                captured = captured_to_record((cond_fn, body_fn))
                functions, carried = (cond_fn, body_fn), len(carried_inputs)
                return _WhileAutograd.apply(functions, carried, captured, *operands, *captured)
        return super().recorded(cond_fn, body_fn, carried_inputs, additional_inputs)

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        carried, additional = args[2], tuple(args[3]) if len(args) > 3 else ()
        environment = environment_of((*carried, *additional))
        if environment is None and any(_is_number(leaf) for leaf in carried):
            raise RuntimeError(
                f"while_loop: expected tensors to be carried through a trace over real tensors, "
                f"got the ints in {tuple(carried)}; trace in the mode 'fake' or 'symbolic'"
            )
        return (*_opened(tuple(carried), environment), *additional)

    def graph_name(self, at: int) -> str:
        return "while_loop_cond_graph" if at == 0 else "while_loop_body_graph"


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, int) or node_of(leaf) is not None


def _opened(values: tuple[Any, ...], environment: ShapeEnv | None) -> tuple[Any, ...]:
    """The values, with a new symbol for each int: after an unknown number of steps it is any."""
    if environment is None:
        return values
    return tuple([environment.create_unbacked_symint() if _is_number(v) else v for v in values])


def _check_pred(pred: Any) -> None:
    scalar = isinstance(pred, Tensor) and pred.dim() == 0 and str(pred.dtype) == "torch.bool"
    if not scalar and not isinstance(pred, bool) and not hasattr(pred, "node"):
        raise RuntimeError(
            f"cond_fn must return a boolean scalar tensor or a boolean but got {pred}"
        )


def _holds(pred: Any) -> bool:
    _check_pred(pred)
    return bool(pred)


while_loop_op = WhileLoopOp()


class WhileLoopStackOutputOp(FunctionalHop):
    """A `while_loop` of tensors that gives what each step gave, stacked; what went in after none.

    ``higher_order.while_loop_stack_output(cond_fn, body_fn, carried_inputs, additional_inputs)``:
    a loop's backward pass has the steps' inputs from it.
    """

    operands_at = 3

    def __init__(self) -> None:
        super().__init__("while_loop_stack_output")

    def eager(
        self, cond_fn: Function, body_fn: Function, carried_inputs: Any, additional_inputs: Any = ()
    ) -> Any:
        carried, steps = tuple(carried_inputs), []
        while _holds(cond_fn(*carried, *additional_inputs)):
            carried = tuple(body_fn(*carried, *additional_inputs))
            steps.append(carried)
        return tuple([operators.stack(list(each)) for each in zip(*steps or [carried])])

    def fake(
        self, cond_fn: Function, body_fn: Function, carried_inputs: Any, additional_inputs: Any = ()
    ) -> Any:
        last = while_loop_op.fake(cond_fn, body_fn, carried_inputs, additional_inputs)
        environment = environment_of(last)
        if environment is None:
            raise DynamicOutputShapeException(self.name())
        count = environment.create_unbacked_symint()
        check(count >= 1)
        return tuple([t.new_empty((count, *t.shape)) for t in last])

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return while_loop_op.operands_of(at, args)

    def graph_name(self, at: int) -> str:
        return while_loop_op.graph_name(at)


while_loop_stack_output_op = WhileLoopStackOutputOp()


class _WhileAutograd(AutogradFunction):
    """The whole call as one node, for traces: backward is a `while_loop` from the last step back.

    It carries a number, the gradients of what the forward loop carries, and those so far of the
    additional inputs and of what is captured. Each step runs one of the forward loop again.
    """

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, functions: tuple[Function, Function], carried: int, captured: Any, *given: Any
    ) -> Any:
        operands = given[: len(given) - len(captured)]
        init, additional = operands[:carried], operands[carried:]
        ctx.functions, ctx.carried, ctx.captured, ctx.kept = functions, carried, captured, None
        with AutoDispatchBelowAutograd():
            if environment_of(operands) is None or any(_is_number(leaf) for leaf in init):
                return while_loop_op(*functions, init, additional)
            outs = while_loop_stack_output_op(*functions, init, additional)
            ctx.kept = Kept(ctx, (*init, *outs, *additional))
            return tuple([operators.select(out, 0, -1) for out in outs])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.kept is None:
            raise RuntimeError(
                "while_loop: expected a loop of tensors, traced in the mode 'fake' or 'symbolic', "
                "for the gradient of one whose condition is a tensor; a trace over real tensors "
                "would keep the number of steps that it saw"
            )
        kept, carried, captured = ctx.kept.values(ctx), ctx.carried, ctx.captured
        init, outs, additional = kept[:carried], kept[carried:][:carried], kept[2 * carried :]
        before = [
            operators.cat([operators.unsqueeze(first, 0), operators.slice(out, 0, 0, -1)])
            for first, out in zip(init, outs)
        ]
        shared = [t for t in (*additional, *captured) if isinstance(t, Tensor)]
        sums = [operators.zeros_like(t) for t in shared]
        upstream = [operators.clone(g, memory_format=contiguous_format) for g in grads]
        # A loop without steps gave its one row too: going back is over there before it begins.
        cond_fn, body_fn = ctx.functions
        done = operators.logical_not(cond_fn(*init, *additional)).to(int64)
        state = (done, *upstream, *sums)

        def goes_on(done: Tensor, *given: Any) -> Tensor:
            steps: Tensor = given[len(state) - 1]
            return done < steps.shape[0]

        def step(done: Tensor, *given: Any) -> tuple[Any, ...]:
            grads, sums = given[:carried], given[carried : len(state) - 1]
            rows, more = given[len(state) - 1 :][:carried], given[len(state) - 1 + carried :]
            place = (rows[0].shape[0] - done - 1).item()
            inputs = (*[operators.select(row, 0, place) for row in rows], *more)
            found = pulled(body_fn, inputs, grads, captured)
            return (
                done + 1,
                *found[:carried],
                *[new + so_far for new, so_far in zip(found[carried:], sums)],
            )

        found = while_loop_op(goes_on, step, state, (*before, *additional))
        of_shared = spread(found[1 + carried :], (*additional, *captured))
        return (None, None, None, *found[1 : 1 + carried], *of_shared)


__all__ = [
    "WhileLoopOp",
    "WhileLoopStackOutputOp",
    "while_loop",
    "while_loop_op",
    "while_loop_stack_output_op",
]
