"""`auto_functionalized`: an operator that mutates arguments, called so that it mutates copies."""

from __future__ import annotations

from typing import Any

from maquette.dispatch.operator import OpOverload
from maquette.higher_order.common import FunctionalHop, record
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


class AutoFunctionalized(FunctionalHop):
    """``higher_order.auto_functionalized(op, **kwargs)``: results, then each mutated argument's.

    The operator runs on clones of the arguments that it mutates; nothing of the caller's changes.
    """

    def __init__(self) -> None:
        super().__init__("auto_functionalized", cacheable=True)

    def __call__(  # type: ignore[override]  # it states its parameters
        self, /, _mutable_op: Any, **kwargs: Any
    ) -> Any:
        if not can_auto_functionalize(_mutable_op):
            raise AssertionError(
                f"auto_functionalized takes an operator that mutates arguments and returns no "
                f"alias of one, got {_mutable_op}"
            )
        return super().__call__(_mutable_op, **kwargs)

    def eager(self, op: OpOverload, **kwargs: Any) -> Any:
        given = dict(kwargs)
        mutated = [a.name for a in op._schema.arguments if a.is_write]
        for name in mutated:
            given[name] = _cloned(given.get(name))
        result = op(**given)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        if not op._schema.returns:
            results = (None,)
        return (*results, *[given[name] for name in mutated])

    def functional(self, ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with ctx.redispatch_to_next():
            return ctx.wrap_tensors(self(*args, **ctx.unwrap_tensors(kwargs)))

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


def can_auto_functionalize(op: Any) -> bool:
    """Whether an operator mutates arguments and gives no alias of one."""
    if not isinstance(op, OpOverload) or not op._schema.is_mutable:
        return False
    return all(r.alias_info is None for r in op._schema.returns)


def _cloned(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cloned(v) for v in value]
    return operators.clone(value) if isinstance(value, Tensor) else value


auto_functionalized = AutoFunctionalized()

__all__ = ["AutoFunctionalized", "auto_functionalized", "can_auto_functionalize"]
