"""`with_effects`: a call that takes a token and gives the next, so that calls stay in order.

Functionalization of an operator with an effect (`library.effects`) makes it such a call and keeps
the last token of each effect on its mode. A token is an empty tensor: it costs nothing, and its
edges keep a graph's calls alive and in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.core.dtype import float32
from maquette.dispatch.base import OperatorBase
from maquette.dispatch.higher_order import EFFECTS, HigherOrderOperator
from maquette.dispatch.operator import OpOverload
from maquette.higher_order.common import FunctionalHop, record
from maquette.library.effects import EffectType, get_effect
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.contexts import PythonFunctionalizeAPI
from maquette.transforms.functional.mode import FunctionalTensorMode
from maquette.transforms.rules import operators


class WithEffects(FunctionalHop):
    """``higher_order.with_effects(token, op, *args, **kwargs)``: ``(new_token, *results)``.

    A tuple of results is spread; a list, and None, is one item. AssertionError unless ``op`` is an
    operator that aliases nothing.
    """

    def __init__(self) -> None:
        super().__init__("with_effects")

    def __call__(  # type: ignore[override]  # it states its parameters
        self, token: Tensor, op: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        assert isinstance(op, OperatorBase), (
            f"with_effects takes an OpOverload or a HigherOrderOperator, got {type(op).__name__}"
        )
        assert not has_aliasing(op), f"with_effects: {op} aliases or mutates its arguments"
        result: tuple[Any, ...] = super().__call__(token, op, *args, **kwargs)
        return result

    def eager(self, token: Tensor, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = op(*args, **kwargs)
        made = new_token()
        return (made, *result) if isinstance(result, tuple) else (made, result)

    def functional(self, ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with ctx.redispatch_to_next():
            result = self(*ctx.unwrap_tensors(args), **ctx.unwrap_tensors(kwargs))
        return ctx.wrap_tensors(result)

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


def new_token() -> Tensor:
    """A token: an empty tensor of one dimension."""
    made: Tensor = operators.empty.memory_format([0], dtype=float32)
    return made


def has_aliasing(op: OperatorBase) -> bool:
    """Whether an overload aliases or mutates an argument; no higher-order operator does."""
    if isinstance(op, HigherOrderOperator):
        return False
    schema = getattr(op, "_schema", None)
    assert schema is not None, f"{op} has no schema"
    return any(a.alias_info is not None for a in (*schema.arguments, *schema.returns))


def has_effects(op: OperatorBase) -> bool:
    """Whether calls of an operator are to be kept in order."""
    return get_effect(op) is not None and not has_aliasing(op)


def handle_effects(
    allow_token_discovery: bool,
    tokens: dict[EffectType, Tensor],
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    ctx: PythonFunctionalizeAPI,
) -> Any:
    """Functionalize a call of an operator with an effect: its token is taken and replaced.

    AssertionError where there is no token for the effect and none may be made.
    """
    effect = get_effect(op)
    assert effect is not None, f"{op} has no effect"
    if effect not in tokens:
        assert allow_token_discovery, (
            f"no token for the effect {effect} of {op}: tokens are made while they are discovered"
        )
        tokens[effect] = ctx.wrap_tensors(new_token())
    given, named = ctx.unwrap_tensors((args, kwargs))
    with ctx.redispatch_to_next():
        made, *results = with_effects(ctx.unwrap_tensors(tokens[effect]), op, *given, **named)
    tokens[effect] = ctx.wrap_tensors(made)
    count = len(op._schema.returns)
    if count == 0:
        return None
    return ctx.wrap_tensors(results[0] if count == 1 else tuple(results))


def _under_mode(mode: FunctionalTensorMode, op: OperatorBase, args: Any, kwargs: Any) -> Any:
    if not isinstance(op, OpOverload) or not has_effects(op):
        return NotImplemented
    return handle_effects(
        mode._allow_token_discovery,
        mode._tokens,
        op,
        args,
        kwargs,
        PythonFunctionalizeAPI(mode),
    )


EFFECTS[:] = [_under_mode]
with_effects = WithEffects()

__all__ = [
    "WithEffects",
    "handle_effects",
    "has_aliasing",
    "has_effects",
    "new_token",
    "with_effects",
]
