"""`Interpreter`: run a graph node by node. `Transformer`: make a new graph by running one.

Override the method of an op (`call_function` ...) to do something else for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maquette.fx import traceback as fx_traceback
from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Argument, Node, Target, map_aggregate, map_arg
from maquette.fx.tracing.proxy import Proxy
from maquette.fx.tracing.tracer import Tracer


@compatibility(is_backward_compatible=True)
class Interpreter:
    """Runs the graph of a module.

    garbage_collect_values: forget a result after its last use. graph: another graph to run, on the
    attributes of ``module``. ``env`` has the results so far, by node.
    """

    def __init__(
        self,
        module: Any,
        garbage_collect_values: bool = True,
        graph: Graph | None = None,
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        self.args_iter: Iterator[Any] = iter(())
        if garbage_collect_values:
            seen: set[Node] = set()
            for user in reversed(self.graph.nodes):
                for node in user._input_nodes:
                    if node not in seen:
                        seen.add(node)
                        self.user_to_last_uses.setdefault(user, []).append(node)

    @compatibility(is_backward_compatible=True)
    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph on arguments; its result.

        initial_env: results of nodes that are not to be run. enable_io_processing: whether the
        graph's code generator nests arguments and results (`CodeGen.process_inputs`).
        """
        self.env = {} if initial_env is None else dict(initial_env)
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self._run_explained(node)
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def _run_explained(self, node: Node) -> Any:
        try:
            return self.run_node(node)
        except Exception as error:
            if self.extra_traceback:
                _explain(error, node)
                if isinstance(error, KeyError):
                    raise RuntimeError(*error.args) from error  # a KeyError shows its repr
            raise

    @compatibility(is_backward_compatible=True)
    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run on the arguments in a list, which is emptied, so that they can be freed early."""
        args = list(args_list)
        args_list.clear()
        env: dict[Node, Any] = {}
        for node in self.graph.nodes:
            if node.op == "placeholder":
                env[node] = args.pop(0)
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node):
            yield

    @compatibility(is_backward_compatible=True)
    def run_node(self, n: Node) -> Any:
        """Run one node on the results so far."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- one method an op ------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The next argument of the run; its default where there are no more."""
        assert isinstance(target, str)
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if len(args) > 0:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute at the path ``target``."""
        assert isinstance(target, str)
        return self.fetch_attr(target)

    @compatibility(is_backward_compatible=True)
    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """``target(*args, **kwargs)``."""
        assert not isinstance(target, str)
        return target(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The method of the first argument, on the others."""
        self_obj, *rest = args
        assert isinstance(target, str)
        return getattr(self_obj, target)(*rest, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The submodule at the path ``target``, on the arguments."""
        assert isinstance(target, str)
        return self.fetch_attr(target)(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph returns."""
        return args[0]

    # --- helpers ---------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module at a path; RuntimeError where there is none."""
        at = self.module
        names = target.split(".")
        for i, name in enumerate(names):
            if not hasattr(at, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(names[: i + 1])}")
            at = getattr(at, name)
        return at

    @compatibility(is_backward_compatible=True)
    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with results for nodes."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        assert isinstance(args, tuple)
        assert isinstance(kwargs, dict)
        return args, kwargs

    @compatibility(is_backward_compatible=True)
    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """An argument with results for nodes; RuntimeError for a node that has not been run."""

        def value_of(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose "
                    f"such issues"
                )
            return self.env[used]

        return map_arg(args, value_of)


def _explain(error: Exception, node: Node) -> None:
    """Add to an error's text which node was running and where it comes from."""
    text = f"While executing {node.format_node()}"
    text = f"{error.args[0]}\n\n{text}" if error.args else text
    text += f"\nOriginal traceback:\n{node.stack_trace}"
    error.args = (text, *error.args[1:])


@compatibility(is_backward_compatible=True)
class Transformer(Interpreter):
    """An interpreter whose values are proxies: running it makes a new graph.

    Override the method of an op to have something else in its place, then call `transform`.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.tensor_attrs: dict[Any, str] = {}

            def is_leaf_module(self, _m: Any, _name: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    @compatibility(is_backward_compatible=True)
    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A placeholder of the new graph."""
        assert isinstance(target, str)
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A node of the new graph that fetches the same attribute."""
        assert isinstance(target, str)
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of the submodule in the new graph."""
        assert isinstance(target, str)
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of the function in the new graph."""
        assert callable(target)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def transform(self) -> GraphModule:
        """The module of the new graph."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            unwrap = lambda a: a.node if isinstance(a, Proxy) else a  # noqa: E731
            old_output = next(n for n in reversed(self.graph.nodes) if n.op == "output")
            output = self.new_graph.output(map_aggregate(result, unwrap), type_expr=old_output.type)
            output.meta.update(old_output.meta)
        return _with_types(GraphModule(self.module, self.new_graph), self.graph)


def _with_types(made: GraphModule, old: Graph) -> GraphModule:
    """Placeholders keep their annotations."""
    old_types = {n.target: n.type for n in old.nodes if n.op == "placeholder"}
    for node in made.graph.nodes:
        if node.op == "placeholder" and node.type is None:
            node.type = old_types.get(node.target)
    return made
