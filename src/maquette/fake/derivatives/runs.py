"""What a whole run of the engine over fakes made, remembered: a graph seen before is not run.

The gradients of a node are a function of metas (`steps.py`), so those of a graph's leaves are one
of its nodes, of how they hang together, and of the gradient that comes. A training loop makes the
same graph each time. Once such a run took nothing but remembered steps it is written down: each
node's class and outline, where its edges lead, what the leaves got. Where a graph is found to be
the same, node by node, its leaves are given gradients at once and its nodes let go of what they
saved; everything between, which nobody could see, is not made. That takes a third of the time.

Whoever could see a run has it run: hooks, modes, observers of memory, profilers, gradients that are
asked for by themselves or that are to be differentiated again. So do graphs with a node that has no
outline, such as what users wrote.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

from maquette.autograd.engine import DONE, KNOWN_RUN, Run, accumulated
from maquette.autograd.node import NOWHERE, AccumulateGrad, Grad, Node, OpNode
from maquette.autograd.saved.hooks import watch
from maquette.core.device import device
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.promotion import defaults
from maquette.core.remembered import EPOCH
from maquette.dispatch import keysets as K
from maquette.dispatch.generated import generate
from maquette.dispatch.registry import find_packet
from maquette.fake.cache import REMEMBERED_RUNS
from maquette.fake.derivatives.recipes import FRESH, fresh_lines
from maquette.fake.derivatives.steps import is_ours, is_plain, may_note, plain_state, unlearnt
from maquette.fake.mode import ACTIVE, FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.library.infer import Outcome
from maquette.tensor.history import AutogradMeta, VersionCounter
from maquette.tensor.keys import fake_keys_for
from maquette.tensor.storage import OBSERVERS, UntypedStorage, new_storage
from maquette.tensor.tensor import Tensor

_BOUND = 16
"""How many runs are remembered, the newest: one of a large model's takes one or two MB."""
_FORMS = 4
"""How many of them begin alike."""
_MISSES = 16
"""How often in a row none of them may be what comes, until they are forgotten for good."""

_by_sequence = attrgetter("sequence")
_lock = threading.Lock()


class Turn(NamedTuple):
    """A node of a run, in the order in which they run.

    targets: for each link the number of a node, of a leaf as ``-1 - number``, None for no link.
    numbers: the outputs that the links lead to, where a node there has several. releases: 1
    where ``saved`` is let go, 2 where the node does that itself.
    """

    kind: type[Node]
    outline: Callable[[Node, object], tuple[Any, ...] | None]
    said: tuple[Any, ...]
    targets: tuple[int | None, ...]
    numbers: tuple[int, ...] | None
    releases: int


class Leaf(NamedTuple):
    """A leaf of a run: what it is, and the gradient that it gets. Leaves count from the end.

    make: makes a gradient over memory of its own. over: else the numbers of the memory, and of the
    counter of versions.
    """

    meta: TensorMeta
    keys: int
    make: Callable[[FakeTensorMode, Outcome], FakeTensor]
    grad: Outcome
    over: tuple[int, int | None] | None = None


class Known(NamedTuple):
    """A run that was seen; memory: bytes and device of what gradients are parts of."""

    turns: tuple[Turn, ...]
    leaves: tuple[Leaf, ...]
    memory: tuple[tuple[int, device], ...]
    versions: tuple[int, ...]


class Beginning:
    """The runs that begin at alike roots; ``misses`` counts others in a row."""

    __slots__ = ("forms", "misses")

    def __init__(self) -> None:
        self.forms: list[Known] = []
        self.misses = 0


def _known_run(run: Run, root: Node, grad: Grad) -> Callable[[], None] | None:
    """`KNOWN_RUN`: `DONE`, or what writes the run down at its end, or None."""
    if grad.__class__ is not FakeTensor:
        return None
    mode = grad.fake_mode
    # With symbols about, to compare may be to guard.
    if not isinstance(mode, FakeTensorMode) or mode.shape_env is not None:
        return None
    if not _is_unseen(run, mode):
        return None
    outline = root.__class__.outline
    said = None if outline is None else outline(root, mode)
    if said is None:
        return None
    since = EPOCH[0], defaults["float"]
    key = cast("tuple[Hashable, ...]", (*since, grad.meta, grad._keys, root.__class__, said))
    if not may_note(key, mode):
        return None
    beginning = REMEMBERED_RUNS.get(key)
    if beginning is None:
        if _sums_are_ours():
            _note((EPOCH[0], *key[1:]))  # to ask may load what it asks of
        return None
    for form in beginning.forms:
        found = _matched(form, root, mode)
        if found is not None:
            beginning.misses = 0
            _give(form, mode, *found, retain=run.retain_graph)
            return DONE
    return _to_learn(beginning, run, root, mode)


def _is_unseen(run: Run, mode: FakeTensorMode) -> bool:
    """Whether nobody could tell whether the nodes of a run ran."""
    st = run.state
    return (
        (st.effective is plain_state[0] or is_plain(st))
        and not OBSERVERS
        and (ACTIVE[0] is mode or ACTIVE[0] is None)
        and not run.anomaly
        and not run.listeners
        and not watch.hooks
    )


def _note(key: Hashable) -> None:
    """From now on runs that begin like this may be written down."""
    with _lock:
        while len(REMEMBERED_RUNS) >= _BOUND:
            del REMEMBERED_RUNS[next(iter(REMEMBERED_RUNS))]
        REMEMBERED_RUNS[key] = Beginning()


# --- a run that was seen -----------------------------------------------------------------------


def _matched(known: Known, root: Node, mode: FakeTensorMode) -> tuple[list[Any], list[Any]] | None:
    """The nodes and the leaves of a graph, if it is that of the known run; nothing is changed."""
    nodes: list[Any] = [None] * len(known.turns)
    leaves: list[Any] = [None] * len(known.leaves)
    nodes[0] = root
    last = root.sequence + 1
    i = 0
    for kind, outline, said, targets, numbers, _ in known.turns:
        node = nodes[i]
        i += 1
        # Ever earlier nodes are all different ones.
        if node.__class__ is not kind or node.hooks is not None or node.sequence >= last:
            return None
        last = node.sequence
        if outline(node, mode) != said:
            return None
        links = node.links
        if numbers is not None and links[1::3] != numbers:
            return None
        for target, at in zip(links[::3], targets):  # of equal length, or the outline differs
            if at is None:
                if target is not None:
                    return None
            elif at >= 0:
                if nodes[at] is None:
                    nodes[at] = target
                elif nodes[at] is not target:
                    return None
            elif leaves[at] is None:
                if target.__class__ is not AccumulateGrad:
                    return None
                leaves[at] = target
            elif leaves[at] is not target:
                return None
    for leaf, wanted in zip(leaves, known.leaves, strict=True):
        variable = leaf.variable
        alike = variable.meta is wanted.meta or variable.meta == wanted.meta
        if not alike or variable._keys != wanted.keys or not _is_usual_leaf(leaf, mode):
            return None
    return (nodes, leaves) if len(set(leaves)) == len(leaves) else None


def _is_usual_leaf(leaf: AccumulateGrad, mode: FakeTensorMode) -> bool:
    """Whether a leaf takes any gradient as it comes, and nobody is told."""
    variable = leaf.variable
    state = variable._ag
    return (
        leaf.hooks is None
        and variable.fake_mode is mode
        and state.__class__ is AutogradMeta
        and state.grad_fn is None
        and not state.post_accumulate_hooks
        and variable._base is None
        and bool(variable._keys & K.REQUIRES_GRAD)
    )


def _give(
    known: Known,
    mode: FakeTensorMode,
    nodes: Sequence[Any],
    leaves: Sequence[Any],
    *,
    retain: bool,
) -> None:
    """Give leaves their gradients, and have the nodes let go of what they saved."""
    if not retain:
        for node, turn in zip(nodes, known.turns, strict=True):
            if turn.releases == 1:
                node.saved = None
            elif turn.releases:
                node.release()
    memory = [new_storage(nbytes, where) for nbytes, where in known.memory]
    counters = [_counter(version) for version in known.versions]
    for leaf, (_, _, make, outcome, over) in zip(leaves, known.leaves, strict=True):
        state = leaf.variable._ag
        grad = make(mode, outcome)
        if over is not None:
            storage, counter = over
            grad._storage = memory[storage]
            grad._vc = None if counter is None else counters[counter]
        state.grad = grad if state.grad is None else accumulated(state.grad, grad)


def _counter(version: int) -> VersionCounter:
    counter = VersionCounter()
    counter.value = version
    return counter


# --- a run that is seen ------------------------------------------------------------------------


def _to_learn(
    beginning: Beginning, run: Run, root: Node, mode: FakeTensorMode
) -> Callable[[], None] | None:
    """What writes a run down at its end; None where that is not worth it, or cannot be."""
    beginning.misses += 1
    if beginning.misses > _MISSES:
        beginning.forms.clear()
        return None
    found = _graph(root, mode)
    if found is None:
        beginning.misses += _MISSES // 2  # what it is made of is seldom another
        return None
    turns, leaves = found
    if any(leaf.variable._ag.grad is not None for leaf in leaves):  # type: ignore[union-attr]  # a usual leaf
        return None
    since = EPOCH[0], unlearnt[0]

    def written() -> None:
        if run.remembered and since == (EPOCH[0], unlearnt[0]):
            known = _known(turns, leaves, mode)
            if known is not None:
                beginning.forms = [known, *beginning.forms[: _FORMS - 1]]

    return written


def _graph(root: Node, mode: FakeTensorMode) -> tuple[list[Turn], list[AccumulateGrad]] | None:
    """The nodes below a root in their order, and the leaves; None if one cannot be told of."""
    found: dict[Node, None] = {}
    leaves: dict[Node | None, int | None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node in found or node in leaves:
            continue
        if node.__class__ is AccumulateGrad:
            if not _is_usual_leaf(node, mode):
                return None
            leaves[node] = -1 - len(leaves)
        elif node is NOWHERE[0] or node.outline is None or node.hooks is not None:
            return None
        else:
            found[node] = None
            stack += [target for target in node.links[::3] if target is not None]
    order = sorted(found, key=_by_sequence, reverse=True)
    at: dict[Node | None, int | None] = {None: None}
    at.update(leaves)
    at.update({node: i for i, node in enumerate(order)})
    turns: list[Turn] = []
    shared: dict[Hashable, Any] = {}  # layers are alike: a third of the memory less
    for node in order:
        outline = node.__class__.outline
        said = None if outline is None else outline(node, mode)
        outline = node.__class__.outline  # the first call may have made it
        if said is None or outline is None:
            return None
        targets = tuple([at[target] for target in node.links[::3]])
        several = any(t in found and not t.plain for t in node.links[::3])
        numbers = node.links[1::3] if several else None
        try:
            said = shared.setdefault(said, said)
        except TypeError:  # what no key can say: its formulas run each time
            return None
        turns.append(Turn(node.__class__, outline, said, targets, numbers, _releases(node)))
    return turns, cast("list[AccumulateGrad]", list(reversed(leaves)))


def _releases(node: Node) -> int:
    if node.folded or not isinstance(node, OpNode):
        return 2
    return 1 if node.saves_tensors else 0


def _known(
    turns: Sequence[Turn], leaves: Sequence[AccumulateGrad], mode: FakeTensorMode
) -> Known | None:
    """A run whose leaves had no gradient before it, if of those nothing is known but metas."""
    found: list[Leaf] = []
    grads = [leaf.variable.grad for leaf in leaves]
    over = Counter([id(g._storage) for g in grads if g is not None])
    memory: dict[int, UntypedStorage] = {}
    counters: dict[int, VersionCounter] = {}
    for leaf, grad in zip(leaves, grads, strict=True):
        if grad is None or not _is_plain(grad, mode):
            return None
        variable, storage, counter = leaf.variable, grad._storage, grad._vc
        make = _maker(0 if counter is None else counter.value, hasattr(grad, "_viewed"))
        place = None
        if over[id(storage)] > 1 or storage._nbytes != grad.meta.storage_bytes:
            memory[id(storage)] = storage
            if counter is not None:
                counters[id(counter)] = counter
            number = None if counter is None else list(counters).index(id(counter))
            place = list(memory).index(id(storage)), number
        found.append(Leaf(variable.meta, variable._keys, make, Outcome(grad.meta), place))
    kinds = tuple([(storage._nbytes, storage.device) for storage in memory.values()])
    versions = tuple([counter.value for counter in counters.values()])
    return Known(tuple(turns), tuple(found), kinds, versions)


def _is_plain(grad: Tensor, mode: FakeTensorMode) -> bool:
    """Whether nothing is known of a gradient but its meta, memory and version."""
    fake = grad.__class__ is FakeTensor and grad.fake_mode is mode and grad.constant is None
    usual = grad.meta.layout is strided and grad._keys == fake_keys_for(grad.meta)
    return fake and usual and not grad.__dict__ and grad._base is None and grad._ag is None


def _maker(version: int, viewed: bool) -> Callable[[FakeTensorMode, Outcome], FakeTensor]:
    """A function that makes gradients of which only the meta differs."""
    found = _MAKERS.get((version, viewed))
    if found is None:
        made = fresh_lines("_t", "_o", version, viewed=viewed)
        source = "\n    ".join(["def _make(_m, _o):", *made, "return _t"]) + "\n"
        found = _MAKERS[version, viewed] = generate(source, "_make", "gradients", dict(FRESH))
    return found


_MAKERS: dict[tuple[int, bool], Callable[[FakeTensorMode, Outcome], FakeTensor]] = {}


_OF_THE_ENGINE = (
    ("add", "Tensor"), ("add_", "Tensor"), ("clone", "default"), ("contiguous", "default"),
    ("copy_", "default"), ("new_empty_strided", "default"), ("sum", "default"),
    ("sum", "dim_IntList"), ("to", "dtype"), ("view", "default"),
)  # fmt: skip


def _sums_are_ours() -> bool:
    """Whether what the engine itself calls, for sums and leaves, is a function of metas."""
    packets = [(find_packet(f"aten::{name}"), overload) for name, overload in _OF_THE_ENGINE]
    return all(is_ours(getattr(packet, overload)) for packet, overload in packets)


KNOWN_RUN[0] = _known_run
