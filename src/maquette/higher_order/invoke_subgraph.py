"""`invoke_subgraph`: a call kept whole whose graph is used many times."""

from __future__ import annotations

from typing import Any

from maquette.higher_order.common import Function, FunctionalHop
from maquette.tensor.tensor import Tensor


class InvokeSubgraph(FunctionalHop):
    """``higher_order.invoke_subgraph(subgraph, identifier, *operands)``: a graph used many times.

    identifier: names the subgraph, so that it is compiled or differentiated once; None for none.
    """

    def __init__(self) -> None:
        super().__init__("invoke_subgraph", cacheable=True)

    def __call__(  # type: ignore[override]  # it states its parameters
        self, subgraph: Function, identifier: str | None, *operands: Any
    ) -> Any:
        if identifier is not None and not isinstance(identifier, str):
            raise AssertionError(f"identifier must be a None or a string, got {identifier!r}")
        wrong = [o for o in operands if not isinstance(o, (Tensor, int)) and not hasattr(o, "node")]
        if wrong:
            raise AssertionError(
                f"invoke_subgraph operands must be a list of tensors/ints/SymInts, got {wrong}"
            )
        return super().__call__(subgraph, identifier, *operands)

    def eager(self, subgraph: Function, identifier: str | None, *operands: Any) -> Any:
        return subgraph(*operands)

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args[2:]


invoke_subgraph = InvokeSubgraph()

__all__ = ["InvokeSubgraph", "invoke_subgraph"]
