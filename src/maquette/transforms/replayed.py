"""The backward pass of a level that was seen before: one program of arrays.

`grad` of a function makes the same graph of nodes in every call with the same metas: the same
formulas, saved tensors of the same metas, equal saved numbers. A pass of a small graph costs the
calls of its operators, not their arithmetic. So once a graph has come a few times, the engine's run
is recorded (`maquette.backends.recorded`), and later passes run its arrays. What anybody watches,
what is recorded in turn and what has hooks goes through the engine as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

from maquette.autograd.engine import run_backward
from maquette.autograd.node import AccumulateGrad, Edge, Node, OpNode, SavedOutput, SavedTensor
from maquette.core.device import cpu, device
from maquette.core.dtype import dtype, float32
from maquette.core.layout import layout, memory_format
from maquette.core.meta import TensorMeta
from maquette.core.promotion import defaults
from maquette.core.remembered import epoch, remember
from maquette.dispatch.tls import DispatchState, tls
from maquette.tensor.keys import keys_for
from maquette.tensor.storage import OBSERVERS, UntypedStorage
from maquette.tensor.tensor import Tensor, wrap
from maquette.transforms.interpreter import Interpreter
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import GradTrackingTensor, Wrapper

OFTEN = 8
"""How many times the engine runs a graph before it is recorded, which costs about ten runs."""
LARGE = 1 << 14
"""From how many elements on arithmetic, and memory that is freed early, count for more."""
_MOST_NODES = 256
_MOST_COUNTED = 256


class Unrecordable(Exception):
    """What was run is no program of arrays."""


Run = Callable[[Sequence[Any]], Sequence[Any]]
RECORD: list[Callable[[Callable[[], Any], Sequence[Tensor], Sequence[Tensor]], Run]] = []
"""``record(function, operands, constants)``, once the backends are there."""


class _Known(NamedTuple):
    """What became of a graph that came often: its program, None if there is none."""

    run: Run | None
    metas: Sequence[TensorMeta]  # of the gradients
    since: int  # the epoch of registrations that it was recorded in


_Graph = tuple[object, list[Tensor], list[AccumulateGrad | None]]
"""What the program of a pass follows from, the saved tensors, and the ends of the leaves' paths,
None of a leaf that nothing leads to."""


_known: dict[object, _Known] = {}
_counts: dict[object, int] = {}
_by_sequence = attrgetter("sequence")
_new: Any = object.__new__
_fresh_state = DispatchState()
_INCLUDE, _EXCLUDE = _fresh_state.include, _fresh_state.exclude
_PLAIN = keys_for(TensorMeta.of(float32, (), (), 0, cpu))
"""The key set of a tensor with data on the cpu that nobody records or overrides."""


def gradients_of_one(
    edge: Edge, output: Tensor, leaves: Sequence[Tensor], level: Interpreter
) -> list[Tensor] | None:
    """Gradients of a level's leaves by a scalar of it, by a program; None where there is none yet.

    output: the value of the scalar. The level is over, and no other is in force.
    """
    st = tls.st
    if st.include != _INCLUDE or st.exclude != _EXCLUDE or OBSERVERS:
        return None
    if st.fake_mode is not None or st.node_context is not None or st.inference:
        return None
    graph = _graph_of(edge[0], leaves, level)
    if graph is None:
        return None
    below, operands, targets = graph
    key = (below, edge[1], output.meta, defaults["float"])
    known = _known.get(key)
    if known is None or known.since != epoch():
        seen = _counts.get(key, 0) + 1
        if len(_counts) >= _MOST_COUNTED:
            _counts.clear()
        _counts[key] = seen
        if seen < OFTEN:
            return None
        _counts.pop(key, None)  # another thread may have come here first
        known = _recorded(key, edge, output, leaves, operands, targets)
    if known.run is None:
        return None
    found: list[Tensor] = []
    arrays = known.run([t._mq_data for t in operands])
    for leaf, array, meta in zip(leaves, arrays, known.metas):
        if array is None:
            found.append(cast(Tensor, operators.zeros_like(cast(Wrapper, leaf)._value)))
        else:
            storage = _new(UntypedStorage)  # its ``__init__``, written out: nobody observes
            storage._nbytes, storage.device, storage.data = meta.storage_bytes, cpu, array
            storage.foreign, storage._id = False, 0
            found.append(wrap(meta, storage, array, _PLAIN))
    return found


def _recorded(
    key: object,
    edge: Edge,
    output: Tensor,
    leaves: Sequence[Tensor],
    operands: Sequence[Tensor],
    targets: Sequence[AccumulateGrad | None],
) -> _Known:
    """Record the engine's run of a graph, which goes on without its program if it has none."""
    since = epoch()
    start = operators.ones_like.default(output)
    wanted = [(t, 0) for t in targets if t is not None]

    def run() -> list[Tensor | None]:
        found = run_backward(
            [edge], [start], retain_graph=True, create_graph=False, wanted=wanted, accumulate=False
        )
        given = iter(found)
        return [None if t is None else next(given) for t in targets]

    metas = [leaf.meta.fresh(leaf.meta.shape) for leaf in leaves]
    try:
        program: Run | None = RECORD[0](run, operands, [start])
    except Exception:  # noqa: BLE001  # the engine, whose run comes next, says what is wrong
        program = None
    known = _Known(program, metas, since)
    remember(_known, key, known, since)
    return known


# --- what a pass follows from ------------------------------------------------------------------


def _graph_of(root: Node, leaves: Sequence[Tensor], level: Interpreter) -> _Graph | None:
    """The graph below a node; None where it is not all of this level's, plain and small."""
    places: dict[Node | None, int | None] = {None: None}
    targets: list[AccumulateGrad | None] = []
    for leaf in leaves:
        meta = leaf.meta
        if cast(Wrapper, leaf)._value._keys != _PLAIN or meta.numel > LARGE:
            return None
        if not meta.is_contiguous:
            return None
        state = leaf._ag
        held = None if state is None else state.accumulator
        target: Any = None if held is None else held()
        if target is not None:
            if target.hooks is not None:
                return None
            places[target] = ~len(targets)
        targets.append(target)
    order: list[Any] = [root]
    places[root] = 0
    for node in order:
        if not isinstance(node, OpNode) or node.hooks is not None:
            return None
        node.unfold()
        for target in node.links[::3]:
            if target not in places:
                places[target] = 0
                order.append(target)
    if len(order) > 2:  # the engine's order, on which that of sums depends
        if len(order) > _MOST_NODES:
            return None
        order.sort(key=_by_sequence, reverse=True)
    for i, node in enumerate(order):
        places[node] = i
    operands: list[Tensor] = []
    key: list[object] = [len(targets)]
    place = places.__getitem__
    for node in order:
        links, saved = node.links, node.saved
        if saved is None:
            return None
        key += (node.__class__, *map(place, links[::3]), links[1::3], links[2::3])
        if not node.plain:
            key.append(node.count)
        if node.lists:
            key.append(tuple(node.list_sizes))
        if not saved:
            continue
        key.append(tuple(map(type, saved)))
        for value in saved:
            cls = value.__class__
            if cls is GradTrackingTensor:
                inner = value._value
                meta = inner.meta
                if (  # `_add_tensor`, written out, for a value that nobody has mutated
                    (value._vc is not None and value._vc.value)
                    or inner._keys != _PLAIN
                    or value._interpreter is not level
                    or value.meta is not meta
                    or meta.numel > LARGE
                ):
                    return None
                key += (meta, value._keys)
                operands.append(inner)
            elif cls in _SIMPLE:
                key.append(value)
            elif not _add(value, cls, key, operands, level):
                return None
    return tuple(key), operands, targets


def _add_tensor(t: Tensor, key: list[object], operands: list[Tensor], level: Interpreter) -> bool:
    """Add a saved tensor of the level; whether it is one, over a plain and small value."""
    if not isinstance(t, GradTrackingTensor) or t._interpreter is not level:
        return False
    value = t._value
    meta = value.meta
    if value._keys != _PLAIN or t.meta is not meta:
        return False
    key += (meta, t._keys)
    operands.append(value)
    return meta.numel <= LARGE


_SIMPLE = frozenset((int, bool, str, type(None), dtype, device, layout, memory_format, TensorMeta))


def _add(
    value: Any, cls: type, key: list[object], operands: list[Tensor], level: Interpreter
) -> bool:
    """Add a saved value that is no lone tensor; whether programs may follow from it."""
    if cls in _SIMPLE:
        key.append(value)
    elif cls is float or cls is complex:
        key.append(repr(value))  # zeros have signs
    elif cls is SavedTensor or cls is SavedOutput:
        unchanged = value.tensor._version == value.version
        return unchanged and _add_tensor(value.tensor, key, operands, level)
    elif cls is tuple:
        key += (len(value), *map(type, value))
        return all(_add(v, v.__class__, key, operands, level) for v in value)
    else:
        return False
    return True


__all__ = ["RECORD", "Unrecordable", "gradients_of_one"]
