"""`DecompositionInterpreter`: a graph run node by node into another, operators by a table."""

from __future__ import annotations

from typing import Any

from maquette.core import pytree
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.interpreter import Interpreter
from maquette.fx.node import Argument, Target
from maquette.fx.tracing.operator_tracing import PythonKeyTracer
from maquette.fx.tracing.proxy import Proxy
from maquette.fx.tracing.proxy_mode import DecompositionTable, ProxyTorchDispatchMode
from maquette.fx.tracing.tracked import track


class DecompositionInterpreter(Interpreter):
    """Runs the graph of a module and records what it runs in ``new_graph``.

    decomposition_table: functions to run instead of operators, by operator; the new graph has the
    operators that these call. Other parameters: those of `Interpreter`.
    """

    def __init__(
        self,
        module: GraphModule,
        new_graph: Graph,
        decomposition_table: DecompositionTable | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, **kwargs)
        self.new_graph = new_graph
        self.decomposition_table = decomposition_table or {}
        self.tracer = PythonKeyTracer()
        self.tracer.root = module
        self.tracer.graph = self.tracer.symbol_nodes.graph = new_graph
        self.mode = ProxyTorchDispatchMode(
            self.tracer, tracing_mode="real", decomposition_table=self.decomposition_table
        )

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """An input of the graph, which is one of the new graph too."""
        value = super().placeholder(target, args, kwargs)
        assert isinstance(target, str)
        track(self.tracer, value, self.new_graph.placeholder(target))
        return value

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module, fetched in the new graph too."""
        value = super().get_attr(target, args, kwargs)
        assert isinstance(target, str)
        track(self.tracer, value, self.new_graph.get_attr(target))
        return value

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result, with which the new graph ends."""
        value = super().output(target, args, kwargs)

        def as_node(x: Any) -> Any:
            proxy = self.tracer.unwrap_proxy(x)
            return proxy.node if isinstance(proxy, Proxy) else x

        self.new_graph.output(pytree.tree_map(as_node, value))
        return value

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on arguments; its result."""
        with self.mode:
            return super().run(*args, **kwargs)
