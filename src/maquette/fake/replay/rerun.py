"""Blocks run again for their backward, and the tapes that are made of it.

A replayed block left a `BlockNode` with what its own nodes would have saved. Here the block is run
again, unseen, over storages of its own; each stands for the storage that the node holds, and keeps
it alive as long as the nodes that the run made keep theirs. So memory is let go of just when it
would have been, and by watching the stand-ins a tape learns when that is, whoever else may hold
the storages themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.autograd.engine import Run
from maquette.autograd.node import (
    NOWHERE,
    AccumulateGrad,
    Edge,
    Grad,
    Node,
    grad_edge,
    next_sequence,
    set_history,
)
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.fake.replay.graph import inside
from maquette.fake.replay.results import flat, rebuilt
from maquette.fake.replay.tape import Event, Watch
from maquette.fake.replay.values import PLAIN, Places, Reader
from maquette.fake.tensor import FakeTensor, make_fake
from maquette.tensor.storage import UntypedStorage, observe_allocations, observers_paused
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import make_view

if TYPE_CHECKING:
    from maquette.fake.mode import FakeTensorMode
    from maquette.fake.replay.node import BlockNode

_STANDS_FOR = "_stands_for"  # attribute of a storage: the one in whose place it is


class Answer(NamedTuple):
    """The gradient of one link: over a storage of the tape, or of incoming gradient ``came``.

    came: -1 for a storage of the tape. itself: whether it is that gradient. writes: to it.
    """

    meta: TensorMeta
    keys: int
    storage: int
    came: int
    itself: bool
    writes: int


class BackwardTape(NamedTuple):
    """What a backward of a block does, and the gradients it gives, in the order of its links.

    sizes: of the storages to make where nobody watches, so that there are no events.
    """

    events: list[Event]
    answers: list[Answer | None]
    sizes: dict[int, tuple[int, Any]]
    there: Any


def expanded(node: BlockNode, watch: Watch | None = None) -> tuple[list[Edge], list[Node]]:
    """The block run again unseen: the nodes of its outputs, and all its nodes, latest first.

    watch: is told when the nodes let go of what they saved.
    """
    block = node.block
    stand_in = _StandIns(node, watch)
    module, args, kwargs, modules = node.call
    values: dict[int, Any] = {number: stand_in(number) for number in block.own}
    values.update((-1 - i, given) for i, given in enumerate(modules))
    args, kwargs = rebuilt(args, values), rebuilt(kwargs, values)
    seen = Watch(0, None)
    witness = block.replay.witness()
    shadow = None if witness is None else witness.shadow(node.here)
    with _as_it_was(node, module, args, kwargs, stand_in), block.replay.unseen(block, shadow):
        with observe_allocations(seen):
            first = next_sequence()
            result = module(*args, **kwargs)
    outputs: list[Tensor] = []
    flat(result, outputs)
    roots: list[Edge] = []
    for t, made in zip(outputs, block.outputs, strict=True):
        if not isinstance(made, int) and made.output >= 0:
            assert t.grad_fn is not None
            roots.append((t.grad_fn, t.output_nr))
    for number in block.saved:
        private = seen.made[number]()
        if private is not None:
            _stand_for(private, node.storages.get(number), number, watch)
    seen.numbers = {}
    nodes = inside([n for n, _ in roots], first)
    for number, one in enumerate(reversed(nodes)):
        one.sequence = node.first + number
    return roots, nodes


def _stand_for(
    private: UntypedStorage, storage: UntypedStorage | None, number: int, watch: Watch | None
) -> None:
    """Have ``private`` keep ``storage``, and a watch be told under ``number`` when it goes."""
    vars(private)[_STANDS_FOR] = storage
    if watch is not None:
        weakref.finalize(private, watch.let_go, number).atexit = False


class _StandIns:
    """Makes tensors like those of the call, over storages of their own, with their histories."""

    def __init__(self, node: BlockNode, watch: Watch | None) -> None:
        self._node = node
        self._watch = watch
        links = node.links
        numbers = [link.number for link in node.block.links]
        self.edges = {n: (links[3 * i], links[3 * i + 1]) for i, n in enumerate(numbers)}
        self._storages: dict[int, UntypedStorage] = {}

    def __call__(self, number: int) -> FakeTensor:
        block, given = self._node.block, self._node.block.given[number]
        storage = self._storages.get(given.shared)
        if storage is None:
            with observers_paused():
                storage = UntypedStorage(given.nbytes, given.meta.device)
            self._storages[given.shared] = storage
        held = self._node.given.get(number)
        if held is not None:
            _stand_for(storage, held._storage, number_of_given(number), self._watch)
        t = make_fake(block.replay.mode, given.meta, storage, given.keys & ~K.REQUIRES_GRAD)
        if given.keys & K.REQUIRES_GRAD:
            target, output = self.edges.get(number, NOWHERE)
            set_history(t, target, output)
        return t


def writes_to(t: Tensor) -> int:
    """How often a tensor was written to; 0 for inference tensors, which nobody counts for."""
    return 0 if t._vc is None else t._vc.value


def plain_of(objects: Sequence[dict[str, Any]]) -> list[dict[str, object]]:
    """The attributes of objects that are plain values: flags, numbers, texts."""
    return [{n: v for n, v in o.items() if v.__class__ in PLAIN} for o in objects]


@contextmanager
def _as_it_was(
    node: BlockNode, module: Any, args: object, kwargs: object, stand_in: _StandIns
) -> Iterator[None]:
    """The module with the plain attributes and histories of parameters that it was called with.

    A loss of transformers, for one, writes what kind it is into the configuration that all layers
    have. RuntimeError if the module has been changed since in other ways.
    """
    block = node.block
    swapped: list[tuple[dict[str, Any], str, object]] = []

    def swap(attributes: dict[str, Any], name: str, value: object) -> None:
        swapped.append((attributes, name, attributes[name]))
        attributes[name] = value

    def read(places: Places) -> Reader:
        reader = Reader(block.replay.mode, places)
        for value in (args, kwargs, module):
            reader.read(value)
        return reader

    try:
        places: Places = {}
        reader = read(places)
        if reader.key != block.code:
            for attributes, plain in zip(reader.objects, block.plain):
                now = plain_of([attributes])[0]
                for name in plain.keys() & now.keys():
                    if now[name] != plain[name]:
                        swap(attributes, name, plain[name])
            places = {}
            reader = read(places)
        if reader.key != block.code:
            raise RuntimeError(
                f"{type(module).__name__} was changed between a forward that was replayed and its "
                f"backward, which therefore cannot be told; run backward first, or the forward "
                f"outside of replaying()"
            )
        for number, owners in places.items():
            t = reader.tensors[number]
            if t._keys & K.REQUIRES_GRAD and grad_edge(t) != stand_in.edges.get(number):
                other = stand_in(number)
                for attributes, name in owners:
                    swap(attributes, name, other)
        yield
    finally:
        for attributes, name, value in reversed(swapped):
            attributes[name] = value


def number_of_given(number: int) -> int:
    """Under which number a tape lets go of tensor ``number`` of the call."""
    return -2 - 2 * number


def number_of_grad(number: int) -> int:
    """Under which number a tape lets go of the incoming gradient ``number``."""
    return -1 - 2 * number


def run_from(run: Run, roots: list[Edge], nodes: list[Node], grads: list[Grad]) -> None:
    """Run nodes within a run of the engine, whose roots get ``grads``, which is emptied."""
    for (node, output), grad in zip(roots, grads, strict=True):
        if grad is not None:
            run.deposit(node, output, grad)
        del grad
    grads.clear()
    needed = run.needed
    if needed is not None:
        for node in reversed(nodes):
            if any(t in needed or t in run.captures for t in node.links[::3]):
                needed.add(node)
    run.run_nodes(nodes)


# --- tapes ---------------------------------------------------------------------------------------


class Came:
    """An incoming gradient while a tape is made.

    Where somebody watches, one that stands for it takes its place among ``grads``, held by as many
    others as it is, so that the same is done with it.
    """

    __slots__ = ("_holders", "_ref", "_storage", "version")

    def __init__(
        self,
        grads: list[Grad],
        number: int,
        holders: tuple[bool, bool, bool],
        watch: Watch | None,
        mode: FakeTensorMode,
    ) -> None:
        grad = grads[number]
        assert grad is not None
        self._holders: list[object] = []
        if watch is not None:
            with observers_paused():
                storage = UntypedStorage(grad._storage.nbytes(), grad.meta.device)
            _stand_for(storage, grad._storage, number_of_grad(number), watch)
            stand_in = make_fake(mode, grad.meta, storage, grad._keys)
            ours, storage_ours, whole = holders
            if not whole:
                make_view(stand_in, make_fake(mode, grad.meta, storage, grad._keys))
            elif not storage_ours:
                self._holders.append(storage)
            if not ours:
                self._holders.append(stand_in)
            grad = grads[number] = stand_in
        self.version = writes_to(grad)
        self._ref = weakref.ref(grad)
        self._storage = weakref.ref(grad._storage)

    def is_storage_of(self, t: Tensor) -> bool:
        """Whether a tensor lies over the gradient's storage."""
        return self._storage() is t._storage

    def is_it(self, t: Tensor) -> bool:
        """Whether a tensor is the gradient."""
        return self._ref() is t


def taped(
    node: BlockNode, run: Run, came: Sequence[Came | None], watch: Watch | None
) -> BackwardTape | None:
    """The tape of what was run for ``node``; None if a gradient lies over memory it cannot name."""
    events = [] if watch is None else watch.told()
    numbers: dict[int, int] = {} if watch is None else watch.numbers
    sizes: dict[int, tuple[int, Any]] = {}
    answers: list[Answer | None] = []
    tellable = True
    for target, output in zip(node.links[::3], node.links[1::3], strict=True):
        t = _gradient_at(target, output, run)
        if t is None:
            answers.append(None)
            continue
        storage = t._storage
        source = next((i for i, c in enumerate(came) if c is not None and c.is_storage_of(t)), -1)
        number = -1
        if source < 0:
            known = numbers.get(storage.id)
            tellable = tellable and (watch is None or known is not None)
            number = storage.id if known is None else known
            sizes[number] = (storage.nbytes(), storage.device)
        one = came[source] if source >= 0 else None
        itself = one is not None and one.is_it(t)
        if one is not None and watch is not None:
            t._storage = vars(storage)[_STANDS_FOR]
        writes = writes_to(t) - (one.version if one is not None and itself else 0)
        answers.append(Answer(t.meta, t._keys, number, source, itself, writes))
        del t, storage
    if watch is not None:
        watch.numbers = {}
    there = node.here
    return BackwardTape(events, answers, sizes, there) if tellable else None


def _gradient_at(target: Node, output: int, run: Run) -> Tensor | None:
    """What has been handed to the end of an edge."""
    if target.__class__ is AccumulateGrad:
        ag = target.variable._ag
        return None if ag is None else ag.grad
    held: Any = run.buffers.get(target)
    found: Tensor | None = held if held is None or target.plain else held[output]
    return found
