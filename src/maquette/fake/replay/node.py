"""The backward node of a replayed block: one node that stands for all those of a run.

Its first backward runs the block again, unseen, on stand-ins for what it was called with, and then
the nodes of that run in its own place, while a tape is made of what they do (`BackwardTape`). Later
nodes of equal blocks play the tape. Where more than a plain backward is asked for (gradients that
are there already, a graph that is kept, gradients of gradients), the nodes are run each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from maquette.autograd.engine import Run, current_run
from maquette.autograd.node import (
    NOWHERE,
    AccumulateGrad,
    Edge,
    Grad,
    Node,
    grad_edge,
    linked,
    raise_modified,
    reserve,
)
from maquette.core.ownership import held_only
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls
from maquette.fake.replay.graph import edges_to_leaves
from maquette.fake.replay.rerun import BackwardTape, Came, expanded, run_from, taped
from maquette.fake.replay.tape import Storages, Watch, play
from maquette.fake.tensor import FakeTensor, make_fake
from maquette.tensor.history import VersionCounter
from maquette.tensor.storage import UntypedStorage, observe_allocations

if TYPE_CHECKING:
    from maquette.fake.replay.block import Block
    from maquette.fake.replay.results import Call

_UNKNOWN: Any = object()


class BlockNode(Node):
    """Stands for the nodes of a block that was not run; see the module.

    ``given`` are the call's tensors that the block saved, ``storages`` what else it saved,
    ``checks`` the version counters of results that it saved, each with the value that it had.
    Once its nodes have been run to be kept it only passes on to them (``passes``).
    """

    __slots__ = (
        "block", "call", "checks", "first", "freed", "given", "here", "passes", "storages",
        "versions",
    )  # fmt: skip

    steps: ClassVar[bool] = True

    def __init__(
        self, block: Block, tensors: Sequence[FakeTensor], call: Call, here: object
    ) -> None:
        st, witness = tls.st, block.replay.witness()
        context = st.node_context
        flat_links: list[object] = []
        for number, meta, made_at in block.links:
            if made_at is not None and witness is not None:
                st.node_context = witness.moved(made_at, block.there, here)
            node, output = grad_edge(tensors[number]) or NOWHERE
            flat_links += (node, output, meta)
        st.node_context = context
        self.links = tuple(flat_links)
        # Its nodes would have had these numbers, and have them if they come to be.
        self.first = reserve(block.nodes + 1)
        self.sequence = self.first + block.nodes
        self.context = context
        self.hooks = None
        self.block = block
        self.call = call
        self.here = here
        self.storages: Storages = {}
        self.given = {number: tensors[number] for number in block.saved_given}
        vcs = [t._vc for t in self.given.values()]
        self.versions = [0 if vc is None else vc.value for vc in vcs]
        self.checks: list[tuple[VersionCounter, int]] = []
        self.freed = False
        self.passes = False

    def output_count(self) -> int:
        return self.block.histories

    def name(self) -> str:
        return self.block.label

    def release(self) -> None:
        # What the block's nodes would let go of only when they end stays in `storages`.
        self.freed = not self.passes
        self.given = {}
        self.versions = []

    # --- in the engine ---------------------------------------------------------------

    def step(self, held: Any, buffers: dict[Node, object], run: Run) -> None:
        """Take the gradients of the outputs and hand on those of the links."""
        grads: list[Grad] = held or []
        held = None
        if self.passes:
            run.hand_on(self, grads)
            return
        if all(g is None for g in grads):
            run.pass_by(self)
            return
        self._check()
        key = self._key(grads) if self._is_plain(run) else None
        tape = None if key is None else self.block.backward.get(key, _UNKNOWN)
        if tape is None:
            self._run_nodes(grads, run)
        elif tape is _UNKNOWN:
            self._record(key, grads, run)
        else:
            self._play(tape, grads, run)
        if not run.retain_graph:
            self.release()

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        """As `step`, where more is asked for: the gradients are handed on already."""
        if self.passes:
            return list(grads)
        run = current_run()
        assert run is not None
        if any(g is not None for g in grads):
            self._check()
            given = list(grads)
            if not run.anomaly:
                grads.clear()  # whoever holds them keeps sums from being made in place
            self._run_nodes(given, run)
            if not self.passes:
                self.links = ()
        return [None] * (len(self.links) // 3)

    def _check(self) -> None:
        """RuntimeError if what the block saved has been freed or written to."""
        if self.freed:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(). Specify "
                "retain_graph=True if you need to backward through the graph a second time or if "
                "you need to access saved tensors after calling backward."
            )
        for t, version in zip(self.given.values(), self.versions, strict=True):
            if (0 if t._vc is None else t._vc.value) != version:
                raise_modified(t, t.grad_fn, t.output_nr, version)
        for counter, version in self.checks:
            if counter.value != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: an output of {self.name()} is at version {counter.value}; "
                    f"expected version {version} instead. Clone the tensor before writing to it."
                )

    def _is_plain(self, run: Run) -> bool:
        """Whether this backward is like the one that a tape has been made of, or can be."""
        if run.retain_graph or run.create_graph or not run.accumulate:
            return False
        links, buffers, arrivals = self.links, run.buffers, run.arrivals
        for i in range(0, len(links), 3):
            target = links[i]
            if target.__class__ is AccumulateGrad:
                leaf = target.variable
                ag = leaf._ag
                if (
                    arrivals[target] != 1
                    or target in buffers
                    or target.hooks is not None
                    or ag is None
                    or ag.grad is not None
                    or ag.grad_fn is not None
                    or ag.post_accumulate_hooks
                    or not leaf._keys & K.REQUIRES_GRAD
                ):
                    return False
            elif target in buffers and (target.plain or buffers[target][links[i + 1]] is not None):  # type: ignore[index]  # a list
                return False
        return True

    def _key(self, grads: list[Grad]) -> tuple[object, ...]:
        st = tls.st
        metas = [None if g is None else g.meta for g in grads]
        return (*metas, *_holders(grads), st.include, st.exclude, *self.block.replay.audience())

    # --- played ----------------------------------------------------------------------

    def _play(self, tape: BackwardTape, grads: list[Grad], run: Run) -> None:
        block, replay = self.block, self.block.replay
        replay.count("backward_replayed")
        made = self.storages
        if tape.events:
            made = _Letting(made, grads, self.given)
            self.storages = {}  # `made` alone holds them, while the tape lets go of them
            play(tape.events, made, replay.witness(), tape.there, self.here)
            self.storages = {n: s for n, s in made.items() if n < block.count}
        else:
            made = {n: UntypedStorage(size, on) for n, (size, on) in tape.sizes.items()}
        mode, links = replay.mode, self.links
        for i, answer in enumerate(tape.answers):
            target = links[3 * i]
            if answer is None:
                if target.__class__ is AccumulateGrad:
                    run.arrived(target)
                continue
            meta, keys, number, source, itself, writes = answer
            came = grads[source] if source >= 0 else None
            if itself:
                assert came is not None
                grad = came
                if writes:
                    grad._version_counter().value += writes
            else:
                storage = made[number] if came is None else came._storage
                grad = make_fake(mode, meta, storage, keys)
                if writes:
                    grad._version_counter().value = writes
                del storage
            del came
            if target.__class__ is AccumulateGrad:  # all that the engine would do with it
                run.arrivals[target] = 0
                target.variable._autograd().grad = grad
            else:
                run.deposit(target, links[3 * i + 1], grad)
            del grad

    # --- run -------------------------------------------------------------------------

    def _run_nodes(self, grads: list[Grad], run: Run) -> None:
        """Run the block again and its nodes in the place of this one."""
        self.block.replay.count("expanded")
        roots, nodes = expanded(self)
        self.storages, self.given, self.versions = {}, {}, []
        self._run_in_place(run, roots, nodes, grads)
        if run.retain_graph or run.create_graph:
            self.passes = True
            self.links = linked(roots, [None] * len(roots))

    def _run_in_place(
        self, run: Run, roots: list[Edge], nodes: list[Node], grads: list[Grad]
    ) -> None:
        """Run nodes whose leaves wait for one gradient of this node."""
        counts = edges_to_leaves(nodes)
        for leaf in self.links[::3]:
            if leaf.__class__ is AccumulateGrad:
                count = counts.pop(leaf, 0)
                if count:
                    run.arrivals[leaf] += count - 1
                else:
                    run.arrived(leaf)
        run_from(run, roots, nodes, grads)

    def _record(self, key: Any, grads: list[Grad], run: Run) -> None:
        """Run the nodes, and make a tape of what they do."""
        block, replay = self.block, self.block.replay
        replay.count("backward_recorded")
        watch = Watch(block.count, replay.witness()) if replay.is_observed() else None
        roots, nodes = expanded(self, watch)
        self.storages, self.given, self.versions = {}, {}, []
        holders = _holders(grads)
        came = [
            None if h is None else Came(grads, i, h, watch, replay.mode)
            for i, h in enumerate(holders)
        ]
        if watch is None:
            self._run_in_place(run, roots, nodes, grads)
        else:
            with observe_allocations(watch):
                self._run_in_place(run, roots, nodes, grads)
        roots.clear()
        nodes.clear()
        block.backward[key] = taped(self, run, came, watch)


def _holders(grads: list[Grad]) -> list[tuple[bool, bool, bool] | None]:
    """Who else holds each gradient: sums may be made in the place of what is ours alone."""
    return [
        None if g is None else (held_only(g, 2), held_only(g._storage, 1), g._base is None)
        for g in grads
    ]


class _Letting(dict[int, UntypedStorage]):
    """Storages by number, whose negative numbers are of gradients and tensors to let go of."""

    def __init__(self, storages: Storages, grads: list[Grad], given: dict[int, FakeTensor]) -> None:
        super().__init__(storages)
        self._grads = grads
        self._given = given

    def pop(self, number: int, default: Any = None) -> Any:
        if number >= 0:
            return super().pop(number, default)
        which, is_given = divmod(-1 - number, 2)
        if is_given:
            self._given.pop(which, None)
        else:
            self._grads[which] = None
        return default
