"""Writes and history: what in-place operators may write to, and how views follow (T25, T26)."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.autograd.node import Edge, Grad, Node, grad_edge, move_retained, set_history
from maquette.core.meta import TensorMeta
from maquette.core.ownership import held_only
from maquette.dispatch import keysets as K
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import VIEW_HISTORY, Tensor, ask_tensors_first


def check_inplace(op: OpOverload, target: Tensor) -> None:
    """Refuse the writes that would make gradients wrong."""
    if target._keys & K.REQUIRES_GRAD and target.is_leaf and target._base is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation "
            f"({op._opname} on {target.meta}). Write under no_grad, or to a clone()."
        )
    base = target._base
    if base is None:
        return
    creation = "" if target._ag is None else target._ag.creation_meta
    if creation:
        node = target.grad_fn
        output = "output" if node is None else f"output {target.output_nr} of {node.name()}, one"
        words = _FORBIDDEN[creation].format(op=op._opname, meta=target.meta, output=output)
        raise RuntimeError(words)
    if base._keys & K.REQUIRES_GRAD and base.is_leaf:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation "
            f"({op._opname} on {target.meta}). Write under no_grad, or to a view of a clone()."
        )


_FORBIDDEN = {
    "NO_GRAD_MODE": "{op}: a view of {meta} was created in no_grad mode and is being modified "
    "inplace with grad mode enabled. Create the view with grad enabled, or write under no_grad.",
    "INFERENCE_MODE": "{op}: a view of {meta} was created in inference_mode and is being modified "
    "inplace outside of it. Create the view outside, or write in inference_mode.",
    "CUSTOM_FUNCTION": "{op}: an output of a custom Function ({meta}) is a view and is being "
    "modified inplace. It was made inside the Function (or is an input returned as is), so writing "
    "to it would bypass the Function's backward. Write to a clone() of the output.",
    "MULTI_OUTPUT_NODE": "{op}: {output} of a function that returns multiple views ({meta}) is "
    "being modified inplace. Such functions do not allow the output views to be modified inplace. "
    "You should replace the inplace operation by an out-of-place one.",
}


def rebase_history(target: Tensor, node: Node, number: int) -> None:
    """Make ``target``, just written, output ``number`` of ``node``; of a view, rebase the base."""
    base = target._base
    if base is None:
        known = target._keys & K.REQUIRES_GRAD
        set_history(target, node, number)
        move_retained(target)
        if not known and not held_only(target._storage, 1):
            ask_tensors_first()
        return
    old = grad_edge(base)
    slices = CopySlices(base.meta, target.meta, node, old)
    set_history(base, slices, 0)
    move_retained(base)
    target._autograd().requires_grad = True
    refresh_view(target)
    if old is None and not held_only(base._storage, 2):
        # Other views require grad from now on too; views of a base that did ask it later anyway.
        ask_tensors_first()


class CopySlices(Node):
    """The backward of a write to a view, as an operation on its base."""

    __slots__ = ("base", "function", "view")

    def __init__(
        self, base: TensorMeta, view: TensorMeta, function: Node, old: Edge | None
    ) -> None:
        super().__init__([old, *function.edges[1:]], [base, *function.metas[1:]])
        self.base = base
        self.view = view
        self.function = function

    def release(self) -> None:
        self.function.release()

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        grad = grads[0]
        if grad is None:
            return [None] * len(self.edges)
        base, view = self.base, self.view
        whole = grad.new_empty_strided(base.shape, base.strides)
        whole.copy_(grad)
        part = whole.as_strided(view.shape, view.strides, view.offset - base.offset)
        answers = list(self.function.apply([part.clone()]))
        if answers[0] is None:
            part.zero_()
        else:
            part.copy_(answers[0])
        return [whole, *answers[1:]]


class AsStridedNode(Node):
    """The history of a view whose base was written since: the base, seen through its geometry."""

    __slots__ = ("base", "view")

    def __init__(self, base: TensorMeta, view: TensorMeta, edge: Edge | None) -> None:
        super().__init__([edge], [base])
        self.base = base
        self.view = view

    def name(self) -> str:
        return "AsStridedBackward0"

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        grad = grads[0]
        if grad is None:
            return [None]
        whole = grad.new_zeros(self.base.shape)
        flat = whole.new_empty_strided(self.base.shape, self.base.strides).zero_()
        view = self.view
        flat.as_strided(view.shape, view.strides, view.offset - self.base.offset).copy_(grad)
        return [flat]


def refresh_view(view: Tensor) -> None:
    """Give a view the history of its base as it is now."""
    base = view._base
    assert base is not None
    if not base._keys & K.REQUIRES_GRAD:
        return
    ag = view._autograd()
    ag.grad_fn = AsStridedNode(base.meta, view.meta, grad_edge(base))
    ag.output_nr = 0
    ag.view_version = view._version
    view._keys |= K.REQUIRES_GRAD
    move_retained(view)


VIEW_HISTORY[0] = refresh_view
