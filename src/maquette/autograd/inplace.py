"""Mutation and history: what in-place operators may write to, and how history follows (T25, T26).

A tensor that is mutated becomes the output of the mutation's node. Of a view, the base does too,
through `CopySlices`; the view is then seen through its base again (`view_history.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from maquette.autograd.engine import Run, current_run
from maquette.autograd.node import (
    Grad,
    Node,
    OpNode,
    grad_edge,
    move_retained,
    next_sequence,
    raise_freed,
)
from maquette.autograd.view_history import (
    Look,
    empty_as,
    look_of,
    refresh_view,
    refuse_mutation,
    see,
    strided_again,
)
from maquette.core.layout import contiguous_format
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import tell_requires_grad


def check_inplace(name: str, target: Tensor) -> None:
    """Refuse the writes that would make gradients wrong; ``name`` says what writes."""
    base, ag = target._base, target._ag
    if base is not None:
        if ag is not None and ag.creation_meta:
            refuse_mutation(target, "is being")
        if target._keys & K.REQUIRES_GRAD and _is_leaf(base):
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place "
                f"operation. ({name} on {target.meta}; write under no_grad, or to a view of "
                "a clone().)"
            )
    if target._keys & K.REQUIRES_GRAD and _is_leaf(target):
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            f"({name} on {target.meta}; write under no_grad, or to a clone().)"
        )


def _is_leaf(t: Tensor) -> bool:
    """Whether no node is noted on ``t``: a view is not brought up to date for the question."""
    return t._ag is None or t._ag.grad_fn is None


def rebase_history(target: Tensor, node: Node, number: int) -> None:
    """Make ``target``, just mutated, output ``number`` of ``node``; of a view, rebase the base."""
    base = target._base
    if base is None:
        _set_node(target, node, number, sharing=1)
        return
    slices = CopySlices(look_of(base), target, node, number)
    _set_node(base, slices, 0, sharing=2)
    target._keys |= K.REQUIRES_GRAD
    refresh_view(target)  # its history is old, whatever the version says


def _set_node(t: Tensor, node: Node, number: int, sharing: int) -> None:
    """Make ``t``, no view, output ``number`` of ``node``."""
    known = t._ag
    if known is not None and known.plain and isinstance(node, OpNode) and node.plain:
        t._ag = node  # from one node to the next: nothing else is known of it
        return
    ag = t._autograd()
    old, old_number = ag.grad_fn, ag.output_nr
    ag.grad_fn, ag.output_nr, ag.requires_grad = node, number, True
    if t._keys & K.REQUIRES_GRAD:
        move_retained(t, old, old_number)
    else:
        tell_requires_grad(t, sharing)


class CopySlices(Node):
    """The backward of a write to a view, as an operation on its base."""

    __slots__ = ("base", "freed", "function", "last", "number", "view")

    plain = True
    steps = True

    def __init__(self, base: Look, view: Tensor, function: Node, number: int) -> None:
        """function: the write, of which the view is output ``number``."""
        edge = grad_edge(cast(Tensor, view._base))
        # The links as they are: to ask for edges would unfold what the write was given.
        self.links = (*((None, 0) if edge is None else edge), base.meta, *function.links[3:])
        self.sequence = next_sequence()
        self.context = tls.st.node_context
        self.hooks = None
        self.base = base
        self.view = look_of(view)
        self.last = "" if view._ag is None else view._ag.seen_as
        self.function = function
        self.number = number
        self.freed = False

    def step(self, grad: Grad, buffers: dict[Node, object], run: Run) -> None:
        """Its turn where no hooks, captures or checks have a part in it."""
        if grad is None:
            run.pass_by(self)
            return
        answer = ANSWERED[0]
        answers = None if answer is None or self.freed else answer(self, grad, run)
        if answers is None:
            run.remembered = False
            answers = list(self.apply([grad]))
            del grad
            run.conform(self, answers)
        else:
            del grad
        if not run.retain_graph:
            self.release()
        run.give(self, answers)

    def formulas(self, grads: list[Grad]) -> list[Grad]:
        """As nodes of operators name it."""
        return list(self.apply(grads))

    @staticmethod
    def open_saved(node: CopySlices) -> tuple[object, ...]:
        """The tensors that it saves: none, and who asks knows that its write saves none."""
        return ()

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def release(self) -> None:
        # A saved result leads to the write itself, where backward is differentiated: it then runs
        # again in this run, and is released there.
        self.freed = True
        run = current_run()
        if run is None or self.function not in run.buffers:
            self.function.release()

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        grad = grads[0]
        if self.freed:
            raise_freed(self)
        if grad is None:
            return [None] * (len(self.links) // 3)
        whole = empty_as(grad, self.base)
        whole.copy_(grad)
        part = see(whole, self.base, self.view, self.last)
        if part is whole:  # PyTorch calls it for a view of the base's own geometry, too
            part = strided_again(whole)
        given: list[Grad] = [None] * self.function.output_count()
        given[self.number] = part.clone(memory_format=contiguous_format)
        answers = list(self.function.apply(given))
        if self.links[0] is None:
            return [None, *answers[1:]]
        if answers[0] is None:
            part.zero_()
        else:
            part.copy_(answers[0])
        return [whole, *answers[1:]]


# Knows the gradients of such a node without operators, or says None; a higher layer fills it in.
ANSWERED: list[Callable[[CopySlices, Tensor, Run], list[Grad] | None] | None] = [None]
