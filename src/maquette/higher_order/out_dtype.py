"""`out_dtype`: an operator computed in one dtype that gives its result in another."""

from __future__ import annotations

from typing import Any

from maquette.core.dtype import dtype
from maquette.core.promotion import promote_types
from maquette.core.pytree import tree_map_only
from maquette.dispatch.operator import OpOverload
from maquette.higher_order.common import FunctionalHop, flattened, record
from maquette.tensor.tensor import Tensor


class OutDtypeOperator(FunctionalHop):
    """``out_dtype(op, output_dtype, *args)``: ``op`` of the arguments, promoted, in a dtype."""

    def __init__(self) -> None:
        super().__init__("out_dtype")

    def __call__(  # type: ignore[override]  # it states its parameters
        self, op: Any, output_dtype: Any, *args: Any
    ) -> Any:
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        if len(op._schema.returns) != 1 or op._schema.returns[0].type.written != "Tensor":
            raise ValueError(
                f"out_dtype's can only apply to ops that return a single tensor. Instead got "
                f"{[r.type.written for r in op._schema.returns]}"
            )
        if not isinstance(output_dtype, dtype):
            raise ValueError(f"out_dtype's second argument must be a dtype, got {output_dtype!r}")
        return super().__call__(op, output_dtype, *args)

    def eager(self, op: OpOverload, output_dtype: dtype, *args: Any) -> Any:
        wide = output_dtype
        for t in flattened(args)[0]:
            if isinstance(t, Tensor):
                wide = promote_types(wide, t.dtype)

        def cast_to(t: Any) -> Any:
            return t.to(dtype=wide)

        cast: Any = tree_map_only(Tensor, cast_to, args)
        return op(*cast).to(dtype=output_dtype)

    def functional(self, ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with ctx.redispatch_to_next():
            return ctx.wrap_tensors(self(*ctx.unwrap_tensors(args)))

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


out_dtype = OutDtypeOperator()

__all__ = ["OutDtypeOperator", "out_dtype"]
