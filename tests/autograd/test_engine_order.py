"""The order in which the engine runs nodes, and what it rests on."""

import weakref

from hypothesis import given, settings
from hypothesis import strategies as st

import maquette as mq
from maquette.autograd.node import LAST, Node
from maquette.dispatch.modes import TorchDispatchMode

Step = tuple[str, int, int]
KINDS = ("add", "mul", "view", "write", "write view", "clone", "stack", "split")


def nodes_below(node: Node) -> set[Node]:
    seen: set[Node] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [edge[0] for edge in node.edges if edge is not None]
    return seen


def program(steps: list[Step], leaf: mq.Tensor) -> mq.Tensor:
    """Calls, views and writes, each on tensors made before."""
    made = [leaf.clone(), leaf * 2]
    for kind, i, j in steps:
        a, b = made[i % len(made)], made[j % len(made)]
        if kind == "add":
            made.append(a + b)
        elif kind == "mul":
            made.append(a.clone() * b.sigmoid())  # saves nothing that is written
        elif kind == "view":
            made.append(a.view(2, 2).t().reshape(4))
        elif kind == "write":
            a.add_(b.detach())
        elif kind == "write view":
            a.view(4)[1:3].mul_(0.5)
        elif kind == "clone":
            made.append(a.clone())
        elif kind == "stack":
            made.append(mq.stack([a, b]).sum(0))
        else:
            made.append(mq.cat(a.split(2)))
    return mq.stack(made).sum()


steps = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 9)), max_size=9
)


@given(steps)
@settings(max_examples=60, deadline=None)
def test_an_edge_leads_to_an_earlier_node_or_a_leaf(steps: list[Step]) -> None:
    loss = program(steps, mq.ones(4, requires_grad=True))
    for node in nodes_below(loss.grad_fn):
        for target, _ in (edge for edge in node.edges if edge is not None):
            assert target.sequence == LAST or target.sequence < node.sequence


@given(steps)
@settings(max_examples=60, deadline=None)
def test_T59_gradients_asked_for_are_those_that_accumulate(steps: list[Step]) -> None:
    leaf = mq.linspace(-1, 1, 4, dtype=mq.float64).requires_grad_()
    program(steps, leaf).backward()
    (asked,) = mq.autograd.grad(program(steps, leaf), [leaf])
    assert mq.equal(leaf.grad, asked)


@given(steps)
@settings(max_examples=30, deadline=None)
def test_a_run_that_looks_for_nan_gives_the_same_gradients(steps: list[Step]) -> None:
    leaf = mq.linspace(-1, 1, 4, dtype=mq.float64).requires_grad_()
    program(steps, leaf).backward()
    plain, leaf.grad = leaf.grad, None
    with mq.autograd.set_detect_anomaly(True):
        program(steps, leaf).backward()
    assert mq.equal(plain, leaf.grad)


def test_saved_tensors_live_until_gradients_fit_their_inputs() -> None:
    """As in PyTorch: the sum of a broadcast gradient comes before the node lets go."""
    saved: list[weakref.ref[mq.Tensor]] = []
    alive: list[bool] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is mq.ops.aten.sum.dim_IntList:
                alive.append(saved[0]() is not None)
            return func(*args, **(kwargs or {}))

    bias, x = mq.ones(4, requires_grad=True), mq.ones(3, 4, requires_grad=True)
    factor = x * 2
    saved.append(weakref.ref(factor))
    out = bias * factor
    del factor
    with Watch():
        out.backward(mq.ones(3, 4))
    assert alive == [True]
    assert saved[0]() is None
