"""What cuts a graph in two kinds of submodules: those of an accelerator, and the rest."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node
from maquette.fx.passes.operator_support import OperatorSupportBase, get_node_target
from maquette.fx.passes.shape_prop import ShapeProp
from maquette.fx.passes.split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from maquette.fx.passes.tools_common import FxNetAccFusionsFinder, is_node_output_tensor
from maquette.nn.base import Module

CALLABLE_NODE_OPS = ("call_module", "call_function", "call_method")


@dataclass
class _SplitterSettingBase:
    """How to split.

    min_acc_module_size: fewest nodes of an accelerator's submodule; skip_fusion: do not keep nodes
    together that hand on what is no tensor; allow_non_tensor: let submodules hand that on;
    max_acc_splits: most submodules of the accelerator, -1 for any number.
    """

    min_acc_module_size: int = 1
    skip_fusion: bool = False
    allow_non_tensor: bool = False
    max_acc_splits: int = -1
    move_non_tensor_nodes_on_boundary: bool = False


@compatibility(is_backward_compatible=False)
class FxNetAccNodesFinder:
    """Which nodes an accelerator takes.

    Those that it supports, but for nodes that would hand on what is no tensor between it and the
    rest, unless ``allow_non_tensor``.
    """

    def __init__(
        self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool
    ) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: set[Node] = set()

    def __call__(self) -> set[Node]:
        """The accelerator's nodes."""
        submodules = dict(self.module.named_modules())
        callable_nodes = [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS]
        supported = self.operator_support.is_node_supported
        self.acc_nodes = {n for n in callable_nodes if supported(submodules, n)}
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        return self.acc_nodes

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: list[Node]) -> None:
        """Take away what uses these nodes, and so on while that gives no tensor."""
        while cpu_worklist:
            node = cpu_worklist.pop(0)
            for user in node.users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    if not is_node_output_tensor(user):
                        cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Take away what would be given something that is no tensor."""
        self.reduce_acc_nodes_non_tensor_input_helper(
            [
                n
                for n in self.module.graph.nodes
                if n.op in CALLABLE_NODE_OPS
                and n not in self.acc_nodes
                and not is_node_output_tensor(n)
            ]
        )

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Take away what would give something that is no tensor."""
        while True:
            leaving = [
                n
                for n in self.module.graph.nodes
                if n in self.acc_nodes
                and not is_node_output_tensor(n)
                and any(u not in self.acc_nodes for u in n.users)
            ]
            if not leaving:
                return
            self.acc_nodes -= set(leaving)
            self.reduce_acc_nodes_non_tensor_input_helper(leaving)


@compatibility(is_backward_compatible=False)
class FxNetSplitterInternalError(Exception):
    """A graph that cannot be split: its nodes depend on each other in a circle."""


@compatibility(is_backward_compatible=False)
@dataclass
class Subgraph:
    """Nodes of one submodule, in order, and whether it is the accelerator's."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


@compatibility(is_backward_compatible=False)
class SplitResult(NamedTuple):
    """A split module, the inputs of its submodules, and how the rest's submodules are called."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


@compatibility(is_backward_compatible=False)
def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """The positional inputs that submodules, by path, are called with when ``model`` is.

    deepcopy: copies of them, as they are before the submodule runs.
    """
    wanted, found, handles = set(target_submodules), {}, []

    def noting(name: str) -> Any:
        def hook(module: Module, args: tuple[Any, ...]) -> None:
            found[name] = copy.deepcopy(args) if deepcopy else args

        return hook

    for name, module in model.named_modules():
        if name in wanted:
            handles.append(module.register_forward_pre_hook(noting(name)))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


class _SplitterBase:
    """Cuts a module into submodules of an accelerator, ``_run_on_acc_0``..., and of the rest.

    The nodes keep their order as far as the cut allows; each submodule is as large as it can be.
    sample_input: what the module is run on, so that it is known what nodes give.
    """

    PCIe_BW = 100 * 2**30  # bytes a second, by which previews estimate

    def __init__(
        self,
        module: GraphModule,
        sample_input: Sequence[Any],
        operator_support: OperatorSupportBase,
        settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_",
        return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}: trace it first")
        self.module = module
        ShapeProp(self.module).propagate(*sample_input)
        self.settings = settings
        self.operator_support = operator_support
        self.sample_input = sample_input
        finder = nodes_finder or FxNetAccNodesFinder(
            self.module, operator_support, settings.allow_non_tensor
        )
        self.acc_nodes = finder()
        self.fusions: dict[Node, set[Node]] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(self.module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self.return_tuple = return_tuple
        self.tags: list[str] = []
        self._node_submodule_map: dict[str, str] = {}

    def get_node_submodule_map(self) -> dict[str, str]:
        """For each node's name, the submodule in which it is; after `tag`."""
        return self._node_submodule_map

    # --- dependencies --------------------------------------------------------------------------

    def find_deps(self) -> dict[Node, set[Node]]:
        """For each node that is called, the called nodes whose results it takes."""
        return {
            n: {i for i in n.all_input_nodes if i.op in CALLABLE_NODE_OPS}
            for n in self.module.graph.nodes
            if n.op in CALLABLE_NODE_OPS
        }

    def update_deps_for_fusions(self) -> None:
        """Let each member of a fusion wait for what any of them takes from outside."""
        for node, group in self.fusions.items():
            self.deps[node] = set().union(*[self.deps[m] for m in group]) - group | (
                self.deps[node] & group
            )

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, set[Node]]:
        """For each node, the called nodes that use it; of submodules up to ``tag_id`` only."""
        found: dict[Node, set[Node]] = {}
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            found[node] = {
                u
                for u in node.users
                if u.op in CALLABLE_NODE_OPS
                and (tag_id is None or int(str(getattr(u, "tag", "0")).rpartition("_")[2]) < tag_id)
            }
        return found

    def find_parent_nodes_of_subgraph(self, tag: str) -> set[Node]:
        """The called nodes outside of a submodule whose results it takes."""
        inside = [n for n in self.module.graph.nodes if getattr(n, "tag", None) == tag]
        return {
            i
            for n in inside
            for i in n.all_input_nodes
            if i.op in CALLABLE_NODE_OPS and getattr(i, "tag", None) != tag
        }

    # --- subgraphs -----------------------------------------------------------------------------

    def starter_nodes(self) -> tuple[set[Node], set[Node]]:
        """The nodes, not the accelerator's and the accelerator's, that placeholders lead to."""
        found: tuple[set[Node], set[Node]] = (set(), set())
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS and not self.deps[node]:
                found[node in self.acc_nodes].add(node)
        return found

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """The nodes, in the order of the graph, in subgraphs of one kind and then the other."""
        left = dict.fromkeys(n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS)
        done: set[Node] = set()
        is_acc = not self.starter_nodes()[0]
        subgraphs: list[Subgraph] = []
        idle = 0
        while left:
            nodes = self._ready(left, done, is_acc)
            idle = 0 if nodes else idle + 1
            if idle > 1:
                raise FxNetSplitterInternalError(
                    f"the nodes {', '.join(n.name for n in left)} depend on each other in a circle"
                )
            if nodes:
                subgraphs.append(Subgraph(is_acc, nodes))
            is_acc = not is_acc
        return subgraphs

    def _ready(self, left: dict[Node, None], done: set[Node], is_acc: bool) -> list[Node]:
        """All nodes of one kind that can run now, one after another; they leave ``left``."""
        nodes: list[Node] = []
        before = -1
        while len(nodes) != before:
            before = len(nodes)
            for node in list(left):
                if (node in self.acc_nodes) == is_acc and self.deps[node] <= done:
                    nodes.append(node)
                    done.add(node)
                    del left[node]
        return nodes

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Give the accelerator's subgraphs that are too small to the rest."""
        result: list[Subgraph] = []
        for subgraph in subgraphs:
            small = len(subgraph.nodes) < self.settings.min_acc_module_size
            if subgraph.is_acc and small:
                subgraph.is_acc = False
            if result and not subgraph.is_acc and not result[-1].is_acc:
                result[-1].nodes += subgraph.nodes
            else:
                result.append(subgraph)
        return result

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Give each node the name of its submodule as ``tag``."""
        self.tags = []
        for subgraph in subgraphs:
            prefix = "_run_on_acc_" if subgraph.is_acc else self.non_acc_submodule_name
            tag = f"{prefix}{len(self.tags)}"
            self.tags.append(tag)
            for node in subgraph.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag  # type: ignore[attr-defined]  # nodes take any attribute
                self._node_submodule_map[node.name] = tag

    # --- the split -----------------------------------------------------------------------------

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module, cut by the tags that `tag` gave; remove_tag: take them away again."""
        made = split_by_tags(self.module, self.tags, return_tuple=self.return_tuple)
        assert isinstance(made, GraphModule)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        return made

    def _subgraphs(self) -> list[Subgraph]:
        subgraphs = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(subgraphs)
        return subgraphs

    def __call__(self) -> GraphModule:
        """The split module."""
        subgraphs = self._subgraphs()
        count, most = sum(s.is_acc for s in subgraphs), self.settings.max_acc_splits
        if 0 < most < count:
            raise ValueError(
                f"Cannot fulfill max_acc_splits limit: expected at most {most} submodules of the "
                f"accelerator, got {count}. This may cause the graph to be split too often; raise "
                "max_acc_splits or min_acc_module_size, or support more operators"
            )
        self.tag(subgraphs)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """The split module, with what its submodules are given for the sample input."""
        made = self()
        names = [name for name, _ in made.named_children()]
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        return SplitResult(made, inputs, self.non_acc_submodule_name)

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Which kinds of calls the accelerator takes, and which not."""
        submodules = dict(self.module.named_modules())
        kinds: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for node in self.deps:
            kinds[node in self.acc_nodes][get_node_target(submodules, node)] = None
        lines = ["Supported node types in the model:", *kinds[True]]
        lines += ["", "Unsupported node types in the model:", *kinds[False]]
        return "\n".join(lines) + "\n"

    def split_preview(self, dump_graph: bool = False) -> str:
        """Which submodules the split has, and which calls are in each."""
        submodules = dict(self.module.named_modules())
        subgraphs = self._subgraphs()
        count = sum(s.is_acc for s in subgraphs)
        rest = len(subgraphs) - count
        lines = [
            f"{len(subgraphs)} subgraphs: {count} acc subgraphs and {rest} cpu subgraphs.",
        ]
        for i, subgraph in enumerate(subgraphs):
            kind = "_run_on_acc_" if subgraph.is_acc else self.non_acc_submodule_name
            lines += [f"{kind}{i}: {len(subgraph.nodes)} node(s)"]
            lines += [f"  {get_node_target(submodules, n)}" for n in subgraph.nodes]
        return "\n".join(lines) + "\n"


__all__ = [
    "FxNetAccNodesFinder",
    "FxNetSplitterInternalError",
    "SplitResult",
    "Subgraph",
    "generate_inputs_for_submodules",
]
