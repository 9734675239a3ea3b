"""The engine: runs the backward graph from the outputs, latest operation first.

Nodes are run in decreasing order of their sequence number, as PyTorch does, so that gradients die
as early as theirs and the peak of memory is comparable. Since an edge leads to an earlier node,
that order is simply the sorted one, and a node's gradients are complete when its turn comes; only
leaves, which are to have theirs as soon as it is complete, are counted for. Gradients that meet are
added, in place where nobody else holds the first. Leaf accumulation takes the gradient itself where
nobody else holds it.
"""

from __future__ import annotations

import functools
import itertools
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

from maquette.autograd.anomaly import apply_checked, is_anomaly_enabled
from maquette.autograd.hooks import run_after, run_before, run_prehooks, run_tensor_hooks
from maquette.autograd.node import NOWHERE, AccumulateGrad, Edge, Grad, Node
from maquette.autograd.saved.hooks import watch
from maquette.core.layout import sparse_coo, strided
from maquette.core.meta import TensorMeta
from maquette.core.ownership import held_only
from maquette.core.ranges import BACKWARD, RangeListener, begin_range, end_range, listeners
from maquette.core.remembered import remembered
from maquette.core.strides import Shape
from maquette.core.symbols import alike, expect_true, is_true
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import WATCHED
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import OverridingSwitch
from maquette.tensor.history import AutogradMeta, TypedLeaf
from maquette.tensor.sparse import CooParts, SparseStorage
from maquette.tensor.tensor import Tensor

OURS = 3  # who holds a gradient while the engine asks: locals of three functions that hand it down
_OF_LEAF = 2  # and while it asks for a leaf
_TARGETS = slice(None, None, 3)  # of a node's links
_by_sequence = attrgetter("sequence")


def _latest_first(node: Node) -> int:
    return -node.sequence


_next_number = itertools.count().__next__
_EVALUATION = "autograd::engine::evaluate_function: "  # how profilers name a node's turn


def run_backward(
    roots: Sequence[Edge],
    root_grads: Sequence[Grad],
    *,
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Edge] | None = None,
    accumulate: bool = True,
    own_leaves: bool = False,
) -> list[Grad]:
    """Run backward from ``roots``; the gradients that arrive at ``wanted`` edges, in order.

    With ``accumulate`` leaves get their ``.grad``; else nothing but the answer changes. own_leaves:
    the leaves are the caller's own, so gradients with a history are given to them uncopied.
    """
    runs = _active.runs
    if len(runs) % _DEPTH == _DEPTH - 1 and runs[-1].__class__ is not _Deeper:
        return _deeper(
            lambda: run_backward(
                roots,
                root_grads,
                retain_graph=retain_graph,
                create_graph=create_graph,
                wanted=wanted,
                accumulate=accumulate,
                own_leaves=own_leaves,
            )
        )
    run = Run(roots, wanted, retain_graph, create_graph, accumulate, own_leaves)
    usual = len(roots) == 1 and wanted is None and accumulate and not create_graph
    known = KNOWN_RUN[0] if usual else None
    st = tls.st
    sets = st.sets()
    hooks_before = watch.hooks
    hooked = bool(hooks_before)
    if hooked:
        watch.hooks = [*hooks_before]  # what backward adds to them or takes away ends with it
    context_before = st.node_context
    runs.append(run)
    try:
        if create_graph is not sets[2]:
            st.set_grad_enabled(create_graph)
        run.overriding.off()
        answer = None if known is None else known(run, roots[0][0], root_grads[0])
        if answer is not DONE:
            run.begin(roots)
            for (node, number), grad in zip(roots, root_grads, strict=True):
                run.deposit(node, number, grad)
            run.through()
            if answer is not None:
                answer()
        run.overriding.on()
        while run.callbacks:
            run.callbacks.pop(0)()
    finally:
        runs.pop()
        run.overriding.on()
        st.node_context = context_before
        if hooked:
            watch.hooks = hooks_before
        elif hooks_before:
            hooks_before.clear()
        try:
            st.put_back(sets)
        except BaseException:  # an interrupt that came at this very moment
            st.put_back(sets)
            raise
    return run.found


def DONE() -> None:  # a constant
    """Says of a run that all of it is done; else what is to be called at its end."""


# Gives the leaves below a root what a run over the same graph gave others before, if it was seen,
# and answers `DONE`; a higher layer fills it in. It is asked before anything of the run is done.
KNOWN_RUN: list[Callable[[Run, Node, Grad], Callable[[], None] | None] | None] = [None]


# --- runs within runs ----------------------------------------------------------------------------


class _Deeper:
    """Marks, among the active runs, where they go on in a thread of their own."""


class _Active(threading.local):
    """The runs of the engine that are under way in a thread, innermost last."""

    def __init__(self) -> None:
        self.runs: list[Run | _Deeper] = []


_active = _Active()
_DEPTH = 24  # runs within runs in one thread: each takes about 15 of Python's 1,000 frames


def current_run() -> Run | None:
    """The innermost run of the engine in this thread; None outside of backward."""
    runs = _active.runs
    return runs[-1] if runs and isinstance(runs[-1], Run) else None


def joined(node: Node, others: Sequence[Node]) -> None:
    """Have the runs that are under way in this thread run the nodes that ``node`` stood for."""
    for run in _active.runs:
        if isinstance(run, Run):
            run.join(node, others)


def queue_callback(callback: Callable[[], None]) -> None:
    """Call ``callback`` at the end of the backward that is under way; else RuntimeError."""
    run = current_run()
    if run is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    run.callbacks = [*(run.callbacks or ()), callback]


def _deeper(work: Callable[[], list[Grad]]) -> list[Grad]:
    """Run a backward in a thread with a stack of its own, in this thread's state, and wait."""
    runs, st, watching = [*_active.runs, _Deeper()], tls.st, vars(watch)
    answer: list[list[Grad]] = []
    errors: list[BaseException] = []

    def run() -> None:
        tls.st, _active.runs = st, runs
        vars(watch).update(watching)
        try:
            answer.append(work())
        except BaseException as error:  # noqa: BLE001  # raised where the thread was started
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answer[0]


# --- a run ---------------------------------------------------------------------------------------


class Run:
    """One run of the engine.

    ``buffers`` has the gradients that wait for their node's turn: the gradient itself for nodes
    that are `plain` and for leaves, else a list with one for each output.
    """

    __slots__ = (
        "accumulate", "anomaly", "arrivals", "buffers", "callbacks", "captures", "complete",
        "create_graph", "found", "listeners", "needed", "node", "number", "order", "overriding",
        "own_leaves", "remembered", "retain_graph", "state", "turn",
    )  # fmt: skip

    def __init__(
        self,
        roots: Sequence[Edge],
        wanted: Sequence[Edge] | None,
        retain_graph: bool,
        create_graph: bool,
        accumulate: bool,
        own_leaves: bool = False,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.accumulate = accumulate
        self.own_leaves = own_leaves
        self.overriding = OverridingSwitch()
        self.state = tls.st
        self.number = _next_number()
        self.node: Node | None = None  # that is being run
        self.turn: Node | None = None  # that ran before the leaf that is being run
        self.callbacks: list[Callable[[], None]] | None = None
        self.anomaly = is_anomaly_enabled()
        self.listeners = listeners()  # profilers, to be told of each node
        self.buffers: dict[Node, object] = {}
        self.needed = None if wanted is None else _needed(roots, wanted)
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        for slot, (node, number) in enumerate(wanted or ()):
            self.captures.setdefault(node, []).append((number, slot))
        self.found: list[Grad] = [None] * len(wanted or ())
        # For each leaf, how many edges to it are still to be handed a gradient or passed by.
        self.arrivals: dict[Node, int] = {}
        self.order: list[Node] = []
        self.remembered = True  # whether no node's formulas had to run
        self.complete: list[Node] = []  # leaves whose gradient is complete

    def begin(self, roots: Sequence[Edge]) -> None:
        """Find the nodes to run."""
        self.order = self._reached(roots)

    def _reached(self, roots: Sequence[Edge]) -> list[Node]:
        """The nodes below the roots, those to run first first; counts the edges to leaves."""
        needed = self.needed
        leaves: list[Node] = []
        seen: dict[Any, None] = {None: None}
        careful = needed is not None or self.anomaly or bool(self.listeners)
        stack: list[Any] = [node for node, _ in roots]
        pop, leaf = stack.pop, leaves.append
        while stack:
            node = pop()
            if node in seen:
                continue
            if node.__class__ is AccumulateGrad:
                leaf(node)
                continue
            seen[node] = None
            if careful:
                if node.folded:
                    node.unfold()
                if needed is not None and node not in needed:
                    continue
            stack += node.links[_TARGETS]
        self.arrivals.update(Counter(leaves))
        del seen[None]
        return sorted(seen, key=_by_sequence, reverse=True)

    def execution_order(self) -> list[Node]:
        """The nodes in the order in which they run, leaves among them as they become ready."""
        left = dict(self.arrivals)
        found: list[Node] = []
        for node in [*self.order]:
            node.unfold()
        for node in self.order:
            found.append(node)
            if self.needed is not None and node not in self.needed:
                continue
            for target in node.links[::3]:
                if target in left and (self.needed is None or target in self.captures):
                    left[target] -= 1
                    if not left[target]:
                        found.append(target)
        return found

    def will_run(self, node: Node) -> bool:
        """Whether the run comes by a node."""
        if node.__class__ is AccumulateGrad:
            return node in self.arrivals
        return node in self.order

    def through(self) -> None:
        """Run every node, and give the leaves their gradients."""
        buffers = self.buffers
        if self.complete:
            self._finish_leaves()
        self.run_nodes(self.order)
        if buffers and self.needed is None:
            node = next(iter(buffers))
            raise RuntimeError(
                f"{node.name()} got a gradient after its turn: an edge leads to a later node, "
                f"which the engine's order does not allow. Make a node after those it leads to"
            )

    def go_on(self, nodes: Sequence[Node]) -> None:
        """Finish the leaves of the node that ran, and run others that follow it."""
        if self.complete:
            self._finish_leaves()
        self.run_nodes(nodes)

    def join(self, node: Node, others: Sequence[Node]) -> None:
        """Take in the nodes that ``node`` stood for, unless it ran already."""
        last = self.node if self.node.__class__ is not AccumulateGrad else self.turn
        if last is not None and last.sequence <= node.sequence:
            return
        at = bisect_left(self.order, -node.sequence, key=_latest_first)
        if at < len(self.order) and self.order[at] is node:
            self.order[at + 1 : at + 1] = others

    def run_nodes(self, nodes: Sequence[Node]) -> None:
        """Run nodes in this order; also for a node that stands for several others."""
        st = tls.st
        buffers, complete = self.buffers, self.complete
        careful = self.needed is not None or self.anomaly or bool(self.listeners)
        for node in nodes:
            st.node_context = node.context
            self.node = node
            if careful or node.hooks or not node.steps:
                if self.listeners and (self.needed is None or node in self.needed):
                    begun = begin_range(_EVALUATION + node.name(), scope=BACKWARD)
                    self._run(node)
                    end_range(begun)
                else:
                    self._run(node)
            else:
                # No name here: the step alone decides how long a gradient lives.
                node.step(buffers.pop(node, None), buffers, self)
            if complete:
                self._finish_leaves()

    def _run(self, node: Node) -> None:
        """Run one node with all that may be asked of it: hooks, captures, checks."""
        held = self.buffers.pop(node, None)
        if node.plain:
            held = [held]
        elif held is None:
            held = [None] * node.output_count()
        assert isinstance(held, list)
        grads: list[Grad] = held
        overriding = self.overriding
        if self.needed is not None and node not in self.needed:
            if node not in self.captures:
                return  # backward passes it by
            overriding.on()
            run_tensor_hooks(node, grads)
            overriding.off()
            self._capture(node, grads)
            if self.accumulate and node.hooks is not None and node.hooks.before:
                # They see the gradient, but what is captured is what came.
                overriding.on()
                run_prehooks(node, grads)
                overriding.off()
            return
        self._capture(node, grads)
        if node.hooks is not None or node.by_user:
            overriding.on()  # for what users wrote
        run_before(node, grads)
        came = tuple(grads) if node.hooks is not None and node.hooks.after else ()
        if not node.by_user:
            overriding.off()
        begun = begin_range(node.name(), scope=BACKWARD) if self.listeners else []
        answers = list(self._answers(node, grads))
        end_range(begun)
        self.conform(node, answers)
        if not self.retain_graph:
            node.release()
        del grads, held
        if node.hooks is not None:
            overriding.on()
            answers = run_after(node, answers, came)
        overriding.off()
        self.hand_on(node, answers)

    def _answers(self, node: Node, grads: list[Grad]) -> Sequence[Grad]:
        """What the node gives; only the gradients that go on, where some are wanted."""
        if self.needed is None:
            return apply_checked(node, node.apply, grads) if self.anomaly else node.apply(grads)
        goes_on = [t in self.needed or t in self.captures for t in node.links[_TARGETS]]
        if self.anomaly:
            return apply_checked(node, lambda came: node.apply_part(came, goes_on), grads)
        return node.apply_part(grads, goes_on)

    def _capture(self, node: Node, grads: list[Grad]) -> None:
        """Keep what is wanted of a node's gradients."""
        for number, slot in self.captures.get(node, ()):
            self.found[slot] = grads[number]

    def conform(self, node: Node, answers: list[Grad]) -> None:
        """Make each answer fit the input it is for, while the node still has what it saved."""
        links = node.links
        if 3 * len(answers) != len(links):
            raise RuntimeError(
                f"{node.name()} returned an incorrect number of gradients (expected "
                f"{len(links) // 3}, got {len(answers)})"
            )
        needed = self.needed
        for i, target in enumerate(links[::3]):
            grad, meta = answers[i], links[3 * i + 2]
            if grad is None or target is None or meta is None or grad.meta is meta:
                continue
            if needed is None or target in needed or target in self.captures:
                answers[i] = conform(node, grad, meta, i)

    def hand_on(self, node: Node, answers: list[Grad]) -> None:
        """Give each answer, made to fit, to the node behind its edge."""
        self.conform(node, answers)
        self.give(node, answers)

    def give(self, node: Node, answers: list[Grad]) -> None:
        """Give each answer, which fits, to the node behind its edge."""
        links = node.links
        needed, buffers = self.needed, self.buffers
        for i, target in enumerate(links[::3]):
            grad, answers[i] = answers[i], None
            if target is None:
                continue
            if needed is not None and target not in needed and target not in self.captures:
                continue
            if grad is not None:
                if target.plain and target not in buffers:
                    buffers[target] = grad
                else:
                    self.deposit(target, links[3 * i + 1], grad)
                grad = None
            elif target.__class__ is AccumulateGrad:
                self.arrived(target)

    def deposit(self, node: Node, number: int, grad: Grad) -> None:
        """Put a gradient into a node's buffer, or add it to what is there."""
        buffers = self.buffers
        is_leaf = node.__class__ is AccumulateGrad
        if is_leaf or node.plain:
            if node in buffers:
                held = buffers.pop(node)
                if held is not None and grad is not None:
                    grad = _sum(held, grad)  # type: ignore[arg-type]  # the buffer of one gradient
            buffers[node] = grad
            if is_leaf:
                left = self.arrivals[node] = self.arrivals[node] - 1
                if left == 0:
                    self.complete.append(node)
            return
        if node is NOWHERE[0]:
            return
        slots = buffers.get(node)
        if slots is None:
            slots = buffers[node] = [None] * node.output_count()
        assert isinstance(slots, list)
        held = slots[number]
        slots[number] = None
        slots[number] = grad if held is None or grad is None else _sum(held, grad)

    def pass_by(self, node: Node) -> None:
        """A node that no gradient came to has none to hand on."""
        for target in node.links[::3]:
            if target.__class__ is AccumulateGrad:
                self.arrived(target)

    def arrived(self, leaf: Node) -> None:
        """One edge less that a leaf waits for."""
        left = self.arrivals[leaf] = self.arrivals[leaf] - 1
        if left == 0:
            self.complete.append(leaf)

    def _finish_leaves(self) -> None:
        """Give the leaves that wait for nothing more their gradients."""
        if self.node.__class__ is not AccumulateGrad:
            self.turn = self.node
        st, captures = tls.st, self.captures
        for leaf in self.complete:
            assert isinstance(leaf, AccumulateGrad)
            self.node = leaf
            st.node_context = leaf.context
            begun: list[tuple[RangeListener, object]] = []
            if self.listeners:
                for name in (_EVALUATION + leaf.name(), leaf.name()):
                    begun = [*begin_range(name, scope=BACKWARD), *begun]
            grad: Grad = self.buffers.pop(leaf, None)  # type: ignore[assignment]  # a leaf's
            if leaf.hooks is not None or (captures and leaf in captures):
                grads: list[Grad] = [grad]
                del grad
                self._show_leaf(leaf, grads)
                grad = grads.pop()
            variable = leaf.variable
            known = variable._ag
            meta = variable.meta
            if known.__class__ is AutogradMeta:
                state = known
            else:
                state = variable._autograd()
                if known.__class__ is TypedLeaf and grad is not None:
                    meta = variable._grad_meta(grad.meta)
            if grad is not None and state.grad_fn is not None:
                raise RuntimeError(
                    f"leaf variable has been moved into the graph interior: {variable.meta} "
                    f"was detached and then mutated by a recorded operation"
                )
            # Since it was recorded, the leaf may have been told to require none.
            keys = variable._keys
            asks = keys & K.REQUIRES_GRAD if variable._base is None else variable.requires_grad
            if grad is not None and self.accumulate and asks:
                given = grad.meta
                # Often strides alone differ, as a transposed weight's: 0.7 us less than to ask.
                if given is not meta and (
                    given.is_symbolic
                    or meta.is_symbolic
                    or given.dtype is not meta.dtype
                    or given.layout is not meta.layout
                    or given.shape != meta.shape
                ):
                    grad = conform(leaf, grad, meta, 0)
                if state.grad is None:
                    state.grad = _first_grad(grad, meta, self.create_graph, self.own_leaves)
                else:
                    state.grad = accumulated(state.grad, grad)
                if state.post_accumulate_hooks:
                    self._showaccumulated(variable, state.post_accumulate_hooks)
            if leaf.hooks is not None and leaf.hooks.after and self.accumulate:
                self.overriding.on()
                run_after(leaf, [], (grad,))
                self.overriding.off()
            if begun:
                end_range(begun)
            del grad
        self.complete.clear()

    def _showaccumulated(self, leaf: Tensor, hooks: dict[int, Callable[..., object]]) -> None:
        """Let hooks have a leaf with its new ``.grad``."""
        self.overriding.on()
        for hook in list(hooks.values()):
            answer = hook(leaf)
            if answer is None or answer is leaf:  # as ``leaf.add_(...)`` gives it
                continue
            if not isinstance(answer, Tensor):
                given = type(answer).__name__
                raise TypeError(f"expected Variable, but hook returned '{given}'")
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        self.overriding.off()

    def _show_leaf(self, leaf: AccumulateGrad, grads: list[Grad]) -> None:
        """Let hooks have a leaf's gradient, and keep it where it is wanted."""
        grad = grads[0]
        if grad is not None and leaf.variable._ag.__class__ is TypedLeaf:
            grads[0] = conform(leaf, grad, leaf.variable._grad_meta(grad.meta), 0)
        del grad
        self.overriding.on()
        if self.accumulate:
            run_before(leaf, grads)
        else:
            run_tensor_hooks(leaf, grads)
        self.overriding.off()
        self._capture(leaf, grads)


# Adds a gradient in place to another where that needs no operator, and where it may be written, of
# which it asks as `_may_write` does; a higher layer fills it in.
ADDED: list[Callable[[Tensor, Tensor], bool] | None] = [None]


def _sum(held: Tensor, grad: Tensor) -> Tensor:
    """Two gradients of one tensor added up, in place where the first is ours alone."""
    added = ADDED[0]
    if added is not None and added(held, grad):
        return held
    if held.meta.shape == grad.meta.shape and _may_write(held):
        if held._differs or not grad._differs:  # a batch is not written into what has none
            return _add_in_place()(held, grad)
    if held.meta.layout is not strided:
        return grad + held  # a sparse gradient is added to a dense one; indices are in this order
    return held + grad


@functools.cache
def _add_in_place() -> Callable[[Tensor, Tensor], Tensor]:
    """The entry of ``add_``: 0.9 us on fakes, 1.5 by the method, which chooses an overload."""
    packet = find_packet("aten::add_")
    assert packet is not None
    entry: Callable[[Tensor, Tensor], Tensor] = packet.Tensor._call
    return entry


_HANDLED = K.functionality_bits(DispatchKey.Python)


def _may_write(t: Tensor) -> bool:
    """Whether a gradient is ours alone to add to: nobody else holds it or its storage.

    Where modes watch, or the tensor's class has a handler, sums are new tensors: what they see has
    no write that programs don't.
    """
    st = tls.st
    return (
        not st.grad_enabled
        and not st.include & WATCHED
        and not t._keys & _HANDLED
        and held_only(t, OURS)
        and held_only(t._storage, 1)
        and t.meta.is_dense
        and t.meta.layout is strided
    )


def conform(node: Node, grad: Tensor, meta: TensorMeta, index: int) -> Tensor:
    """Sum a broadcast gradient to its input's shape, cast it to its dtype; else an error."""
    given = grad.meta
    target = node.links[3 * index] if node.links else None
    if target.__class__ is AccumulateGrad:
        variable = target.variable
        if variable._ag.__class__ is TypedLeaf:
            meta = variable._grad_meta(given)
    if given.layout is not meta.layout:
        check_layout(grad, meta, f"Function {node.name()} returned an", index)
    if not alike(given.shape, meta.shape):
        dims = _stretched(meta.shape, given.shape)
        if dims is None:
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {index} - got "
                f"{list(given.shape)} but expected shape compatible with {list(meta.shape)}"
            )
        if not meta.shape:
            grad = grad.sum()
        elif dims:
            grad = grad.sum(dims, True)
        if given.ndim > meta.ndim > 0:
            grad = grad.view(meta.shape)
    if grad.meta.dtype is not meta.dtype:
        if grad.meta.dtype.is_complex and not meta.dtype.is_complex:
            grad = grad.real
        grad = grad.to(meta.dtype)
    return grad


def check_layout(grad: Tensor, meta: TensorMeta, who: str, index: int) -> None:
    """Refuse a compressed gradient of what has another layout."""
    if grad.meta.layout not in (strided, sparse_coo, meta.layout):
        raise RuntimeError(
            f"{who} invalid gradient at index {index} - expected layout {meta.layout} but got "
            f"{grad.meta.layout}; convert it with to_dense() or to_sparse(layout=...)"
        )


@remembered
def _stretched(shape: Shape, to: Shape) -> tuple[int, ...] | None:
    """The dimensions that broadcasting ``shape`` to ``to`` adds or stretches; None if it cannot."""
    lead = len(to) - len(shape)
    if lead < 0:
        return None
    stretched = list(range(lead))
    for i, (own, given) in enumerate(zip(shape, to[lead:], strict=True), lead):
        if is_true(own == given):
            continue
        if is_true(own == 1):
            stretched.append(i)
        elif not expect_true(own == given):  # what depends on data is asserted later
            return None
    return tuple(stretched)


def accumulated(old: Tensor, grad: Tensor) -> Tensor:
    """A leaf's gradient with another added to it, in place where nothing records that."""
    if tls.st.grad_enabled or old.meta.layout is not grad.meta.layout is strided:
        return grad + old if old.meta.layout is not strided else old + grad
    old.add_(grad)
    return old


def _first_grad(grad: Tensor, meta: TensorMeta, create_graph: bool, own_leaves: bool) -> Tensor:
    """A leaf's first gradient: the tensor itself if ours alone and laid out as T59 says."""
    if grad.meta.layout is not strided:
        alone = held_only(grad, _OF_LEAF)  # before a call holds it, too
        return grad if create_graph else _first_sparse_grad(grad, alone)
    if meta.layout is not strided:
        meta = grad.meta.like()
    given = grad.meta
    good = given is meta if meta.is_dense else given.is_contiguous
    if not good and meta.is_dense:
        good = _laid_out_as(given, meta)
    if create_graph and own_leaves:
        return grad if good else grad.clone()
    # As in PyTorch, a gradient that is a view of a tensor nobody else looks at is taken too; one
    # that has a history is copied, since its nodes and other leaves may share it.
    if good and not create_graph and held_only(grad, _OF_LEAF):
        plain = grad._ag is None and grad._base is None
        if tls.st.include & WATCHED:  # modes see it taken, as in PyTorch
            detached: Tensor = grad.detach()
            return detached
        return grad if plain else grad._without_history()
    if meta.is_dense and grad.meta.shape == meta.shape:
        fresh = grad.new_empty_strided(meta.shape, meta.strides)
        return fresh.copy_(grad)
    return grad.contiguous() if not grad.meta.is_contiguous else grad.clone()


def _laid_out_as(grad: TensorMeta, leaf: TensorMeta) -> bool:
    """Whether the strides are the leaf's; those of dimensions of size 1 do not matter."""
    if grad.strides == leaf.strides:
        return True
    if grad.shape != leaf.shape:
        return False
    sizes = zip(grad.shape, grad.strides, leaf.strides, strict=True)
    return all(is_true(n == 1) or is_true(own == wanted) for n, own, wanted in sizes)


def _first_sparse_grad(grad: Tensor, alone: bool) -> Tensor:
    """A leaf's first gradient of a sparse layout; alone: whether nobody else holds the tensor."""
    kept = grad if alone and _parts_alone(grad) else grad.clone()
    storage = kept._storage
    if alone and isinstance(storage, SparseStorage) and isinstance(storage.parts, CooParts):
        # As in PyTorch, a gradient that is taken is made anew of its parts: whether they are
        # sorted is not told on.
        single = kept.meta.is_symbolic or storage.parts.indices.meta.shape[1] < 2
        storage.parts = storage.parts._replace(coalesced=single)
    return kept


def _parts_alone(grad: Tensor) -> bool:
    """Whether nobody else has the memory of a COO gradient's values; gives it indices of its own.

    The indices are often the input's, as an embedding's are, and small.
    """
    storage = grad._storage
    parts = storage.parts if isinstance(storage, SparseStorage) else ()
    # Without data there is nothing to share: a copy would only forget how many elements there are.
    if not isinstance(parts, CooParts) or parts.values._storage.data is None:
        return True
    if not parts.values.meta.is_contiguous or not held_only(parts.values._storage, 1):
        return False
    if not held_only(parts.indices._storage, 1):
        cast(SparseStorage, storage).parts = parts._replace(indices=parts.indices.clone())
    return True


def _needed(roots: Sequence[Edge], wanted: Sequence[Edge]) -> set[Node]:
    """The nodes to run: those with a path to a wanted node that still leads below it."""
    goals = {node for node, _ in wanted}
    order: list[Node] = []
    seen: set[Node | None] = {None}
    stack = [node for node, _ in roots]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node.folded:
                node.unfold()
            if node.links:  # else it leads nowhere, as accumulators do
                order.append(node)
                stack += node.links[::3]
    needed: set[Node] = set()
    order.sort(key=_by_sequence)  # an edge leads to a node made earlier
    for node in order:
        for target in node.links[::3]:
            if target in goals or target in needed:
                needed.add(node)
                break
    return needed
