"""Random operators under vmap: refused, one draw for all, or one for each member of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import run_below
from maquette.transforms.pointwise import (
    Call,
    VmapLevel,
    in_front,
    pointwise_call,
    refuse_unbatched_target,
)
from maquette.transforms.rules import BROADCASTS, operators, rule_of
from maquette.transforms.wrappers import BatchedTensor, batched


def random_call(op: OpOverload) -> Call:
    """How a random operator without a rule of its own runs at a level of vmap."""
    arguments = op._schema.arguments
    names = [a.name for a in arguments]
    size = names.index("size") if "size" in names else -1
    tensors = [i for i, a in enumerate(arguments) if a.type.written.startswith("Tensor")]
    written = [i for i, a in enumerate(arguments) if a.is_write]
    # Only the shape, dtype and device of such a tensor matter, not its values.
    like = tensors == [0] and "dtype" in names and "layout" in names
    elementwise = bool(tensors) and rule_of(op) is BROADCASTS
    broadcast = pointwise_call(op)

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        check_randomness(level.info.randomness)
        different = level.info.randomness == "different"
        if written == [0] and not arguments[0].is_out:
            return _write(level, op, params, different)
        if any(arguments[i].is_out for i in written):
            raise RuntimeError(
                "vmap: We do not support calling out variants of random operations: "
                f"{op.name()}. Call it without out=, and copy the result"
            )
        own = [i for i in tensors if _is_batched(params[i], level)]
        if not different:
            if own == [0] and like:
                return run_below(level, op, _members(params, level, 0))
            if own:
                refuse_same(op)
            return run_below(level, op, params)
        if size >= 0 and not own:
            shape = (level.info.batch_size, *cast(Sequence[int], params[size]))
            values = [shape if i == size else p for i, p in enumerate(params)]
            return batched(cast(Tensor, run_below(level, op, values)), 0, level)
        if elementwise:
            return broadcast(level, _expanded(params, tensors[0], own, level))
        return _each(level, op, params)

    return call


def _expanded(
    params: Sequence[object], first: int, own: Sequence[int], level: VmapLevel
) -> Sequence[object]:
    """Parameters one of which, at least, is batched, so that there is a draw for each member."""
    if own:
        return params
    t = cast(Tensor, params[first])
    with level.lower():
        wide = t.expand(level.info.batch_size, *t.shape)
    given = list(params)
    given[first] = batched(wide, 0, level)
    return given


def drawing_for_each(op: OpOverload, defined: Call) -> Call:
    """A random operator that others define: a tensor without a batch is drawn for each member."""
    arguments = op._schema.arguments
    tensors = [i for i, a in enumerate(arguments) if a.type.written == "Tensor"]
    if not tensors or op._schema.is_mutable:
        return defined

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        lone = not any(_is_batched(params[i], level) for i in tensors)
        if lone and level.info.randomness == "different":
            return defined(level, _expanded(params, tensors[0], (), level))
        return defined(level, params)

    return call


def refuse_same(op: OpOverload) -> NoReturn:
    """RuntimeError for one draw where what says how to draw has a batch."""
    raise RuntimeError(
        f"vmap: {op.name()} with randomness 'same' does not take a batched tensor: "
        "Vmap does not currently support same randomness with a batched tensor input"
    )


def check_randomness(randomness: str) -> None:
    """Refuse a random operator where vmap was not told what to do with it."""
    if randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )


def _is_batched(p: object, level: VmapLevel) -> bool:
    return isinstance(p, BatchedTensor) and p._interpreter is level


def _write(level: VmapLevel, op: OpOverload, params: Sequence[object], different: bool) -> object:
    target, rest = cast(Tensor, params[0]), list(params[1:])
    more = any(_is_batched(p, level) for p in rest)
    if more and not different:
        refuse_same(op)
    if not _is_batched(target, level):
        if more:
            refuse_unbatched_target(op)
        if different:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This "
                f"will appear like same randomness ({op.name()}). Expand the tensor first"
            )
        run_below(level, op, params)
        return target
    value, dim = cast(BatchedTensor, target)._value, cast(BatchedTensor, target)._bdim
    with level.lower():
        front = in_front(value, dim)
        one = None if different else operators.empty_like(front.select(0, 0))
    if one is not None:
        run_below(level, op, [one, *rest])
        with level.lower():
            front.copy_(one.unsqueeze(0))
    else:  # what says how to draw broadcasts with what is drawn
        with level.lower():
            rest = [_in_front(p, level, target.meta.ndim) for p in rest]
        run_below(level, op, [front, *rest])
    return target


def _in_front(p: object, level: VmapLevel, rank: int) -> object:
    if not _is_batched(p, level):
        return p
    t = cast(BatchedTensor, p)
    return in_front(t._value, t._bdim, rank)


def _members(params: Sequence[object], level: VmapLevel, i: int) -> list[object]:
    """Parameters with member ``i`` of what is batched."""
    found: list[object] = []
    for p in params:
        if _is_batched(p, level):
            t = cast(BatchedTensor, p)
            with level.lower():
                found.append(t._value.select(t._bdim, i))
        else:
            found.append(p)
    return found


def _each(level: VmapLevel, op: OpOverload, params: Sequence[object]) -> object:
    """A draw for each member of the batch, one call after another."""
    size = range(level.info.batch_size)
    rows = [run_below(level, op, _members(params, level, i)) for i in size]

    def together(parts: Sequence[Any]) -> object:
        if isinstance(parts[0], Tensor):
            with level.lower():
                return batched(operators.stack(parts), 0, level)
        return tuple([together(column) for column in zip(*parts)])

    return together(rows)
