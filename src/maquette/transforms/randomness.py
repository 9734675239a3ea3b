"""Random operators under vmap: refused, one draw for all, or one for each member of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import run_below
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import BatchedTensor, batched

if TYPE_CHECKING:
    from maquette.transforms.batch import VmapInterpreter

Call = Callable[["VmapInterpreter", Sequence[object]], object]


def random_call(op: OpOverload, by_rule: Callable[..., Call], by_twin: Callable[..., Call]) -> Call:
    """How a random operator without a rule of its own runs at a level of vmap."""
    arguments = op._schema.arguments
    size = next((i for i, a in enumerate(arguments) if a.name == "size"), -1)
    tensors = [i for i, a in enumerate(arguments) if a.type.written.startswith("Tensor")]
    written = [i for i, a in enumerate(arguments) if a.is_write]

    def call(level: VmapInterpreter, params: Sequence[object]) -> object:
        check_randomness(level.info.randomness)
        different = level.info.randomness == "different"
        if written == [0] and not arguments[0].is_out:
            return _write(level, op, params, different)
        if written:
            return by_twin(op)(level, params)
        own = [i for i in tensors if _is_batched(params[i], level)]
        if not different:
            if own:
                raise RuntimeError(
                    f"vmap: {op.name()} with randomness 'same' does not take a batched tensor: "
                    "Vmap does not currently support same randomness with a batched tensor input"
                )
            return run_below(level, op, params)
        if size >= 0 and not own:
            shape = (level.info.batch_size, *cast(Sequence[int], params[size]))
            values = [shape if i == size else p for i, p in enumerate(params)]
            return batched(cast(Tensor, run_below(level, op, values)), 0, level)
        return _each(level, op, params)

    return call


def check_randomness(randomness: str) -> None:
    """Refuse a random operator where vmap was not told what to do with it."""
    if randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )


def _is_batched(p: object, level: VmapInterpreter) -> bool:
    return isinstance(p, BatchedTensor) and p._interpreter is level


def _write(
    level: VmapInterpreter, op: OpOverload, params: Sequence[object], different: bool
) -> object:
    target, rest = cast(Tensor, params[0]), list(params[1:])
    if not _is_batched(target, level):
        if different:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This "
                f"will appear like same randomness ({op.name()}). Expand the tensor first"
            )
        run_below(level, op, params)
        return target
    value, dim = cast(BatchedTensor, target)._value, cast(BatchedTensor, target)._bdim
    if different and not any(_is_batched(p, level) for p in rest):
        run_below(level, op, [value, *rest])
        return target
    with level.lower():
        rows = value.unbind(dim)
        if not different:
            one = operators.empty_like(rows[0])
    if not different:
        run_below(level, op, [one, *rest])
        with level.lower():
            value.copy_(one.unsqueeze(dim))
        return target
    for i, row in enumerate(rows):
        run_below(level, op, [row, *_members(rest, level, i)])
    return target


def _members(params: Sequence[object], level: VmapInterpreter, i: int) -> list[object]:
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


def _each(level: VmapInterpreter, op: OpOverload, params: Sequence[object]) -> object:
    """A draw for each member of the batch, one call after another."""
    size = range(level.info.batch_size)
    rows = [run_below(level, op, _members(params, level, i)) for i in size]

    def together(parts: Sequence[Any]) -> object:
        if isinstance(parts[0], Tensor):
            with level.lower():
                return batched(operators.stack(parts), 0, level)
        return tuple([together(column) for column in zip(*parts)])

    return together(rows)
