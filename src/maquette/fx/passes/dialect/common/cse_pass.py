"""Common subexpressions: calls of the same operator on the same arguments are made once."""

from __future__ import annotations

from typing import Any

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.tags import Tag
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Node, map_arg
from maquette.fx.passes.infra.pass_base import PassBase, PassResult

_RANDOM = ("bernoulli", "dropout", "rand", "randint", "randn", "randperm", "normal", "multinomial")


def get_CSE_banned_ops() -> set[Any]:
    """Operators whose calls are never the same: random ones, and those of memory not set yet."""
    banned: set[Any] = set()
    for name in (*_RANDOM, "empty", "empty_like", "new_empty", "native_dropout", "rand_like",
                 "randn_like", "randint_like", "multinomial"):  # fmt: skip
        try:
            packet = getattr(ops.aten, name)
        except AttributeError:
            continue
        banned |= {packet, *packet.op_overloads()}
    return banned


def _may_repeat(node: Node, banned: set[Any]) -> bool:
    """Whether a second call of the node would give anything else."""
    target = node.target
    if node.op in ("placeholder", "output", "get_attr") or target in banned:
        return True
    if getattr(target, "overloadpacket", None) in banned:
        return True
    if isinstance(target, OpOverload):
        return target._schema.is_mutable or Tag.nondeterministic_seeded in target.tags
    return False


class CSEPass(PassBase):
    """Makes calls of the same operator on the same arguments once.

    banned_ops: functions whose calls are all kept.
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = set() if banned_ops is None else set(banned_ops)
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """A module of a new graph."""
        old = graph_module.graph
        new = Graph()
        env: dict[Node, Node] = {}
        seen: dict[Any, Node] = {}
        modified = False
        for node in old.nodes:
            key = None if _may_repeat(node, self.banned_ops) else _key(node, env)
            known = None if key is None else seen.get(key)
            if known is not None:
                modified = True
                env[node] = known
                continue
            made = env[node] = new.node_copy(node, lambda n: env[n])
            if key is not None:
                seen[key] = made
        return PassResult(GraphModule(graph_module, new), modified)


def _key(node: Node, env: dict[Node, Node]) -> Any:
    """Equal for calls that are the same: values are told apart by their class, too."""
    mapped = map_arg((node.args, node.kwargs), lambda n: env[n])
    return node.op, node.target, _with_classes(mapped)


def _with_classes(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value), tuple([_with_classes(v) for v in value])
    if isinstance(value, dict):
        return dict, tuple([(k, _with_classes(v)) for k, v in value.items()])
    if isinstance(value, slice):
        return slice, _with_classes((value.start, value.stop, value.step))
    return type(value), value
