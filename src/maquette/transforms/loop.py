"""The last resort under vmap: an operator without a rule is called once for each batch member.

Here are also what rules and loops share: values taken out of batched tensors, and results hidden
again. The loop can be refused, and its warning silenced (`fallback`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from maquette.dispatch.forms import returns_of
from maquette.dispatch.operator import OpOverload, keys_of
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import Interpreter
from maquette.transforms.pointwise import Call, VmapLevel, refuse_unbatched_target
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import BatchedTensor, Wrapper, batched, revived

# --- values and results -----------------------------------------------------------------------


def opened(p: object, level: Interpreter, dims: list[object]) -> object:
    """The value of a parameter; its batch dimension, None or a list of such, goes to ``dims``."""
    if isinstance(p, Wrapper) and not p._interpreter.live:
        p = revived(p)
    if p.__class__ is BatchedTensor and p._interpreter is level:
        dims.append(p._bdim)
        return p._value
    if p.__class__ is tuple and any(isinstance(t, Tensor) for t in cast(tuple[object, ...], p)):
        inner: list[object] = []
        values = [opened(t, level, inner) for t in cast(tuple[object, ...], p)]
        dims.append(inner)
        return values
    dims.append(None)
    return p


def closed(result: object, dims: object, level: Interpreter) -> object:
    """Results with their batch dimension hidden; one dimension may stand for several results."""
    if isinstance(result, Tensor):
        if dims is None:
            return result
        assert isinstance(dims, int)
        return batched(result, dims % max(result.meta.ndim, 1), level)
    if isinstance(result, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(result)
        return type(result)([closed(r, d, level) for r, d in zip(result, each, strict=True)])
    return result


def same_arguments(op: OpOverload, params: Sequence[object], result: object) -> object:
    """What an operator that writes gives: written arguments are themselves."""
    kinds = returns_of(op)
    if not kinds:
        return None
    results = (result,) if len(kinds) == 1 else cast(Sequence[object], result)
    found = [params[k.source] if k.kind == "written" else r for k, r in zip(kinds, results)]
    return found[0] if len(kinds) == 1 else tuple(found)


# --- the loop ---------------------------------------------------------------------------------


@dataclass
class Fallback:
    """Whether operators without a batching rule may be looped over, and whether that warns."""

    enabled: bool = True
    warns: bool = True
    warned: set[str] = field(default_factory=set)


fallback = Fallback()
"""What holds for this process; an operator warns once, until ``warned`` is emptied."""


def looped(op: OpOverload) -> Call:
    """Call the operator on one member of the batch after another, and stack the results."""
    arguments = op._schema.arguments
    written = [i for i, a in enumerate(arguments) if a.is_write]

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        if not fallback.enabled:
            raise RuntimeError(
                f"Batching rule not implemented for {op.name()}, and the fallback to a loop over "
                "the batch is off. Register a rule with "
                f"maquette.library.register_vmap('{op.name()}', ...)"
            )
        if fallback.warns and op.name() not in fallback.warned:
            fallback.warned.add(op.name())
            warnings.warn(
                "There is a performance drop because we have not yet implemented the batching rule "
                f"for {op.name()}: it is called once for each member of the batch. Register one "
                f"with maquette.library.register_vmap('{op.name()}', ...)",
                UserWarning,
                stacklevel=2,
            )
        dims: list[object] = []
        values = [opened(p, level, dims) for p in params]
        if any(dims[i] is None for i in written):
            refuse_unbatched_target(op)
        with level.lower():
            rows = [_row(op, values, dims, i) for i in range(level.info.batch_size)]
            result = _stacked(op, rows, level) if op._schema.returns else None
        return same_arguments(op, params, result) if written else result

    return call


def _row(op: OpOverload, values: Sequence[object], dims: Sequence[object], i: int) -> object:
    params = [_member(v, d, i) for v, d in zip(values, dims)]
    return op.run(tls.st.effective_keys(keys_of(params)), params)


def _member(value: object, dim: object, i: int) -> object:
    if isinstance(dim, int):
        return cast(Tensor, value).select(dim, i)
    if isinstance(dim, list):
        return tuple([_member(v, d, i) for v, d in zip(cast(list[object], value), dim)])
    return value


def _stacked(op: OpOverload, rows: Sequence[object], level: Interpreter) -> object:
    if not rows:
        raise RuntimeError(
            f"vmap: {op.name()} has no batching rule, and a loop over a batch of size 0 gives no "
            f"result to take the shape from"
        )
    first = rows[0]
    if isinstance(first, Tensor):
        return batched(operators.stack(rows), 0, level)
    if isinstance(first, (tuple, list)):
        columns = zip(*cast(Sequence[Sequence[object]], rows))
        return type(first)([_stacked(op, list(c), level) for c in columns])
    return first


__all__ = ["Fallback", "closed", "fallback", "looped", "opened", "same_arguments"]
