"""What whole runs of the engine made of fakes is remembered (`maquette.fake.derivatives.runs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import maquette as mq
import maquette.torch as torch
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import resolve_anew
from maquette.fake import cache
from maquette.fake.cache import REMEMBERED_RUNS
from maquette.fake.derivatives import runs
from maquette.tensor.storage import observe_allocations

F = torch.nn.functional
Tensor = Any
Program = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def nothing_counted_or_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts that another test has asked for would have every operator run."""
    monkeypatch.setattr(cache, "_counting", [False])
    resolve_anew()
    REMEMBERED_RUNS.clear()
    yield
    REMEMBERED_RUNS.clear()
    monkeypatch.undo()
    resolve_anew()


@pytest.fixture
def given_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each run whose gradients were given at once, how many leaves it had."""
    found: list[int] = []
    give = runs._give

    def counted(known: Any, mode: Any, nodes: Any, leaves: Any, *, retain: bool) -> None:
        found.append(len(leaves))
        give(known, mode, nodes, leaves, retain=retain)

    monkeypatch.setattr(runs, "_give", counted)
    return found


def leaf(*shape: int, dtype: Any = None) -> Tensor:
    return torch.empty(shape, dtype=dtype, requires_grad=True)


def sharing(leaves: list[Tensor]) -> list[tuple[int, int]]:
    """Which of the leaves' gradients are over the same memory, or count versions together."""
    grads = [t.grad for t in leaves if t.grad is not None]
    storages = [id(g._storage) for g in grads]
    counters = [id(g._vc or g) for g in grads]
    return [(storages.index(s), counters.index(c)) for s, c in zip(storages, counters, strict=True)]


def outcome(t: Tensor) -> tuple[object, ...] | None:
    """All that can be known of a leaf's gradient."""
    g = t.grad
    if g is None:
        return None
    alone = g._base is None and g._ag is None
    return g.meta, g._version, g._keys, alone, g.untyped_storage().nbytes(), g.fake_mode


def trained(program: Program, leaves: list[Tensor], times: int = 6) -> list[object]:
    """What the leaves get, each time."""
    found = []
    for _ in range(times):
        for t in leaves:
            t.grad = None
        program(*leaves).backward()
        found.append([*[outcome(t) for t in leaves], sharing(leaves)])
    return found


def mlp(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> Tensor:
    h = F.gelu(F.linear(x, w, b))
    return F.cross_entropy(F.linear(h, v), torch.zeros(4, dtype=torch.int64))


def shared(x: Tensor, w: Tensor) -> Tensor:
    return ((x @ w @ w).softmax(-1) * x).sum()


def written(x: Tensor, y: Tensor) -> Tensor:
    out = x * 2
    out[1:, :2] = y
    return out.tanh().mean()


def parts(x: Tensor, y: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    top, _ = (a * b).topk(2, dim=-1)
    return top.sum() + y.unbind(0)[1].exp().sum()


def joined(token: Tensor, x: Tensor, places: Tensor) -> Tensor:
    """Gradients that are views of one tensor's memory, as those of class tokens are."""
    return (torch.cat([token, x]) + places).pow(2).sum()


def turned(w: Tensor, x: Tensor) -> Tensor:
    return (w.t().contiguous() + x.expand(5, 3)).pow(2).sum()


PROGRAMS: dict[str, tuple[Program, list[tuple[int, ...]]]] = {
    "mlp": (mlp, [(4, 8), (16, 8), (16,), (10, 16)]),
    "shared": (shared, [(3, 3), (3, 3)]),
    "written": (written, [(4, 4), (3, 2)]),
    "parts": (parts, [(3, 8), (2, 5)]),
    "joined": (joined, [(1, 3), (4, 3), (5, 3)]),
    "turned": (turned, [(3, 5), (1, 3)]),
    "constant": (lambda x: (x * torch.tensor(2.0)).exp().sum(), [(3,)]),
    "norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b).square().mean(), [(2, 6), (6,), (6,)]),
    "lookup": (lambda w: F.embedding(torch.zeros(3, dtype=torch.int64), w).sum(), [(7, 4)]),
    "image": (
        lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2).mean(),
        [(1, 2, 8, 8), (4, 2, 3, 3)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_F7_a_run_that_was_seen_gives_leaves_the_same(name: str, given_at_once: list[int]) -> None:
    program, shapes = PROGRAMS[name]
    with mq.FakeTensorMode():
        leaves = [leaf(*shape) for shape in shapes]
        found = trained(program, leaves)
    assert given_at_once == [len(leaves)] * 4
    assert all(each == found[0] for each in found)


def test_F7_other_modes_and_other_tensors_of_equal_metas_are_served(
    given_at_once: list[int],
) -> None:
    for _ in range(6):
        with mq.FakeTensorMode() as mode:
            leaves = [leaf(3, 3), leaf(3, 3)]
            (found,) = trained(shared, leaves, 1)
            assert [each[-1] for each in found[:2]] == [mode, mode]  # type: ignore[attr-defined]
    assert len(given_at_once) == 4


# --- graphs that are not the one that was seen -------------------------------------------------


def test_F7_one_leaf_twice_is_not_two_leaves() -> None:
    with mq.FakeTensorMode():
        x, y = leaf(3), leaf(3)
        trained(lambda x, y: (x * y).sum(), [x, y])
        x.grad = y.grad = None
        (x * x).sum().backward()
        assert x.grad is not None
        assert y.grad is None


def test_F7_one_node_twice_is_not_two_nodes() -> None:
    def apart(x: Tensor) -> Tensor:
        return (x.exp() * x.exp()).sum()

    def together(x: Tensor) -> Tensor:
        once = x.exp()
        return (once * once).sum()

    with mq.FakeTensorMode():
        x = leaf(3)
        trained(apart, [x])
        expected = trained(together, [leaf(3)], 1)[0]
        assert trained(together, [x], 1)[0] == expected


def test_F7_another_output_of_a_node_is_another_graph(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x = leaf(3, 3)
        trained(lambda x: torch.linalg.qr(x)[0].exp().sum(), [x])
        count = len(given_at_once)
        assert count
        trained(lambda x: torch.linalg.qr(x)[1].exp().sum(), [x], 1)
        assert len(given_at_once) == count


def test_F7_a_leaf_that_now_asks_for_none_gets_none() -> None:
    with mq.FakeTensorMode():
        x, y = leaf(3), leaf(3)
        trained(lambda x, y: (x * y).sum(), [x, y])
        x.grad = y.grad = None
        loss = (x * y).sum()
        y.requires_grad_(False)
        loss.backward()
        assert x.grad is not None
        assert y.grad is None


def test_F7_a_tensor_written_since_is_refused_as_ever(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x, y = leaf(3), leaf(3)

        def program(x: Tensor, y: Tensor) -> Tensor:
            return (x.exp() * y).sum()

        trained(program, [x, y])
        seen = len(given_at_once)
        x.grad = y.grad = None
        h = x.exp()
        loss = (h * y).sum()
        h.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        assert len(given_at_once) == seen
        assert x.grad is None


def test_F7_a_second_backward_is_refused_as_ever(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        leaves = [leaf(3, 3), leaf(3, 3)]
        trained(shared, leaves)
        loss = shared(*leaves)
        loss.backward()
        assert len(given_at_once) == 5
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_F7_a_graph_that_is_kept_runs_again(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        leaves = [leaf(3, 3), leaf(3, 3)]
        trained(shared, leaves)
        for t in leaves:
            t.grad = None
        loss = shared(*leaves)
        loss.backward(retain_graph=True)
        first = [(t.grad, t.grad._version) for t in leaves]
        loss.backward()
        assert len(given_at_once) == 6
        assert [(t.grad, t.grad._version - 1) for t in leaves] == first


def test_F7_gradients_add_up(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        leaves = [leaf(3, 3), leaf(3, 3)]
        trained(shared, leaves)
        before = [t.grad for t in leaves]
        shared(*leaves).backward()
        assert len(given_at_once) == 5
        assert all(t.grad is g for t, g in zip(leaves, before, strict=True))


def test_F7_saved_tensors_are_let_go(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        leaves = [leaf(3, 3), leaf(3, 3)]
        trained(shared, leaves)
        loss = shared(*leaves)
        node = loss.grad_fn.next_functions[0][0]
        assert node._saved_self is not None
        loss.backward()
        assert len(given_at_once) == 5
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            node._saved_self  # noqa: B018  # to read it is the test


# --- whoever could see a run has it run --------------------------------------------------------


def hook_of_tensor(x: Tensor, h: Tensor, seen: list[object]) -> None:
    h.register_hook(lambda g: seen.append(g.shape))


def hook_of_leaf(x: Tensor, h: Tensor, seen: list[object]) -> None:
    x.register_hook(lambda g: seen.append(g.shape))


def hook_of_node(x: Tensor, h: Tensor, seen: list[object]) -> None:
    h.grad_fn.register_hook(lambda given, came: seen.append(came[0].shape))


def prehook_of_node(x: Tensor, h: Tensor, seen: list[object]) -> None:
    h.grad_fn.register_prehook(lambda came: seen.append(came[0].shape))


def hook_after(x: Tensor, h: Tensor, seen: list[object]) -> None:
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.shape))


def kept(x: Tensor, h: Tensor, seen: list[object]) -> None:
    h.retain_grad()
    seen.append(h)


@pytest.mark.parametrize(
    "add", [hook_of_tensor, hook_of_leaf, hook_of_node, prehook_of_node, hook_after, kept]
)
def test_F7_hooks_are_called(add: Callable[..., None], given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x = leaf(3)
        trained(lambda x: x.exp().sin().sum(), [x])
        seen: list[Any] = []
        count = len(given_at_once)
        h = x.exp()
        add(x, h, seen)
        h.sin().sum().backward()
        assert len(given_at_once) == count
        assert seen
        if add is kept:
            assert seen[0].grad is not None


def test_F7_a_mode_sees_every_operator(given_at_once: list[int]) -> None:
    class Seen(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> object:
            self.names.append(func.name())
            return func(*args, **(kwargs or {}))

    with mq.FakeTensorMode():
        x = leaf(3)
        trained(lambda x: x.exp().sum(), [x])
        count = len(given_at_once)
        loss = x.exp().sum()
        with Seen() as seen:
            loss.backward()
        assert "aten::mul.Tensor" in seen.names
        assert len(given_at_once) == count


class Allocations:
    """Counts the storages that are made."""

    def __init__(self) -> None:
        self.count = 0

    def allocated(self, storage: object, nbytes: int) -> None:
        self.count += 1

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None:
        pass

    def released(self, storage_id: int) -> None:
        pass


def test_F7_observers_of_memory_see_every_gradient(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x = leaf(3)
        trained(lambda x: x.exp().sin().sum(), [x])
        count = len(given_at_once)
        loss = x.exp().sin().sum()
        seen = Allocations()
        with observe_allocations(seen):
            loss.backward()
        assert seen.count > 2
        assert len(given_at_once) == count


def test_F7_what_a_user_wrote_is_called_each_time(given_at_once: list[int]) -> None:
    calls: list[object] = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            calls.append(grad)
            return grad * 2

    with mq.FakeTensorMode():
        trained(lambda x: Twice.apply(x).sum(), [leaf(3)])
    assert len(calls) == 6
    assert given_at_once == []


def test_F7_gradients_asked_for_by_themselves_are_made(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x = leaf(3)
        trained(lambda x: x.exp().sin().sum(), [x])
        count = len(given_at_once)
        x.grad = None
        (g,) = torch.autograd.grad(x.exp().sin().sum(), [x])
        x.exp().sin().sum().backward(create_graph=True)
        assert g.shape == x.shape
        assert x.grad.requires_grad
        assert len(given_at_once) == count


def test_F7_a_kernel_registered_since_is_called(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x = leaf(3)
        trained(lambda x: x.exp().sum(), [x])
        count = len(given_at_once)
        calls: list[object] = []
        library = torch.library.Library("aten", "IMPL")

        def cos(x: Tensor) -> Tensor:
            calls.append(x)
            return torch.empty_like(x)

        library.impl("cos", cos, "Meta")
        try:
            trained(lambda x: x.sin().sum(), [x])
        finally:
            library._destroy()
        assert calls
        trained(lambda x: x.exp().sum(), [x], 1)
        assert len(given_at_once) == count


def test_F7_anomaly_mode_has_every_node_run(given_at_once: list[int]) -> None:
    with mq.FakeTensorMode():
        x = leaf(3)
        trained(lambda x: x.exp().sum(), [x])
        count = len(given_at_once)
        with (
            pytest.warns(UserWarning, match="Anomaly"),
            torch.autograd.detect_anomaly(check_nan=False),
        ):
            x.exp().sum().backward()
        assert len(given_at_once) == count


# --- bounds ------------------------------------------------------------------------------------


def test_F7_as_many_are_remembered_as_the_bound_says() -> None:
    with mq.FakeTensorMode():
        for n in range(1, 3 * runs._BOUND):
            trained(lambda x: x.exp().sum(), [leaf(n)], 3)
    assert len(REMEMBERED_RUNS) <= runs._BOUND


def test_F7_graphs_that_are_ever_others_are_no_longer_written_down() -> None:
    with mq.FakeTensorMode():
        for n in range(1, 40):
            trained(lambda x: (x.exp().mean() * x.mean()).relu(), [leaf(n)], 1)
    (beginning,) = REMEMBERED_RUNS.values()
    assert beginning.forms == []


def test_F7_to_clear_the_cache_forgets_runs() -> None:
    with mq.FakeTensorMode():
        trained(lambda x: x.exp().sum(), [leaf(3)])
        assert REMEMBERED_RUNS
        mq.FakeTensorMode.cache_clear()
    assert not REMEMBERED_RUNS


# --- any graph ---------------------------------------------------------------------------------

STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: a.exp(),
    lambda a, b: a - b.detach(),
    lambda a, b: a.t().contiguous().t(),
    lambda a, b: torch.cat([a[:2], b[2:]]),
    lambda a, b: a.softmax(-1) @ b,
    lambda a, b: a.unbind(0)[1] + b,
    lambda a, b: a.clone().mul_(b),
    lambda a, b: a.expand(2, 4, 4)[1] / b,
    lambda a, b: torch.where(b > 0, a, b),
    lambda a, b: a.sum(0, keepdim=True) * b,
]
graphs = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=7,
)


def drawn(graph: list[tuple[int, int, int]]) -> Program:
    def program(*leaves: Tensor) -> Tensor:
        values = list(leaves)
        for step, i, j in graph:
            values.append(STEPS[step](values[i % len(values)], values[j % len(values)]))
        return values[-1].sum()

    return program


@given(st.lists(graphs, min_size=1, max_size=4))
def test_F7_any_graphs_in_turn_give_what_they_give_alone(
    drawn_graphs: list[list[tuple[int, int, int]]],
) -> None:
    def taught(graph: list[tuple[int, int, int]], leaves: list[Tensor]) -> list[object]:
        try:
            return trained(drawn(graph), leaves, 1)
        except RuntimeError as error:  # what requires no grad
            return [str(error)]

    with mq.FakeTensorMode():
        alone = []
        for graph in drawn_graphs:
            REMEMBERED_RUNS.clear()
            alone.append(taught(graph, [leaf(4, 4), leaf(4, 4)]))
        REMEMBERED_RUNS.clear()
        leaves = [leaf(4, 4), leaf(4, 4)]
        for _ in range(5):
            assert [taught(graph, leaves) for graph in drawn_graphs] == alone
