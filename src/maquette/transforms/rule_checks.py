"""What vmap checks of operators that users define: what their rules answer, and what can be looped.

The built-in families are trusted, so that their calls pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from maquette.dispatch.forms import Form
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor

BUILT_IN = frozenset({"aten", "prims"})
"""The namespaces whose operators are trusted."""


def checked_rule(op: OpOverload, rule: Callable[..., Any]) -> Callable[..., Any]:
    """The batching rule, its answer checked: RuntimeError, TypeError or IndexError name ``op``."""

    def call(info: Any, in_dims: object, *args: object, **kwargs: object) -> object:
        answer = rule(info, in_dims, *args, **kwargs)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise RuntimeError(
                f"the batching rule of {op.name()}: expected a pair (output, out_dims), got "
                f"{_described(answer)}"
            )
        _check(op, answer[0], answer[1], info.batch_size)
        return answer

    return call


def _described(answer: object) -> str:
    return f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"


def _check(op: OpOverload, output: object, dims: object, size: int) -> None:
    """Check one output with its dimensions, and what is inside of it."""
    if isinstance(dims, (tuple, list)):
        _check_structure(op, output, dims)
    if isinstance(output, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(output)
        for o, d in zip(output, each):
            _check(op, o, d, size)
    elif isinstance(output, Tensor) and dims is not None:
        _check_dim(op, output, dims, size)


def _check_structure(op: OpOverload, output: object, dims: tuple[Any, ...] | list[Any]) -> None:
    same = type(output) is type(dims) and len(cast(Any, output)) == len(dims)
    if not same:
        raise RuntimeError(
            f"the batching rule of {op.name()}: expected out_dims of the output's structure, or "
            f"one for all, got {dims!r} for {_described(output)}"
        )


def _check_dim(op: OpOverload, output: Tensor, dim: object, size: int) -> None:
    shape = output.meta.shape
    if not isinstance(dim, int):
        raise TypeError(
            f"the batching rule of {op.name()}: expected out_dims of int or None, got {dim!r}"
        )
    if not -len(shape) <= dim < len(shape):
        raise IndexError(
            f"the batching rule of {op.name()}: out_dims {dim} is out of range for an output of "
            f"{len(shape)} dimensions"
        )
    if shape[dim] != size:
        raise RuntimeError(
            f"the batching rule of {op.name()}: expected the size of the batch, {size}, at "
            f"dimension {dim} of the output, got {shape[dim]}"
        )


def unloopable_reason(op: OpOverload) -> str | None:
    """Why a user's operator cannot be called for one member after another; None if it can.

    In-place forms can: each call writes its member.
    """
    returns = op._schema.returns
    if op.namespace in BUILT_IN or op.form is Form.IN_PLACE:
        return None
    if any(a.is_write for a in op._schema.arguments):
        why = "it writes to its arguments"
    elif any(r.alias_info is not None for r in returns):
        why = "it returns views"
    elif not returns or any(r.type.base.kind != "tensor" for r in returns):
        why = "it returns what is no tensor"
    else:
        return None
    return (
        f"vmap: {op.name()} has no batching rule, and the loop over the batch does not serve it: "
        f"{why}. Register a rule with maquette.library.register_vmap('{op.name()}', ...)"
    )


__all__ = ["BUILT_IN", "checked_rule", "unloopable_reason"]
