"""Composites on fakes are made at once, with one node for several (`maquette.fake.composites`)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.autograd.node import Node, OpNode
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import resolve_anew
from maquette.fake import cache
from maquette.fake.cache import REMEMBERED_COMPOSITES as REMEMBERED
from maquette.fake.composites import kernel
from maquette.fake.composites.node import FoldedNode
from maquette.tensor.storage import observe_allocations

linear = torch.nn.functional.linear
TIMES = 2  # from the second call on, a call is made at once


@pytest.fixture(autouse=True)
def nothing_counted_or_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts that another test has asked for would have every operator run."""
    monkeypatch.setattr(cache, "_counting", [False])
    resolve_anew()
    REMEMBERED.clear()
    yield
    REMEMBERED.clear()
    monkeypatch.undo()
    resolve_anew()


@contextmanager
def running() -> Iterator[None]:
    """Calls run in the block, and nothing is written down."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "may_note", lambda key, mode: False)
        yield


def is_folded(t: mq.Tensor) -> bool:
    return isinstance(t._ag, FoldedNode)


def graph(t: mq.Tensor) -> list[object]:
    """All that the graph above a tensor shows: nodes, edges, what they saved, in their order."""
    nodes: dict[Any, None] = {}
    stack = [t.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in nodes:
            nodes[node] = None
            stack += [n for n, _ in node.next_functions]
    order = sorted(nodes, key=lambda n: -n.sequence)
    at = {n: i for i, n in enumerate(order)}
    found: list[object] = []
    for node in order:
        kept = [(k, getattr(node, k)) for k in sorted(dir(type(node))) if k.startswith("_saved_")]
        saved = [(k, tensor(v) if isinstance(v, mq.Tensor) else v) for k, v in kept]
        found.append((node.name(), [(at.get(n), i) for n, i in node.next_functions], saved))
    return found


def tensor(t: mq.Tensor) -> object:
    base = None if t._base is None else t._base.meta
    return t.meta, t._keys, t._version, base, t.is_leaf, t.requires_grad, t._storage._nbytes


def given(shapes: tuple[tuple[int, ...], ...], wanted: str) -> list[mq.Tensor]:
    """Fakes that are no leaves, but for those after the first; 'g' has them require grad.

    'v': it is a view of a result, 'l': of a leaf that requires none, 's': one of several views.
    """
    made = []
    for i, (shape, letter) in enumerate(zip(shapes, wanted, strict=True)):
        t = mq.ones((2, *shape) if letter == "s" else shape, requires_grad=letter in "gvs")
        t = t * 1 if i == 0 and letter != "l" else t
        made.append(t.unbind()[0] if letter == "s" else t.view(shape) if letter in "vl" else t)
    return made


CALLS = [
    (((2, 3, 4), (5, 4)), wanted) for wanted in ("gg", "g-", "-g", "--")
] + [
    (((3, 4), (5, 4)), "gg"), (((4,), (5, 4)), "gg"), (((2, 2, 3, 4), (5, 4)), "gg"),
    (((3, 4), (5, 4), (5,)), "ggg"), (((2, 3, 4), (5, 4), (5,)), "ggg"),
    (((2, 3, 4), (5, 4), (5,)), "g-g"), (((2, 3, 4), (5, 4), (5,)), "-gg"),
    (((2, 3, 4), (5, 4), (5,)), "gg-"), (((2, 3, 4), (4,)), "gg"),
    (((2, 3, 4), (5, 4)), "vg"), (((2, 3, 4), (5, 4)), "lg"), (((2, 3, 4), (5, 4)), "sg"),
    (((2, 3, 4), (5, 4), (5,)), "vgg"), (((2, 3, 4), (5, 4)), "v-"), (((2, 3, 4), (5, 4)), "gv"),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "wanted"), CALLS)
def test_graphs_of_calls_made_at_once_are_those_of_calls_that_run(shapes: Any, wanted: str) -> None:
    with mq.FakeTensorMode():
        seen = []
        for time in range(TIMES + 2):
            with running() if time == 0 else nullcontext():
                out = linear(*given(shapes, wanted))
            seen.append((is_folded(out), tensor(out), graph(out) if out.requires_grad else None))
    assert all(s[1:] == seen[0][1:] for s in seen)
    assert len({repr(s[1:]) for s in seen}) == 1


@pytest.mark.parametrize(("shapes", "wanted"), CALLS)
def test_gradients_of_calls_made_at_once_are_those_of_calls_that_run(
    shapes: Any, wanted: str
) -> None:
    if "g" not in wanted:
        return
    seen = []
    with mq.FakeTensorMode():
        for time in range(TIMES + 4):
            args = given(shapes, wanted)
            source = args[0]
            grads: list[object] = []
            if source.requires_grad:
                source.register_hook(lambda g, seen=grads: seen.append(tensor(g)))
            with running() if time == 0 else nullcontext():
                out = linear(*args).sin()
            out.sum().backward()
            leaves = [a.grad for a in args[1:] if a.is_leaf]
            seen.append(repr([grads, *(None if g is None else tensor(g) for g in leaves)]))
    assert len(set(seen)) == 1


def folded_linear(*more: str) -> tuple[mq.Tensor, mq.Tensor, mq.Tensor]:
    """A call that was made at once: its result, input and weight."""
    for _ in range(TIMES):
        x, w = given(((2, 3, 4), (5, 4)), "gg")
        out = linear(x, w)
    assert is_folded(out)
    return out, x, w


def test_a_call_without_gradients_has_no_node() -> None:
    with mq.FakeTensorMode():
        folded_linear()
        for _ in range(TIMES):
            with mq.no_grad():
                out = linear(*given(((2, 3, 4), (5, 4)), "gg"))
            assert not out.requires_grad
            assert out.grad_fn is None


def test_a_node_unfolds_where_it_is_shown() -> None:
    with mq.FakeTensorMode():
        out, _, _ = folded_linear()
        node = out.grad_fn
        assert node is not None
        assert node.name() == "UnsafeViewBackward0"
        assert out.grad_fn is node
        assert not is_folded(out)


def test_a_node_unfolds_where_one_after_it_shows_its_edges() -> None:
    with mq.FakeTensorMode():
        out, _, _ = folded_linear()
        ((node, _),) = out.sin().grad_fn.next_functions
        assert node.name() == "UnsafeViewBackward0"
        assert out.grad_fn is node


def test_backward_leaves_a_folded_node_alone() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, _, w = folded_linear()
            out.sum().backward()
        assert is_folded(out)
        assert w.grad is not None
        assert w.grad.shape == w.shape


def test_what_was_freed_says_so_in_its_own_name() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, _, _ = folded_linear()
            total = out.sum()
            total.backward()
        with pytest.raises(RuntimeError, match=r"second time.*MmBackward0"):
            total.backward()


def test_a_second_backward_of_a_retained_graph() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, _, w = folded_linear()
            total = out.sum()
            total.backward(retain_graph=True)
            total.backward()
        assert w.grad is not None
        assert w.grad.shape == w.shape
        assert is_folded(out)


def test_backward_of_a_backward() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, x, w = folded_linear()
            (first,) = torch.autograd.grad(out.sin().sum(), w, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
        assert second.shape == x.shape


def test_an_input_that_was_written_is_refused() -> None:
    messages = set()
    with mq.FakeTensorMode():
        for _ in range(TIMES + 3):
            x, w = given(((2, 3, 4), (5, 4)), "gg")
            out = linear(x, w)
            with mq.no_grad():
                x.add_(1)
            with pytest.raises(RuntimeError) as error:
                out.sum().backward()
            messages.add(str(error.value))
    assert len(messages) == 1
    assert "output 0 of AsStridedBackward0, is at version 1" in messages.pop()


def test_a_weight_with_other_memory_since_is_used_as_it_was() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, _, w = folded_linear()
            held = w._storage
            w.data = mq.ones(5, 4)
            assert w._storage is not held
        saved = out.grad_fn.next_functions[0][0]._saved_mat2
        assert saved._storage is held
        out.sum().backward()


def folded_with_bias() -> mq.Tensor:
    """The result of a call that was made at once, a view of what nobody else has."""
    for _ in range(TIMES):
        out = linear(*given(((2, 3, 4), (5, 4), (5,)), "ggg"))
    assert is_folded(out)
    return out


def test_what_a_result_is_a_view_of_has_its_node() -> None:
    with mq.FakeTensorMode():
        base = folded_with_bias()._base
        assert base.grad_fn.name() == "AddmmBackward0"
        assert not base.is_leaf
        with running():
            expected = linear(*given(((2, 3, 4), (5, 4), (5,)), "ggg"))._base
        assert graph(base) == graph(expected)
        assert tensor(base) == tensor(expected)


def test_a_result_that_is_a_view_may_be_written() -> None:
    seen = []
    with mq.FakeTensorMode():
        for time in range(TIMES + 2):
            with running() if time == 0 else nullcontext():
                args = given(((2, 3, 4), (5, 4), (5,)), "ggg")
                out = linear(*args)
                out[0].mul_(2)
                out.relu_()
            found = graph(out)
            out.sum().backward()
            seen.append(repr((found, tensor(out), [tensor(a.grad) for a in args[1:]])))
    assert len(set(seen)) == 1


def test_a_write_to_what_a_result_is_a_view_of_reaches_the_result() -> None:
    seen = []
    with mq.FakeTensorMode():
        for time in range(TIMES + 2):
            with running() if time == 0 else nullcontext():
                out = linear(*given(((2, 3, 4), (5, 4), (5,)), "ggg"))
                out._base.mul_(2)
            seen.append(repr(graph(out * 3)))
    assert len(set(seen)) == 1


def test_a_call_of_two_views_of_one_tensor_is_not_taken_for_one_of_two_tensors() -> None:
    def saved(x: mq.Tensor, y: mq.Tensor) -> list[bool]:
        node = (x @ y.transpose(-1, -2)).grad_fn.next_functions[0][0]
        kept = (node._saved_self, node._saved_mat2)
        return [k._storage is t._storage for k, t in zip(kept, (x, y), strict=True)]

    with mq.FakeTensorMode():
        for _ in range(TIMES):
            both = mq.ones(4, 3, 5, requires_grad=True) * 1
            assert saved(both[:2], both[2:]) == [True, True]
        for _ in range(TIMES):
            apart = [mq.ones(4, 3, 5, requires_grad=True) * 1 for _ in range(2)]
            assert saved(apart[0][:2], apart[1][2:]) == [True, True]


def test_a_hook_that_looks_at_a_later_node_during_backward() -> None:
    order: list[str] = []
    with mq.FakeTensorMode():
        for _ in range(TIMES + 3):
            order.clear()
            x, w = given(((2, 3, 4), (4, 4)), "gg")
            first = linear(x, w)
            second = linear(first, w)
            middle = second.sin()
            middle.register_hook(lambda g, first=first: order.append(first.grad_fn.name()))
            middle.sum().backward()
            assert w.grad is not None
    assert order == ["UnsafeViewBackward0"]


def test_modes_that_come_with_backward_see_its_operators() -> None:
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> object:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    every = []
    with mq.FakeTensorMode():
        for _ in range(TIMES + 3):
            x, w = given(((2, 3, 4), (5, 4)), "gg")
            total = linear(x, w).sum()
            seen: list[str] = []
            with Seen():
                total.backward()
            every.append(seen)
    assert all(seen == every[0] for seen in every)
    assert every[0].count("aten.mm.default") == 2


def test_observers_of_memory_see_every_storage() -> None:
    class Sizes:
        def allocated(self, storage: object, nbytes: int) -> None:
            sizes.append(nbytes)

        def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None: ...

        def released(self, storage_id: int) -> None:
            sizes.append(-1)

    every = []
    with mq.FakeTensorMode():
        for _ in range(TIMES + 3):
            x, w = given(((2, 3, 4), (5, 4)), "gg")
            out = linear(x, w)
            total = out.sum()
            sizes: list[int] = []
            with observe_allocations(Sizes()):
                total.backward()
                del out, total
            every.append([*sizes])
    assert all(sizes == every[0] for sizes in every)


def test_inputs_are_held_as_long_as_by_the_nodes() -> None:
    alive = set()
    with mq.FakeTensorMode():
        for _ in range(TIMES + 3):
            for wanted in ("gg", "-g", "g-"):
                x, w = given(((2, 3, 4), (5, 4)), wanted)
                refs = weakref.ref(x), weakref.ref(w), weakref.ref(x._storage)
                out = linear(x, w)
                del x, w
                gc.collect()
                before = tuple(r() is None for r in refs)
                out.sum().backward()
                alive.add((wanted, before, tuple(r() is None for r in refs)))
                del out
    assert len(alive) == 3


def test_anomaly_mode_in_backward_alone() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, _, w = folded_linear()
            total = out.sum()
            with pytest.warns(match="Anomaly Detection"), torch.autograd.detect_anomaly():
                total.backward()
        assert w.grad is not None


def test_gradients_at_an_edge_inside() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            out, _, _ = folded_linear()
            total = out.sum()
            node: Any = out.grad_fn.next_functions[0][0]
            edge = torch.autograd.graph.GradientEdge(node, 0)
            (grad,) = torch.autograd.grad(total, edge)
        assert grad.shape == (6, 5)


def test_saved_tensor_hooks_see_what_is_saved() -> None:
    with mq.FakeTensorMode():
        for _ in range(TIMES + 1):
            packed: list[object] = []
            x, w = given(((2, 3, 4), (5, 4)), "gg")
            hooks = torch.autograd.graph.saved_tensors_hooks(
                lambda t, seen=packed: seen.append(t.shape) or t, lambda t: t
            )
            with hooks:
                linear(x, w)
            assert packed == [(4, 5), (6, 4)]


def test_modes_see_the_operators_of_a_call() -> None:
    counts: list[int] = []

    class Counts(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> object:
            counts[-1] += 1
            return func(*args, **(kwargs or {}))

    with mq.FakeTensorMode():
        for _ in range(TIMES + 1):
            folded_linear()
            x, w = given(((2, 3, 4), (5, 4)), "gg")
            counts.append(0)
            with Counts():
                linear(x, w)
    assert set(counts) == {4}


def test_numbers_of_nodes_are_their_own() -> None:
    with mq.FakeTensorMode():
        out, x, _ = folded_linear()
        later = out.sin()
        nodes: list[Node] = [later.grad_fn]
        for node in nodes:
            nodes += [n for n, _ in node.next_functions if isinstance(n, OpNode)]
        numbers = [n.sequence for n in nodes]
        assert len(set(numbers)) == len(numbers)
        assert numbers[0] == max(numbers)
        assert x.grad_fn.sequence == min(numbers)


def test_a_call_in_another_mode_is_refused_as_ever() -> None:
    with mq.FakeTensorMode():
        folded_linear()
        (x,) = given(((2, 3, 4),), "g")
    with mq.FakeTensorMode():
        (_, w) = given(((2, 3, 4), (5, 4)), "gg")
        with pytest.raises(Exception, match=r"[Mm]ode"):
            linear(x, w)


def test_a_kernel_that_a_user_registers_is_heeded() -> None:
    library = torch.library.Library("aten", "IMPL")
    called: list[int] = []

    def mm(a: Any, b: Any) -> Any:
        called.append(1)
        return a.new_empty(a.shape[0], b.shape[1])

    with mq.FakeTensorMode():
        folded_linear()
        torch.library.register_fake("aten::mm", mm, lib=library, allow_override=True)
        try:
            for _ in range(TIMES + 1):
                called.clear()
                x, w = given(((2, 3, 4), (5, 4)), "gg")
                linear(x, w)
                assert called
        finally:
            library._destroy()
