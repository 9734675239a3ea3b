"""Nodes of the backward graph: what an operation left behind for its gradient.

A node has one edge for each differentiable tensor input (None where that input needs no gradient)
and `apply`, which turns gradients of its outputs into gradients of its inputs by calling operators,
so that differentiating twice needs nothing more. How nodes are made is `record.py`, how they are
run `engine.py`.

Edges are kept flat, ``links = (node, output number, meta of the input, node, ...)``: one tuple a
node instead of a list of tuples and a list, which the garbage collector would visit too. An edge
leads to a node with a smaller ``sequence``, or to an accumulator: the engine's order rests on it.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from maquette.autograd.hooks import NodeHooks, RemovableHandle
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import node_observers, tls
from maquette.tensor.history import AutogradMeta, History, OutputHistory, ViewHistory
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor, alias

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload

Grad = Tensor | None
Edge = tuple["Node", int]
_sequences = itertools.count()
next_sequence = _sequences.__next__
_new = object.__new__
LAST = 1 << 62  # the sequence number of accumulators: they run as soon as they are ready


def reserve(count: int) -> int:
    """The first of ``count`` sequence numbers that no other node will get."""
    first = next_sequence()
    deque(itertools.islice(_sequences, count - 1), 0)
    return first


class Node:
    """A step of the backward graph."""

    __slots__ = ("__weakref__", "_trace", "context", "hooks", "links", "sequence")

    _trace: list[str]  # of nodes made while anomalies are looked for
    context: object | None
    links: tuple[Any, ...]  # (Node | None, int, TensorMeta | None) for each input, flat
    hooks: NodeHooks | None
    sequence: int
    # Whether the node waits for one gradient only, which is then its buffer in the engine; and
    # whether it has a ``step``, which takes the gradients and hands on its answers itself.
    plain: ClassVar[bool] = False
    steps: ClassVar[bool] = False
    by_user: ClassVar[bool] = False  # whether `apply` calls what a user wrote
    folded: ClassVar[bool] = False  # whether it stands for several nodes, until `unfold`
    step: Callable[..., None]
    # ``outline(node, mode)``: all that its gradients depend on but those that come, if that is
    # plain; None else, and where what it saved was written to or freed.
    outline: ClassVar[Callable[[Any, object], tuple[Any, ...] | None] | None] = None

    def __init__(self, edges: Sequence[Edge | None], metas: Sequence[TensorMeta | None]) -> None:
        self.links = linked(edges, metas)
        self.sequence = next_sequence()
        self.context = tls.st.node_context
        self.hooks = None

    @property
    def edges(self) -> list[Edge | None]:
        """Where the gradient of each input goes: a node and the number of its output."""
        links = self.links
        pairs = zip(links[::3], links[1::3], strict=True)
        for node in links[::3]:
            if node is not None and node.folded:
                node.unfold()
        return [
            None if node is None or node is NOWHERE[0] else (node, number) for node, number in pairs
        ]

    @property
    def metas(self) -> Sequence[TensorMeta | None]:
        """The meta of each input."""
        return self.links[2::3]

    def unfold(self) -> Sequence[Node]:
        """Become the last of the nodes that it stands for; the others, latest first.

        Whoever shows nodes, or walks over them, calls it first.
        """
        return ()

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        """Gradients of the inputs, one for each edge, from those of the outputs."""
        raise NotImplementedError(type(self).__name__)

    def apply_part(self, grads: list[Grad], wanted: Sequence[bool]) -> Sequence[Grad]:
        """`apply` where some inputs' gradients alone are wanted: the others may be None.

        wanted: for each edge.
        """
        return self.apply(grads)

    def output_count(self) -> int:
        """How many gradients `apply` takes."""
        return 1

    def release(self) -> None:
        """Drop what was saved; a second backward then says so."""

    def name(self) -> str:
        """As PyTorch prints it: ``MulBackward0``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        return tuple((None, 0) if e is None else e for e in self.edges)

    @property
    def metadata(self) -> dict[str, object]:
        """A dict for the user's notes."""
        return hooks_of(self).metadata

    def register_hook(self, fn: Callable[..., object]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node ran: gradients that go, that came.

        Both are tuples; a tuple that it returns takes the place of those that go.
        """
        hooks = hooks_of(self)
        return hooks.add(hooks.after, fn)

    def register_prehook(self, fn: Callable[..., object]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; it may return a tuple to take instead."""
        hooks = hooks_of(self)
        return hooks.add(hooks.before, fn)

    def __call__(self, *grads: Grad) -> object:
        """What `apply` gives for gradients of the outputs: a tensor, a tuple for several inputs."""
        expected = self.output_count()
        if len(grads) != expected:
            raise TypeError(
                f"{self.name()}: expected {expected} arguments, got {len(grads)} instead: one "
                f"gradient for each output"
            )
        answers = tuple(self.apply(list(grads)))
        return answers[0] if len(answers) == 1 else answers

    def _sequence_nr(self) -> int:
        return self.sequence

    def __repr__(self) -> str:
        return f"<{self.name().removeprefix('torch::autograd::')} object at {hex(id(self))}>"


def linked(edges: Sequence[Edge | None], metas: Sequence[TensorMeta | None]) -> tuple[object, ...]:
    """Edges and metas as a node's ``links``."""
    flat: list[object] = []
    for edge, meta in zip(edges, metas, strict=True):
        flat += (None, 0, meta) if edge is None else (*edge, meta)
    return tuple(flat)


class SavedTensor:
    """An input kept for backward, with the version it had."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        if not tensor._keys & ADINPLACE:
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. To work around you can make a "
                "clone to get a normal tensor and use it in autograd."
            )
        self.tensor = tensor
        vc = tensor._vc
        self.version = 0 if vc is None else vc.value

    def unpack(self, node: Node | None) -> Tensor:
        t = self.tensor
        vc = t._vc
        if (0 if vc is None else vc.value) != self.version:
            raise_modified(t, t.grad_fn, t.output_nr, self.version)
        return t


class SavedOutput:
    """A result kept for the backward of its own node: without a cycle through ``grad_fn``."""

    __slots__ = ("number", "requires_grad", "tensor", "version")

    def __init__(self, tensor: Tensor, number: int) -> None:
        self.tensor = alias(tensor)
        self.number = number
        self.requires_grad = bool(tensor._keys & K.REQUIRES_GRAD)
        self.version = tensor._version

    def unpack(self, node: Node | None) -> Tensor:
        t = self.tensor
        vc = t._vc
        if (0 if vc is None else vc.value) != self.version:
            raise_modified(t, node, self.number, self.version)
        if not self.requires_grad or not tls.st.grad_enabled:
            return t
        return reattached(t, node, self.number)


def reattached(saved: Tensor, node: Node | None, number: int = 0) -> Tensor:
    """A saved output with its place in the graph, where the backward is itself recorded.

    node: None if it is gone, and its outputs' place with it.
    """
    if node is None or not tls.st.grad_enabled:
        return saved
    out = alias(saved)
    ag = out._autograd()
    ag.grad_fn, ag.output_nr = node, number
    out._keys |= K.REQUIRES_GRAD
    return out


def call_name(node: Node) -> str:
    """The call that a node is the backward of, as errors name it: ``Tanh`` of TanhBackward0."""
    return re.sub(r"Backward\d*$", "", node.name())


def raise_modified(t: Tensor, node: Node | None, number: int, expected: int) -> None:
    """The error of T24."""
    where = "" if node is None else f", which is output {number} of {node.name()},"
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{t.meta.dtype} {list(t.meta.shape)}]{where} is at version {t._version}; "
        f"expected version {expected} instead. Clone the tensor before writing to it, or write "
        "after the backward pass."
    )


def raise_detached(t: Tensor, node: Node, into: Node | None) -> None:
    """Refuse a saved tensor that `detach_` has since taken out of the graph.

    A gradient that is differentiated again would go by it as by a constant. into: where the
    gradient of the tensor went when it was saved; a leaf may be told to require none.
    """
    if into.__class__ is not AccumulateGrad:
        raise RuntimeError(
            f"Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): "
            f"{t.meta}, saved by {node.name()}. This is not supported, please use out-of-place "
            f"`.detach()` instead"
        )


def raise_freed(node: Node) -> None:
    """The error of a second backward, once what was saved is gone."""
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Specify retain_graph=True if you need to backward "
        f"through the graph a second time. It failed in {node.name()}."
    )


class OpNode(Node, History):
    """The backward of one operator call, by the formulas of the operator's page.

    There is a class for each operator and each subset of its parameters that requires grad
    (`plan.py`), and the kernels of `record.py` make the nodes, setting the parts without calling
    ``__init__``. The only output of such a node holds it in the place of its autograd state.
    """

    __slots__ = ("count", "list_sizes", "saved", "view_version")

    op: ClassVar[OpOverload]
    label: ClassVar[str]
    lists: ClassVar[bool]  # whether parameters are lists of tensors
    saves_tensors: ClassVar[bool]
    saves_written: ClassVar[bool]  # values that stood where it writes
    versions: ClassVar[frozenset[int]]  # where in ``saved`` versions are, each after its tensor
    save: ClassVar[Callable[..., tuple[object, ...]]]
    open_saved: ClassVar[Callable[[OpNode], tuple[object, ...]]]
    formulas: Callable[[list[Grad]], list[Grad]]
    saved: tuple[object, ...] | None
    count: int  # of outputs, where that is not 1 by the schema
    list_sizes: list[int]  # of parameters that are lists
    view_version: int  # of an output that is a view: its version when it was made

    steps = True
    requires_grad = True

    @property
    def grad_fn(self) -> Node:  # type: ignore[override]  # as the state of its output it is itself
        return self

    def output_count(self) -> int:
        return 1 if self.plain else self.count

    def name(self) -> str:
        return self.label

    def release(self) -> None:
        if self.saves_tensors:
            self.saved = None

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        return self.formulas(grads)

    def apply_part(self, grads: list[Grad], wanted: Sequence[bool]) -> Sequence[Grad]:
        return self.formulas(grads) if all(wanted) else self.partly(grads, wanted)

    def partly(self, grads: list[Grad], wanted: Sequence[bool]) -> list[Grad]:
        """The gradients of the inputs that are wanted, without the cost of the others."""
        return self.formulas(grads)


class AccumulateGrad(Node):
    """The end of a path: adds the gradient to a leaf's ``.grad``."""

    __slots__ = ("variable",)

    variable: Tensor

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"


class RaisingNode(Node):
    """Stands in for a derivative that does not exist: an error, once backward comes here."""

    __slots__ = ("count", "label", "message")

    def __init__(
        self,
        edges: Sequence[Edge | None],
        metas: Sequence[TensorMeta | None],
        label: str,
        message: str,
        count: int = 1,
    ) -> None:
        """label: its name. message: the error's. count: how many outputs it has."""
        super().__init__(edges, metas)
        self.label = label
        self.message = message
        self.count = count

    def output_count(self) -> int:
        return self.count

    def name(self) -> str:
        return self.label

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        raise RuntimeError(self.message)


class Nowhere(Node):
    """Where the gradient of a view goes that requires grad only because its base does: nowhere.

    Operations on such a view are recorded all the same, as in PyTorch.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__((), ())
        self.sequence = -1

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        return ()


NOWHERE: Edge = (Nowhere(), 0)


def grad_edge(t: Tensor) -> Edge | None:
    """Where the gradient of ``t`` goes: its node, its accumulator, or nowhere."""
    if not t._keys & K.REQUIRES_GRAD:
        return None
    ag = t._ag
    if ag.__class__ is AutogradMeta and t._base is None and ag.grad_fn is None:
        return _accumulator(t, ag), 0  # most leaves, at once
    if t._base is not None:
        node = t.grad_fn  # as its base is now
        if node is not None:
            return node, t.output_nr
        if ag is None or not ag.requires_grad:
            return None  # only its base, a leaf, requires grad
    elif ag is not None and ag.grad_fn is not None:
        return ag.grad_fn, ag.output_nr
    return _accumulator(t, t._autograd()), 0


def _accumulator(t: Tensor, state: AutogradMeta) -> Node:
    """The accumulator of a leaf with this state, made anew unless a graph holds it."""
    # It refers to its leaf, the leaf only weakly to it, so neither keeps a cycle.
    known = state.accumulator
    found = None if known is None else known()
    if found is None:
        found = made = _new(AccumulateGrad)  # 0.2 us less than by a call of an `__init__`
        made.links = ()
        made.sequence = LAST
        made.context = tls.st.node_context if node_observers else None
        made.hooks = None
        made.variable = t
        state.accumulator = weakref.ref(made)
    return found


def hooks_of(node: Node) -> NodeHooks:
    """The hooks of a node, made when the first is registered."""
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks


def move_retained(t: Tensor, old: Node | None, number: int) -> None:
    """Have `retain_grad` follow ``t``, output ``number`` of ``old`` before, to its node now.

    Hooks stay where they are: they belong to the value that the tensor had.
    """
    ag = t._ag
    if ag is None or not ag.retains or old is None or old.hooks is None:
        return
    keep = old.hooks.retained.pop(number, None)
    node = ag.grad_fn
    if keep is not None and node is not None:
        hooks_of(node).retained[ag.output_nr] = keep


def set_history(t: Tensor, node: Node, number: int) -> None:
    """Make ``t`` output ``number`` of ``node``."""
    known = t._ag
    if known is None or (known.__class__ is ViewHistory and not known.seen_as):
        # 0.5 us less than a state open to change, and no dict for the collector of garbage.
        made = t._ag = OutputHistory()
        made.grad_fn = node
        made.output_nr = number
        made.creation_meta = "" if known is None else known.creation_meta
        made.view_version = 0 if t._base is None else t._version
        t._keys |= K.REQUIRES_GRAD
        return
    ag = t._autograd()
    ag.grad_fn = node
    ag.output_nr = number
    ag.requires_grad = True
    if t._base is not None:
        ag.view_version = t._version
    t._keys |= K.REQUIRES_GRAD
