"""`split_module`: a module cut into submodules that are called one after another."""

from __future__ import annotations

import inspect
import operator
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from maquette.core.symbols import node_of
from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, map_arg

_NO_DEFAULT = inspect.Signature.empty


@compatibility(is_backward_compatible=True)
class Partition:
    """Nodes that go into one submodule, and what it takes and gives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: "
            f"{self.outputs},\n partitions depended on: {self.dependencies},\n partition "
            f"dependents: {self.dependents}"
        )


@compatibility(is_backward_compatible=True)
def split_module(
    m: GraphModule,
    root_m: Any,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that calls submodules ``submod_0``...: one for each value of ``split_callback``.

    root_m: only kept for programs that pass it. qualname_map: gets, for each path in the result,
    that in ``m``. keep_original_order: call the submodules in the order in which their first nodes
    stand, if that is possible. tuple_return: submodules give tuples even of one value.

    Raises RuntimeError where submodules would need one another in a circle.
    """
    splitter = _Splitter(m, split_callback, partition_affix)
    splitter.assign()
    order = splitter.order(bool(keep_original_order))
    splitter.fill(bool(keep_original_node_name), keep_original_input_name)
    return splitter.assemble(order, qualname_map, tuple_return)


class _Splitter:
    """One `split_module` at work."""

    def __init__(self, m: GraphModule, callback: Callable[[Node], int], affix: str | None) -> None:
        self.m = m
        self.callback = callback
        self.affix = affix
        self.partitions: OrderedDict[str, Partition] = OrderedDict()
        self.original = {n.name: n for n in m.graph.nodes}
        self.home: dict[Node, str] = {}
        self.renamed: list[tuple[str, str]] = []

    # --- which node goes where -------------------------------------------------------

    def assign(self) -> None:
        """Find the partition of each node, and what crosses their borders."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            key = str(self.callback(node))
            if key not in self.partitions:
                made = self.partitions[key] = Partition(key)
                if self.affix:
                    made.submod_name = f"submod_{self.affix}_{key}"
            self.partitions[key].node_names.append(node.name)
            self.home[node] = key
        for node in self.m.graph.nodes:
            user = self.home.get(node)
            for used in node._input_nodes:
                self._note_use(used, user)

    def _note_use(self, used: Node, user: str | None) -> None:
        maker = self.home.get(used)
        if maker == user and maker is not None:
            return
        if maker is not None:
            self.partitions[maker].outputs.setdefault(used.name)
        if user is None:
            return
        self.partitions[user].inputs.setdefault(used.name)
        self._note_sizes(used, user)
        if maker is not None:
            self.partitions[user].dependencies.setdefault(maker)
            self.partitions[maker].dependents.setdefault(user)

    def _note_sizes(self, used: Node, user: str) -> None:
        """Symbolic sizes of an input are inputs, too, where the module has them as such."""
        value = used.meta.get("example_value", used.meta.get("val"))
        for size in getattr(value, "shape", ()):
            if node_of(size) is None:
                continue
            for node in self.m.graph.nodes:
                given = node.meta.get("example_value", node.meta.get("val"))
                if node.op == "placeholder" and node_of(given) is not None and given is size:
                    self.partitions[user].inputs.setdefault(node.name)

    def order(self, keep: bool) -> list[str]:
        """The partitions in an order in which each comes after those that it needs.

        Of those that may come next it is the one that became so last, or, with keep, the first of
        the program.
        """
        if not keep:
            return self._latest_first()
        waiting = {name: set(p.dependencies) for name, p in self.partitions.items()}
        ordered: list[str] = []
        while waiting:
            ready = [name for name in waiting if not waiting[name] - set(ordered)]
            if not ready:
                raise RuntimeError(f"cycle exists between partitions! {list(waiting)}")
            ordered.append(ready[0])
            del waiting[ready[0]]
        return ordered

    def _latest_first(self) -> list[str]:
        needed = {name: set(p.dependencies) for name, p in self.partitions.items()}
        ready = [name for name, others in needed.items() if not others]
        ordered: list[str] = []
        while ready:
            ordered.append(ready.pop())
            for dependent in self.partitions[ordered[-1]].dependents:
                needed[dependent].discard(ordered[-1])
                if not needed[dependent]:
                    ready.append(dependent)
        left = [name for name in needed if name not in ordered]
        if left:
            raise RuntimeError(f"cycle exists between partitions! {left}")
        return ordered

    # --- the submodules --------------------------------------------------------------

    def fill(self, keep_node_name: bool, keep_input_name: bool) -> None:
        """Make the graphs of all partitions."""
        for partition in self.partitions.values():
            for i, name in enumerate(partition.inputs):
                node = self.original[name]
                made = partition.graph.placeholder(
                    name if keep_input_name else f"arg_{i}", type_expr=node.type
                )
                made.meta = node.meta.copy()
                partition.environment[node] = made
        for node in self.m.graph.nodes:
            key = self.home.get(node)
            if key is not None:
                self._copy(node, self.partitions[key], keep_node_name)

    def _copy(self, node: Node, partition: Partition, keep_name: bool) -> None:
        env = partition.environment
        target: Any = node.target
        if node.op == "call_module":
            target = str(node.target).replace(".", "_")
            partition.targets[target] = _attribute(self.m, str(node.target))
            self._paths(partition, target, str(node.target))
        made = partition.graph.create_node(
            node.op,
            target,
            map_arg(node.args, lambda n: env[n]),
            map_arg(node.kwargs, lambda n: env[n]),
            node.name if keep_name else None,
            node.type,
        )
        made.meta = node.meta.copy()
        env[node] = made

    def _paths(self, partition: Partition, target: str, original: str) -> None:
        self.renamed.append((f"{partition.submod_name}.{target}", original))

    # --- the whole -------------------------------------------------------------------

    def assemble(
        self, order: list[str], qualname_map: dict[str, str] | None, tuple_return: bool
    ) -> GraphModule:
        """The module that calls the submodules."""
        base = Graph()
        attributes: dict[str, Any] = {}
        env: dict[str, Node] = {}
        for node in self.m.graph.nodes:
            if node.op == "placeholder":
                default = node.args[0] if node.args else _NO_DEFAULT
                made = base.placeholder(
                    str(node.target),
                    type_expr=node.type,
                    default_value=default,
                )
            elif node.op == "get_attr":
                attributes[str(node.target)] = _attribute(self.m, str(node.target))
                made = base.get_attr(str(node.target))
            else:
                continue
            made.meta = node.meta.copy()
            env[node.name] = made
        for name in order:
            self._call(self.partitions[name], base, attributes, env, tuple_return)
        for node in self.m.graph.nodes:
            if node.op == "output":
                output = base.output(map_arg(node.args[0], lambda n: env[n.name]), node.type)
                output.meta = node.meta.copy()
        if qualname_map is not None:
            qualname_map.update(dict(self.renamed))
        made_module = GraphModule(attributes, base)
        made_module.meta.update(self.m.meta)
        return made_module

    def _call(
        self,
        partition: Partition,
        base: Graph,
        attributes: dict[str, Any],
        env: dict[str, Node],
        tuple_return: bool,
    ) -> None:
        outputs = [partition.environment[self.original[name]] for name in partition.outputs]
        several = len(outputs) > 1 or tuple_return
        if outputs:
            partition.graph.output(tuple(outputs) if several else outputs[0])
        else:
            partition.graph.output(())
        attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        args = tuple([env[name] for name in partition.inputs])
        call = base.call_module(partition.submod_name, args)
        if not several:
            for name in partition.outputs:
                call.meta = self.original[name].meta.copy()
                env[name] = call
            return
        for i, name in enumerate(partition.outputs):
            item = base.call_function(operator.getitem, (call, i))
            item.meta = self.original[name].meta.copy()
            env[name] = item


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
