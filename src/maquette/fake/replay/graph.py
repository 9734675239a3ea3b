"""The part of the backward graph that one run of a block made: its nodes, edges, what it saved."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import NamedTuple

from maquette.autograd.node import NOWHERE, AccumulateGrad, Edge, Node, grad_edge
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.operator import OpOverload
from maquette.fake.replay.values import Unreadable
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor


class Link(NamedTuple):
    """An edge that leads out of a block: to the history of its tensor ``number``.

    context: of its accumulator, if the block made it.
    """

    number: int
    meta: TensorMeta | None
    context: object


def inside(roots: Iterable[Node], first: int) -> list[Node]:
    """The nodes with a sequence number from ``first`` on that are reached, latest first."""
    found: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in found or node.sequence < first or node.__class__ is AccumulateGrad:
            continue
        node.unfold()
        found[node] = None
        stack += [n for n in node.links[::3] if n is not None]
    return sorted(found, key=lambda n: -n.sequence)


def edges_of(tensors: Sequence[Tensor]) -> dict[Edge, int]:
    """Which tensor an edge leads to; not of leaves, whose accumulators are made when needed."""
    found: dict[Edge, int] = {}
    for number, t in enumerate(tensors):
        edge = grad_edge(t) if t._keys & K.REQUIRES_GRAD and not t.is_leaf else None
        if edge is not None:
            found[edge] = number
    return found


def links_out(
    nodes: Sequence[Node], tensors: Sequence[Tensor], edges: dict[Edge, int]
) -> list[Link]:
    """The edges that lead out of the nodes, each once; Unreadable where one has no known tensor.

    tensors: those that the block was given; edges: to them.
    """
    leaves = {id(t): number for number, t in enumerate(tensors)}
    own = set(nodes)
    found: dict[int, Link] = {}
    for node in nodes:
        links = node.links
        for target, output, meta in zip(links[::3], links[1::3], links[2::3], strict=True):
            if target is None or target in own or target is NOWHERE[0]:
                continue
            if target.__class__ is AccumulateGrad:
                number, context = leaves.get(id(target.variable)), target.context
            else:
                number, context = edges.get((target, output)), None
            if number is None:
                raise Unreadable("a tensor from outside the call")
            found.setdefault(number, Link(number, meta, context))
    return list(found.values())


def edges_to_leaves(nodes: Iterable[Node]) -> dict[Node, int]:
    """How many edges of the nodes lead to each leaf."""
    counts: dict[Node, int] = {}
    for node in nodes:
        for target in node.links[::3]:
            if target.__class__ is AccumulateGrad:
                counts[target] = counts.get(target, 0) + 1
    return counts


def saved_by(nodes: Iterable[Node]) -> list[Tensor]:
    """The tensors that the nodes hold, wherever they hold them."""
    tensors: dict[int, Tensor] = {}
    seen: set[int] = set()
    stack: list[object] = list(nodes)
    seen.update(map(id, stack))
    while stack:
        value = stack.pop()
        for item in _held_by(value):
            if id(item) in seen or isinstance(item, _NEVER):
                continue
            seen.add(id(item))
            if isinstance(item, Tensor):
                tensors[id(item)] = item
            elif gc.is_tracked(item):
                stack.append(item)
    return list(tensors.values())


_NEVER = (type, ModuleType, BuiltinFunctionType, OpOverload, TensorMeta, UntypedStorage, Node)


def _held_by(value: object) -> list[object]:
    if isinstance(value, FunctionType):  # not its globals
        cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        return [*cells, *(value.__defaults__ or ())]
    if hasattr(value.__class__, "_mq_attributes"):
        return []
    return gc.get_referents(value)


def _filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018  # an empty one raises
    except ValueError:
        return False
    return True
