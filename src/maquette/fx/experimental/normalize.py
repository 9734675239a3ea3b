"""Calls in one form: arguments by name (`NormalizeArgs`), operators as functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from maquette.api import functions
from maquette.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from maquette.fx.graph_module import GraphModule
from maquette.fx.interpreter import Transformer
from maquette.fx.node import Node, map_aggregate
from maquette.fx.operator_schemas import create_type_hint, normalize_function, normalize_module
from maquette.fx.tracing.proxy import Proxy


class NormalizeArgs(Transformer):
    """Gives functions and modules their arguments as their signatures have them, defaults too.

    normalize_to_only_use_kwargs: all by name. A call that no signature is known of stays.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """Run a node; a function's arguments are matched by their types."""

        def type_of(arg: Any) -> Any:
            return create_type_hint(arg.type) if isinstance(arg, Node) else type(arg)

        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            arg_types = map_aggregate(n.args, type_of)
            kwarg_types = {k: type_of(v) for k, v in n.kwargs.items()}
            made = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            made = getattr(self, n.op)(n.target, args, kwargs)
        if n.op != "output":
            self.node_map[made] = n
            made.node.meta = n.meta
            made.node.type = n.type
        return made

    def call_function(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
    ) -> Any:
        """A call of a function, its arguments in normal form."""
        found = normalize_function(
            target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs
        )
        if found is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, found.args, found.kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module, its arguments in normal form."""
        found = normalize_module(
            self.module, target, args, kwargs, self.normalize_to_only_use_kwargs
        )
        if found is None:
            return super().call_module(target, args, kwargs)
        return super().call_module(target, found.args, found.kwargs)


class NormalizeOperators(AnnotateTypesWithSchema):
    """Writes functions of two operands as Python's operators: ``torch.add(x, y)`` as ``x + y``.

    A call with more arguments, ``alpha`` say, stays: PyTorch drops them.
    """

    binary_magic_method_remap: dict[Callable[..., Any], Callable[..., Any]] = {
        getattr(functions, name): getattr(operator, there)
        for name, there in (
            ("add", "add"), ("mul", "mul"), ("sub", "sub"), ("div", "truediv"),
            ("floor_divide", "floordiv"), ("remainder", "mod"), ("eq", "eq"), ("ne", "ne"),
            ("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"),
        )
    }  # fmt: skip

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, as an operator where it is one."""
        if len(args) == 2 and not kwargs:
            target = self.binary_magic_method_remap.get(target, target)
        return super().call_function(target, args, kwargs)


__all__ = ["NormalizeArgs", "NormalizeOperators"]
