"""The engine: runs the backward graph from the outputs, latest operation first.

Nodes are run in decreasing order of their sequence number, as PyTorch does, so that gradients die
as early as theirs and the peak of memory is comparable. Gradients that meet are added, in place
where nobody else holds the first. Leaf accumulation takes the gradient itself where nobody else
holds it.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence

from maquette.autograd.anomaly import apply_checked, is_anomaly_enabled
from maquette.autograd.node import AccumulateGrad, Edge, Grad, Node, OpNode
from maquette.core.meta import TensorMeta
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor, alias

# References to a tensor that only the engine holds while it looks: its own, and getrefcount's.
_ONLY_OURS = 3


def run_backward(
    roots: Sequence[Edge],
    root_grads: Sequence[Grad],
    *,
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Edge] | None = None,
    accumulate: bool = True,
) -> list[Grad]:
    """Run backward from ``roots``; the gradients that arrive at ``wanted`` edges, in order.

    With ``accumulate`` leaves get their ``.grad``; else nothing but the answer changes.
    """
    needed = None if wanted is None else _needed(roots, wanted)
    waiting = _dependencies(roots, needed)
    buffers: dict[Node, list[Grad]] = {}
    for (node, number), grad in zip(roots, root_grads, strict=True):
        _deposit(buffers, node, number, grad)
    captures = _captures(wanted)
    found: list[Grad] = [None] * (0 if wanted is None else len(wanted))
    ready = [(-node.sequence, id(node), node) for node in dict.fromkeys(n for n, _ in roots)]
    ready = [entry for entry in ready if waiting.get(entry[2], 0) == 0]
    heapq.heapify(ready)
    st = tls.st
    anomaly = is_anomaly_enabled()
    grad_before = st.grad_enabled
    context_before = st.node_context
    st.set_grad_enabled(create_graph)
    try:
        while ready:
            node = heapq.heappop(ready)[2]
            grads = buffers.pop(node, None)
            if grads is None:
                grads = [None] * node.output_count()
            if node.pre_hooks:
                _run_pre_hooks(node, grads)
            if node in captures:
                for number, slot in captures[node]:
                    found[slot] = grads[number]
            if needed is not None and node not in needed:
                continue
            st.node_context = node.context
            if isinstance(node, AccumulateGrad):
                if accumulate and grads[0] is not None:
                    grad = grads.pop()
                    assert grad is not None
                    grad = _conform(node, grad, node.variable.meta, 0)
                    _accumulate_leaf(node, grad, create_graph)
                continue
            if node.__class__ is OpNode and not anomaly:
                answers = node.variant.apply(node, grads)
                if not retain_graph and node.variant.saves_tensors:
                    node.saved = None
            else:
                answers = list(apply_checked(node, grads) if anomaly else node.apply(grads))
                if not retain_graph:
                    node.release()
            del grads
            _hand_on(node, answers, buffers, waiting, ready, needed)
    finally:
        st.set_grad_enabled(grad_before)
        st.node_context = context_before
    return found


def _hand_on(
    node: Node,
    answers: list[Grad],
    buffers: dict[Node, list[Grad]],
    waiting: dict[Node, int],
    ready: list[tuple[int, int, Node]],
    needed: set[Node] | None,
) -> None:
    """Give each answer to the node behind its edge; nodes that wait for nothing more are ready."""
    edges, metas = node.edges, node.metas
    if len(answers) != len(edges):
        raise RuntimeError(
            f"{node.name()} returned an incorrect number of gradients (expected {len(edges)}, "
            f"got {len(answers)})"
        )
    for i, edge in enumerate(edges):
        if edge is None:
            continue
        target, number = edge
        if needed is not None and target not in waiting:
            continue
        grad = answers[i]
        answers[i] = None
        if grad is not None:
            meta = metas[i]
            given = grad.meta
            if meta is not given and meta is not None:  # metas are interned: mostly the same object
                if given.shape != meta.shape or given.dtype is not meta.dtype:
                    grad = _conform(node, grad, meta, i)
            if target in buffers or target.__class__ is not OpNode or target.count != 1:
                _deposit(buffers, target, number, grad)
            else:
                buffers[target] = [grad]
            grad = None
        left = waiting[target] = waiting[target] - 1
        if not left:
            heapq.heappush(ready, (-target.sequence, id(target), target))


def _deposit(buffers: dict[Node, list[Grad]], node: Node, number: int, grad: Grad) -> None:
    slots = buffers.get(node)
    if slots is None:
        slots = buffers[node] = [None] * node.output_count()
    if grad is None:
        return
    held = slots[number]
    if held is None:
        slots[number] = grad
        return
    slots[number] = None
    if _may_write(held) and held.meta.shape == grad.meta.shape:
        slots[number] = held.add_(grad)
    else:
        slots[number] = held + grad


def _may_write(t: Tensor) -> bool:
    """Whether a gradient is ours alone to add to: nobody else holds it or its storage."""
    return (
        not tls.st.grad_enabled
        and sys.getrefcount(t) <= _ONLY_OURS
        and sys.getrefcount(t._storage) <= 2
        and t.meta.is_dense
    )


def _conform(node: Node, grad: Tensor, meta: TensorMeta, index: int) -> Tensor:
    """Sum a broadcast gradient to its input's shape, cast it to its dtype; else an error."""
    if grad.meta.shape != meta.shape:
        if not _expandable(meta.shape, grad.meta.shape):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {index} - got "
                f"{list(grad.meta.shape)} but expected shape compatible with {list(meta.shape)}"
            )
        grad = sum_to_shape(grad, tuple(meta.shape))
    if grad.meta.dtype is not meta.dtype:
        if grad.meta.dtype.is_complex and not meta.dtype.is_complex:
            grad = grad.real
        grad = grad.to(meta.dtype)
    return grad


def _expandable(shape: Sequence[int], to: Sequence[int]) -> bool:
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def sum_to_shape(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum over the dimensions that broadcasting from ``shape`` added or stretched."""
    lead = len(grad.meta.shape) - len(shape)
    dims = list(range(lead))
    dims += [i + lead for i, n in enumerate(shape) if n == 1 and grad.meta.shape[i + lead] != 1]
    if dims:
        grad = grad.sum(dims, True)
    return grad.view(shape) if lead else grad


def _accumulate_leaf(node: AccumulateGrad, grad: Tensor, create_graph: bool) -> None:
    leaf = node.variable
    ag = leaf._autograd()
    old = ag.grad
    if old is None:
        ag.grad = _first_grad(grad, leaf.meta, create_graph)
    elif tls.st.grad_enabled:
        ag.grad = old + grad
    else:
        old.add_(grad)
    for hook in ag.post_accumulate_hooks or ():
        hook(leaf)


def _first_grad(grad: Tensor, meta: TensorMeta, create_graph: bool) -> Tensor:
    """A leaf's first gradient: the tensor itself if ours alone and laid out as T59 says."""
    good = grad.meta.strides == meta.strides if meta.is_dense else grad.meta.is_contiguous
    if create_graph:
        return grad if good else grad.clone()
    # Held by: two callers' locals, our parameter, getrefcount's argument. As in PyTorch, a gradient
    # that is a view of a tensor nobody else looks at is taken too.
    if good and sys.getrefcount(grad) <= _ONLY_OURS + 1:
        return alias(grad) if grad._ag is not None or grad._base is not None else grad
    if meta.is_dense and grad.meta.shape == meta.shape:
        fresh = grad.new_empty_strided(meta.shape, meta.strides)
        return fresh.copy_(grad)
    return grad.contiguous() if not grad.meta.is_contiguous else grad.clone()


def _run_pre_hooks(node: Node, grads: list[Grad]) -> None:
    for number, hook in list(node.pre_hooks or ()):
        grad = grads[number]
        if grad is None:
            continue
        replaced = hook(grad)
        if replaced is None:
            continue
        if not isinstance(replaced, Tensor) or replaced.meta.shape != grad.meta.shape:
            raise RuntimeError(
                f"a hook on an output of {node.name()} has changed the size of value: expected a "
                f"tensor of shape {list(grad.meta.shape)}, got {replaced!r}"
            )
        grads[number] = replaced


def _captures(wanted: Sequence[Edge] | None) -> dict[Node, list[tuple[int, int]]]:
    captures: dict[Node, list[tuple[int, int]]] = {}
    for slot, (node, number) in enumerate(wanted or ()):
        captures.setdefault(node, []).append((number, slot))
    return captures


def _dependencies(roots: Sequence[Edge], needed: set[Node] | None) -> dict[Node, int]:
    """For each node reached, how many gradients it waits for."""
    waiting: dict[Node, int] = {node: 0 for node, _ in roots}
    stack = list(waiting)
    while stack:
        node = stack.pop()
        if needed is not None and node not in needed:
            continue
        for edge in node.edges:
            if edge is None:
                continue
            target = edge[0]
            if target in waiting:
                waiting[target] += 1
            else:
                waiting[target] = 1
                stack.append(target)
    return waiting


def _needed(roots: Sequence[Edge], wanted: Sequence[Edge]) -> set[Node]:
    """The nodes to run: those with a path to a wanted node that still leads below it."""
    goals = {node for node, _ in wanted}
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [node for node, _ in roots]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack += [e[0] for e in node.edges if e is not None]
    needed: set[Node] = set()
    # An edge leads to a node made earlier, but for accumulators, which lead nowhere.
    for node in sorted(order, key=lambda n: -1 if not n.edges else n.sequence):
        if any(e is not None and (e[0] in goals or e[0] in needed) for e in node.edges):
            needed.add(node)
    return needed
