"""A block: what one run of a module did, ready to be done again for an equal call.

`record_block` runs the call and reads off what it made, saved and let go of; it refuses
(`Unreadable`, with the reason) where another run might differ in something that the key of the call
does not tell. `Block.replay_for` does the same again on the tensors of an equal call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.autograd.node import Edge, next_sequence, set_history
from maquette.core.meta import TensorMeta
from maquette.dispatch.tls import tls
from maquette.fake.replay.graph import Link, edges_of, inside, links_out, saved_by
from maquette.fake.replay.node import BlockNode
from maquette.fake.replay.rerun import plain_of, writes_to
from maquette.fake.replay.results import flat, rebuilt
from maquette.fake.replay.tape import Event, Fresh, Storages, Watch, play
from maquette.fake.replay.values import Reader, Unreadable
from maquette.fake.tensor import FakeTensor, make_fake
from maquette.tensor.storage import UntypedStorage, observe_allocations
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.replay.replay import BlockReplay
    from maquette.fake.replay.rerun import BackwardTape
    from maquette.fake.replay.results import Call


class Given(NamedTuple):
    """A tensor of the call: its meta, keys and storage, by number among those of the call."""

    meta: TensorMeta
    keys: int
    shared: int
    nbytes: int


class Block:
    """What a run of a module did.

    outputs: for each tensor of the result a `Fresh` one, or the number of the call's tensor that
    it is; shape: of the result. links: the edges that lead out. saved: the numbers of the
    storages, and saved_given of the call's tensors, that backward needs. given: all tensors
    of the call, own: the numbers of its arguments. events: empty where nobody watches; sizes: of
    the results' storages; count: of all storages.
    nodes: how many a run makes. code, training: what must be as it was, to run it again.
    """

    def __init__(self, replay: BlockReplay) -> None:
        self.replay = replay
        self.outputs: list[Fresh | int] = []
        self.shape: object = None
        self.links: list[Link] = []
        self.label = ""
        self.histories = 0
        self.saved: frozenset[int] = frozenset()
        self.saved_given: list[int] = []
        self.given: list[Given] = []
        self.own: list[int] = []
        self.events: list[Event] = []
        self.sizes: dict[int, tuple[int, Any]] = {}
        self.count = 0
        self.there: object = None
        st = tls.st
        self.sets = (st.include, st.exclude)
        self.nodes = 0
        self.code: list[object] = []
        self.plain: list[dict[str, object]] = []
        self.backward: dict[tuple[object, ...], BackwardTape | None] = {}

    def replay_for(self, tensors: Sequence[FakeTensor], call: Call) -> object:
        """The result of an equal call with these tensors, as if it had run."""
        replay = self.replay
        made: Storages = {}
        witness = replay.witness()
        here = None if witness is None else witness.here()
        if self.events:
            play(self.events, made, witness, self.there, here)
        else:
            made = {n: UntypedStorage(size, on) for n, (size, on) in self.sizes.items()}
        node = BlockNode(self, tensors, call, here) if self.histories else None
        results: list[Tensor] = []
        for out in self.outputs:
            if out.__class__ is int:
                results.append(tensors[out])
                continue
            storage, meta, keys, version, output = out  # type: ignore[misc]  # by its class
            t = make_fake(replay.mode, meta, made[storage], keys)
            if version:
                t._version_counter().value = version
            if output >= 0:
                set_history(t, node, output)  # type: ignore[arg-type]  # there are histories
                if storage in self.saved:
                    node.checks.append((t._version_counter(), version))  # type: ignore[union-attr]
            results.append(t)
        if node is not None and self.events:
            # A graph that is dropped lets go of what it saved last first.
            node.storages = {n: made[n] for n in sorted(self.saved, reverse=True)}
        return rebuilt(self.shape, results)


def record_block(
    replay: BlockReplay,
    module: object,
    read: Callable[[], Reader],
    before: Reader,
    arguments: list[int],
    run: Callable[[], object],
) -> tuple[object, Block | str]:
    """Run a call, whose values ``before`` has read; its result, and the block or why there is none.

    read: reads the call's values again. arguments: the numbers of the
    tensors among the call's own arguments.
    """
    tensors = before.tensors
    block = Block(replay)
    witness = replay.witness()
    block.there = None if witness is None else witness.here()
    edges = edges_of(tensors) if tls.st.grad_enabled else {}
    versions = [writes_to(t) for t in tensors]
    facts = replay.outer_facts()
    first = next_sequence()
    watch = Watch(0, witness)
    with observe_allocations(watch):
        result = run()
    try:
        for name, value in replay.outer_facts().items():
            _check(facts[name] == value, name)
        _check(watch.strange is None, watch.strange or "")
        _check([writes_to(t) for t in tensors] == versions, "a tensor of the call was written to")
        again = read()
        same = again.key == before.key and again.facts == before.facts
        _check(same, "Python state changed")
        block.code, block.plain = before.key, plain_of(again.objects)
        _describe_given(block, tensors, arguments)
        outputs: list[Tensor] = []
        block.shape = flat(result, outputs)
        _describe_graph(block, outputs, tensors, edges, watch, first)
        _describe_outputs(block, outputs, tensors, watch)
        kept = watch.alive() - block.saved - block.sizes.keys()
        _check(not kept, "a tensor was kept")
        del outputs
        block.count = len(watch.numbers)
        block.events = watch.told() if replay.is_observed() else []
    except Unreadable as why:
        return result, str(why)
    finally:
        watch.numbers = {}
    return result, block


def _check(condition: bool, reason: str) -> None:
    if not condition:
        raise Unreadable(reason)


def _describe_given(block: Block, tensors: Sequence[FakeTensor], numbers: list[int]) -> None:
    ids = [id(t._storage) for t in tensors]
    others = {ids[i] for i in range(len(tensors)) if i not in numbers}
    for i in numbers:
        _check(ids[i] not in others, "an argument shares memory with the module")
    for t, storage in zip(tensors, ids, strict=True):
        block.given.append(Given(t.meta, t._keys, ids.index(storage), t._storage.nbytes()))
    block.own = sorted(set(numbers))


def _describe_graph(
    block: Block,
    outputs: Sequence[Tensor],
    tensors: Sequence[Tensor],
    edges: dict[Edge, int],
    watch: Watch,
    first: int,
) -> None:
    """Read off the nodes of the outputs where they lead, and what they saved."""
    roots = [t.grad_fn for t in outputs if t.grad_fn is not None]
    nodes = inside(roots, first)
    if not nodes:
        return
    block.nodes = len(nodes)
    block.links = links_out(nodes, tensors, edges)
    block.label = roots[0].name()
    given = {id(t._storage): i for i, t in reversed(list(enumerate(tensors)))}
    saved: set[int] = set()
    saved_given: set[int] = set()
    for t in saved_by(nodes):
        number = watch.numbers.get(t._storage.id)
        if number is not None:
            saved.add(number)
        elif id(t._storage) in given:
            saved_given.add(given[id(t._storage)])
        else:
            raise Unreadable("a tensor from outside the call")
    block.saved = frozenset(saved)
    block.saved_given = sorted(saved_given)


def _describe_outputs(
    block: Block, outputs: Sequence[Tensor], tensors: Sequence[Tensor], watch: Watch
) -> None:
    known = {id(t): i for i, t in enumerate(tensors)}
    seen: set[int] = set()
    for t in outputs:
        if id(t) in known:
            block.outputs.append(known[id(t)])
            continue
        storage = t._storage
        number = watch.numbers.get(storage.id)
        _check(t.__class__ is FakeTensor and t.constant is None, "a result that is no plain fake")
        _check(number is not None, "a view of what it was given is a result")
        assert number is not None
        _check(t._base is None and number not in seen, "a view is a result")
        seen.add(number)
        output = -1
        if t.grad_fn is not None:
            output, block.histories = block.histories, block.histories + 1
        block.outputs.append(Fresh(number, t.meta, t._keys, writes_to(t), output))
        block.sizes[number] = (storage.nbytes(), storage.device)
