"""`CapabilityBasedPartitioner`: what a backend supports, in parts as large as can run as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, _get_qualified_name
from maquette.fx.passes.operator_support import OperatorSupportBase
from maquette.fx.passes.utils.fuser_utils import fuse_by_partitions

_ITEM = "_operator.getitem"


class Partition:
    """Nodes that are to run as one."""

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        """node_orders: a number for each node, by which a program may order them."""
        self.id = id
        given = tuple(nodes or ())
        orders = (None,) * len(given) if node_orders is None else node_orders
        self.nodes: dict[Node, int | None] = dict(zip(given, orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Take a node out."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


def _name(node: Node) -> str:
    return str(node.target) if isinstance(node.target, str) else _get_qualified_name(node.target)


@compatibility(is_backward_compatible=False)
class CapabilityBasedPartitioner:
    """Finds and fuses the nodes that a backend supports.

    allows_single_node_partition: whether one operation alone is worth a part. non_compute_ops:
    names of functions that are no work, as views are. allowed_single_node_partition_ops: names of
    those that are worth a part alone all the same. skip_horizontal_fusion: put together only what
    one hands to the other.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def propose_partitions(self) -> list[Partition]:
        """Parts that can run as one, each as large as it may be; the last of the graph first."""
        modules = dict(self.graph_module.named_modules())
        parts: list[Partition] = []
        for node in reversed(list(self.graph_module.graph.nodes)):
            if node.op in ("placeholder", "output"):
                continue
            if not self.operator_support.is_node_supported(modules, node):
                continue
            mine = Partition(len(parts), [node])
            others = list(parts)
            parts.append(mine)
            for other in others:
                if self.skip_horizontal_fusion and not _hands_on(mine, other):
                    continue
                if _can_merge(mine, other, parts):
                    mine.nodes.update(other.nodes)
                    parts.remove(other)
        self._join_items(parts)
        return [p for p in parts if p.nodes and self._is_worth_it(p)]

    def _join_items(self, parts: list[Partition]) -> None:
        """Have the items of a result be where the result is."""
        home = {node: part for part in parts for node in part.nodes}
        for node in self.graph_module.graph.nodes:
            if node.op != "call_function" or _name(node) != _ITEM:
                continue
            (source, *_) = node.all_input_nodes
            at, to = home.get(node), home.get(source)
            if at is not to:
                if at is not None:
                    at.remove_node(node)
                if to is not None:
                    to.add_node(node)
                    home[node] = to

    def _is_worth_it(self, part: Partition) -> bool:
        if self.allows_single_node_partition:
            return True
        ignored = {*self.non_compute_ops, _ITEM}
        work = [n for n in part.nodes if n.op == "call_function" and _name(n) not in ignored]
        work += [n for n in part.nodes if n.op in ("call_module", "call_method")]
        alone = any(_name(n) in self.allowed_single_node_partition_ops for n in work)
        return len(work) > 1 or alone

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Make each part a module; see `fuse_by_partitions`."""
        return fuse_by_partitions(self.graph_module, [list(p.nodes) for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Leave out what is no work at the beginnings and ends of parts."""
        for part in partitions:
            for node in self._bookends(part):
                part.remove_node(node)

    def _bookends(self, part: Partition) -> set[Node]:
        """Nodes that are no work, with nothing but such before, or after, them in the part."""
        free = {n for n in part.nodes if n.op == "call_function" and self._is_free(n)}
        found: set[Node] = set()
        order = [n for n in self.graph_module.graph.nodes if n in part.nodes]
        for node in order:
            before = [i for i in node.all_input_nodes if i in part.nodes]
            if node in free and all(i in found for i in before):
                found.add(node)
        after: set[Node] = set()
        for node in reversed(order):
            if node in free and all(u in after for u in node.users if u in part.nodes):
                after.add(node)
        return found | after

    def _is_free(self, node: Node) -> bool:
        return _name(node) in self.non_compute_ops

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose, and fuse what was proposed."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


def _hands_on(one: Partition, other: Partition) -> bool:
    """Whether a node of one part takes what a node of the other gives."""
    pairs = ((one, other), (other, one))
    return any(user in b.nodes for a, b in pairs for node in a.nodes for user in node.users)


def _can_merge(one: Partition, other: Partition, parts: list[Partition]) -> bool:
    """Whether two parts can run as one: no path leads out of them and in again."""
    members = {**one.nodes, **other.nodes}
    home = {n: p for p in parts if p is not one and p is not other for n in p.nodes}
    seen: set[Node] = set()
    left = [u for n in members for u in n.users if u not in members]
    while left:
        node = left.pop()
        if node in members:
            return False
        if node in seen:
            continue
        part = home.get(node)
        group = [node] if part is None else list(part.nodes)  # what runs as one ends as one
        seen.update(group)
        left += [u for n in group for u in n.users]
    return True


__all__ = ["CapabilityBasedPartitioner", "Partition"]
