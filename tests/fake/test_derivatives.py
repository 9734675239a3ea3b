"""What formulas of nodes make of fakes is remembered (`maquette.fake.derivatives`)."""

from __future__ import annotations

import gzip
import json
import pathlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.autograd.engine import Run
from maquette.autograd.inplace import CopySlices
from maquette.autograd.node import Node, OpNode
from maquette.core import remembered as answers
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import resolve_anew
from maquette.dispatch.tls import tls
from maquette.fake import cache
from maquette.fake.cache import REMEMBERED_STEPS as REMEMBERED
from maquette.fake.derivatives import steps
from maquette.tensor.storage import observe_allocations

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "conformance"))

import check  # noqa: E402


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


# --- all recorded calls ----------------------------------------------------------------

BACKEND = check.Backend()


def recorded(least: int) -> dict[str, list[Any]]:
    """The first calls of each overload that has differentiable results."""
    cases: dict[str, list[Any]] = {}
    with gzip.open(ROOT / "conformance" / "aten_public.jsonl.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            if line.startswith('{"overload"'):
                continue
            name = line.split('"op":"', 1)[1].split('"', 1)[0]
            kept = cases.setdefault(name, [])
            if len(kept) < least:
                kept.append(json.loads(line))
    return cases


def node_of(case: Any, mode: mq.FakeTensorMode) -> tuple[OpNode, list[Any]] | None:
    """The node of a recorded call of fakes that all require grad where they can, and results."""
    operator = BACKEND.operator(case["op"])
    arguments = check.Arguments(BACKEND, {**case, "resizes": True})
    fakes = {}
    for t in arguments.tensors:
        fake = mode.from_tensor(t).detach()
        if fake.is_floating_point() or fake.is_complex():
            fake = fake.requires_grad_().clone()
        fakes[id(t)] = fake
    args = check.replace(arguments.args, fakes, BACKEND.is_tensor)
    kwargs = {k: check.replace(v, fakes, BACKEND.is_tensor) for k, v in arguments.kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = operator(*args, **kwargs)
        except Exception:  # what a call refuses is other tests' matter
            return None
    results = check.flat_tensors(BACKEND, result)
    nodes = {r.grad_fn for r in results if r.requires_grad}
    node = next(iter(nodes)) if len(nodes) == 1 else None
    if not isinstance(node, OpNode) or node.output_count() != len(results):
        return None
    return node, results


def laid(meta: Any, how: str) -> mq.Tensor:
    """A fake gradient for a result of this meta: contiguous, transposed, or expanded."""
    if how == "expanded" and meta.shape:
        return mq.ones((), dtype=meta.dtype, device=meta.device).expand(meta.shape)
    if how == "transposed" and len(meta.shape) > 1:
        shape = meta.shape[::-1]
        dims = range(len(shape) - 1, -1, -1)
        return mq.ones(shape, dtype=meta.dtype, device=meta.device).permute(*dims)
    return mq.ones(meta.shape, dtype=meta.dtype, device=meta.device)


def step(node: OpNode, grads: list[Any]) -> dict[Node, object]:
    """Take the node's step alone; the gradients by the node that each is for."""
    buffers: dict[Node, object] = {}
    st = tls.st
    st.set_grad_enabled(False)
    try:
        run = Run([(node, 0)], None, retain_graph=True, create_graph=False, accumulate=True)
        run.begin([(node, 0)])
        node.step(grads[0] if node.plain else grads, buffers, run)
    finally:
        st.set_grad_enabled(True)
    return buffers


def described(t: Any, sources: list[Any]) -> object:
    """All that can be known of a fake gradient, and of what it shares with the sources."""
    if t is None:
        return None
    same = [i for i, s in enumerate(sources) if s is t]
    if same:
        return "the source", same[0]
    shares = [i for i, s in enumerate(sources) if s._storage is t._storage]
    base = t._base
    seen = [i for i, s in enumerate(sources) if s is base]
    history = None
    if t._ag is not None:
        history = type(t._ag), t._ag.creation_meta, f"version={t._ag.view_version}"
    return (
        t.meta, t._keys, f"version={t._version}", t.fake_mode, t.constant, t._storage._nbytes,
        shares, history, t.is_inference(), seen or described(base, sources),
        [i for i, s in enumerate(sources) if s._vc is t._vc and t._vc is not None],
    )  # fmt: skip


def differences(case: Any) -> tuple[list[str], int, int]:
    """Where steps differ, how many were taken, and how many of them by a recipe."""
    found: list[str] = []
    taken = by_recipe = 0
    for how in ("contiguous", "transposed", "expanded"):
        REMEMBERED.clear()
        mode = mq.FakeTensorMode()
        seen: list[object] = []
        for run in range(3):
            with mode, pytest.MonkeyPatch.context() as patch:
                if not run:
                    patch.setattr(steps, "may_note", lambda key, mode: False)
                made = node_of(case, mode)
                if made is None:
                    return found, taken, by_recipe
                node, results = made
                grads = [laid(r.meta, how) if r.requires_grad else None for r in results]
                try:
                    buffers = step(node, grads)
                except Exception as error:
                    seen.append(f"{type(error).__name__}: {error}")
                    continue
            answers = [buffers.get(target) for target in node.links[::3]]
            flat = [a if isinstance(a, list) else [a] for a in answers]
            saved = [s for s in node.saved or () if isinstance(s, mq.Tensor)]
            sources = [*(g for g in grads if g is not None), *saved]
            gradients = [g for given in flat for g in given]
            told = [described(g, sources) for g in gradients]
            known = [g for g in gradients if g is not None]
            shared = [[a._storage is b._storage for b in known] for a in known]
            same = [[a is b for b in known] for a in known]
            versions = [s._version for s in sources]
            seen.append([[*told, shared, same, versions]])
        taken += 1
        if any(entry is not None and entry[1] is not None for entry in REMEMBERED.values()):
            by_recipe += 1
        if not repr(seen[0]) == repr(seen[1]) == repr(seen[2]):
            found.append(f"{case['op']}, {how}:\n" + "\n".join(f"    {s}" for s in seen))
    return found, taken, by_recipe


def all_differences(cases: dict[str, list[Any]]) -> tuple[list[str], int, int]:
    """Where steps differ on these calls, how many were taken, and how many by a recipe."""
    found: list[str] = []
    taken = by_recipe = 0
    for calls in cases.values():
        for case in calls:
            differ, some, by = differences(case)
            found += differ
            taken += some
            by_recipe += by
    return found, taken, by_recipe


def test_steps_by_recipes_are_those_by_formulas() -> None:
    cases = recorded(1)
    found, taken, by_recipe = all_differences({n: cases[n] for n in sorted(cases)[::3]})
    assert not found, "\n".join(found[:4])
    assert by_recipe > 0.85 * taken > 400


@pytest.mark.verify
def test_steps_by_recipes_are_those_by_formulas_on_all_calls() -> None:
    found, taken, by_recipe = all_differences(recorded(16))
    assert not found, "\n".join(found[:4])
    assert by_recipe > 0.85 * taken


# --- programs --------------------------------------------------------------------------


def model(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
    h = mq.nn.functional.silu(x @ w.t()).view(2, 2, 2).transpose(0, 1)
    return (h * h.float().pow(2).mean(-1, keepdim=True).rsqrt()).reshape(4, 2).softmax(-1).sum()


def leaves(mode: mq.FakeTensorMode, dtype: mq.dtype = mq.float32) -> tuple[mq.Tensor, mq.Tensor]:
    with mode:
        x = mq.ones(4, 3, dtype=dtype, requires_grad=True)
        return x, mq.ones(2, 3, dtype=dtype, requires_grad=True)


def train(mode: mq.FakeTensorMode, times: int = 1) -> tuple[mq.Tensor, mq.Tensor]:
    """Leaves of the model, after its backward has run so often on leaves like them."""
    for _ in range(times):
        x, w = leaves(mode)
        model(x, w).backward()
    return x, w


class Names(TorchDispatchMode):
    """The operators that are called in the block."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def operators_of_backward(mode: mq.FakeTensorMode) -> list[str]:
    loss = model(*leaves(mode))
    with Names() as names:
        loss.backward()
    return names.seen


class Sizes:
    """The sizes of storages that are made."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def allocated(self, storage: mq.UntypedStorage, nbytes: int) -> None:
        self.seen.append(nbytes)

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None: ...

    def released(self, storage_id: int) -> None: ...


def sizes_of_backward(mode: mq.FakeTensorMode) -> list[int]:
    loss = model(*leaves(mode))
    with observe_allocations(Sizes()) as sizes:
        loss.backward()
    return sizes.seen


def test_equal_nodes_call_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = mq.FakeTensorMode()
    train(mode, 5)  # its products are composites, which are learnt before their nodes
    loss = model(*leaves(mode))
    called: list[OpNode] = []

    def noting(plain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda node, grads: called.append(node) or plain(node, grads)

    run = Run([(loss.grad_fn, 0)], None, False, False, True)
    run.begin([(loss.grad_fn, 0)])
    for node in run.order:
        monkeypatch.setattr(type(node), "formulas", noting(type(node).formulas))
    loss.backward()
    assert REMEMBERED
    assert not called


def written(mode: mq.FakeTensorMode) -> tuple[mq.Tensor, mq.Tensor]:
    """Leaves after the backward of writes to views."""
    x, w = leaves(mode)
    whole = x * 2
    whole[:2].copy_(w)
    whole[2:].zero_()
    whole.sum().backward()
    return x, w


def test_equal_writes_to_views_call_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = mq.FakeTensorMode()
    first = written(mode)
    monkeypatch.setattr(CopySlices, "apply", None)
    later = written(mode)
    for a, b in zip(first, later, strict=True):
        assert described(a.grad, []) == described(b.grad, [])


def test_writes_to_other_parts_are_learnt_apart() -> None:
    mode = mq.FakeTensorMode()
    for rows in (1, 2, 1):
        with mode:
            part = mq.ones(rows, 3, requires_grad=True)
        whole = leaves(mode)[0] * 2
        whole[:rows].copy_(part)
        whole.sum().backward()
        assert part.grad is not None
        assert part.grad.shape == (rows, 3)


def test_a_mode_sees_the_operators_of_writes_to_views() -> None:
    mode = mq.FakeTensorMode()
    written(mode)
    with Names() as names:
        written(mode)
    assert names.seen.count("aten.as_strided.default") == 2


def test_gradients_are_those_of_the_first_run() -> None:
    mode = mq.FakeTensorMode()
    first, later = train(mode, 1), train(mode, 4)
    for a, b in zip(first, later, strict=True):
        assert described(a.grad, []) == described(b.grad, [])


def test_a_mode_sees_every_operator() -> None:
    mode = mq.FakeTensorMode()
    before = operators_of_backward(mode)
    train(mode, 4)
    assert operators_of_backward(mode) == before


def test_observers_of_memory_see_every_storage() -> None:
    mode = mq.FakeTensorMode()
    before = sizes_of_backward(mode)
    train(mode, 4)
    assert sizes_of_backward(mode) == before


def test_counts_of_the_cache_are_of_every_operator() -> None:
    mode = mq.FakeTensorMode()
    train(mode, 4)
    mode.cache_clear()
    assert not REMEMBERED
    train(mode, 3)
    counts = mode.cache_info()
    train(mode)
    more = mode.cache_info()
    assert more.hits - counts.hits == (counts.hits + counts.misses) / 3
    assert not REMEMBERED


def test_tracked_fakes_are_all() -> None:
    mode = mq.FakeTensorMode()

    def tracked() -> int:
        loss = model(*leaves(mode))
        with mq.fake.track_fakes() as fakes:
            loss.backward()
            return len(fakes)

    before = tracked()
    train(mode, 4)
    assert tracked() == before


def test_what_is_saved_may_be_of_a_meta_that_no_operator_made() -> None:
    with mq.FakeTensorMode():
        for _ in range(3):
            x = mq.ones(7, 26, requires_grad=True)
            left, right = (x * 1).chunk(2, dim=-1)
            (left * right).sum().backward()
    assert None not in REMEMBERED.values()


def test_a_mode_has_gradients_of_its_own() -> None:
    train(mq.FakeTensorMode(), 4)
    mode = mq.FakeTensorMode()
    x, w = train(mode)
    assert x.grad.fake_mode is w.grad.fake_mode is mode


def test_a_saved_tensor_that_was_modified_is_refused() -> None:
    mode = mq.FakeTensorMode()
    train(mode, 4)
    x, w = leaves(mode)
    loss = model(x, w)
    with mq.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_second_backward_is_refused_unless_the_graph_is_retained() -> None:
    mode = mq.FakeTensorMode()
    train(mode, 4)
    x, w = leaves(mode)
    loss = model(x, w)
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad._version == 1  # the second was added
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_hooks_have_gradients_and_change_them() -> None:
    mode = mq.FakeTensorMode()
    train(mode, 4)
    with mode:
        x = mq.ones(4, 3, requires_grad=True)
        y = x * 2
        seen: list[mq.Size] = []
        y.register_hook(lambda grad: seen.append(grad.shape))
        x.register_hook(lambda grad: grad.double().float().expand(4, 3))
        y.sum().backward()
    assert seen == [(4, 3)]
    assert x.grad.stride() == (3, 1)


def test_symbolic_sizes_are_not_remembered() -> None:
    env = mq.symbolic.ShapeEnv()
    mode = mq.FakeTensorMode(shape_env=env)
    for _ in range(3):
        x = mode.from_tensor(mq.ones(4, 3)).requires_grad_()
        (x * x).sum().backward()
    assert not REMEMBERED


def test_no_more_is_remembered_than_the_process_may() -> None:
    mode = mq.FakeTensorMode()
    before = answers.LIMIT
    try:
        answers.LIMIT = 50
        for n in range(1, 60):
            with mode:
                x = mq.ones(n, requires_grad=True)
                (x * x).sum().backward()
        assert len(REMEMBERED) <= 50
    finally:
        answers.LIMIT = before


# --- formulas of users -----------------------------------------------------------------

DEFINED = 0


def operator(formula: Callable[..., object]) -> Any:
    """A page of a user's with this derivative, of (grad, self)."""
    global DEFINED
    DEFINED += 1
    page = mq.library.page.define(f"derived::own{DEFINED}(Tensor self) -> Tensor")
    page.shape(lambda self: self.like())
    page.kernel(lambda xp, self: xp.array(self))
    page.derivative(self=formula)
    return page


def runs(formula: Callable[..., Any], times: int = 5) -> int:
    """How often a formula runs in as many equal backwards."""
    count = 0

    def counted(grad: mq.Tensor, self: mq.Tensor) -> Any:
        nonlocal count
        count += 1
        return formula(grad, self)

    op, mode = operator(counted), mq.FakeTensorMode()
    for _ in range(times):
        with mode:
            x = mq.ones(3, requires_grad=True)
            op(x).backward(mq.ones(3))
    return count


def test_a_formula_of_metas_runs_once() -> None:
    assert runs(lambda grad, self: grad * self) == 1


def test_the_ninth_of_other_metas_is_written_down_when_it_comes_again() -> None:
    count = 0

    def formula(grad: mq.Tensor, self: mq.Tensor) -> Any:
        nonlocal count
        count += 1
        return grad * self

    op = operator(formula)
    with mq.FakeTensorMode():
        for size in [*range(1, 10), 9, 9, 8]:
            op(mq.ones(size, requires_grad=True)).backward(mq.ones(size))
    assert count == 10


def test_a_random_formula_runs_each_time() -> None:
    assert runs(lambda grad, self: grad * mq.rand_like(self)) == 5


def test_a_formula_with_a_tensor_from_elsewhere_runs_each_time() -> None:
    with mq.FakeTensorMode() as mode:
        scale = mq.ones(3)
    op = operator(lambda grad, self: grad * scale)
    with mode:
        for _ in range(4):
            x = mq.ones(3, requires_grad=True)
            op(x).backward(mq.ones(3))
    assert all(entry is None for key, entry in REMEMBERED.items())


def test_a_formula_that_writes_its_gradient_runs_each_time() -> None:
    assert runs(lambda grad, self: grad.mul_(2)) == 5


def test_a_formula_with_a_users_fake_implementation_runs_each_time() -> None:
    @mq.library.custom_op("derived::scaled", mutates_args=())
    def scaled(x: mq.Tensor) -> mq.Tensor:
        return x * 2

    scaled.register_fake(lambda x: mq.empty_like(x))
    assert runs(lambda grad, self: scaled(grad)) == 5


def test_a_new_shape_rule_takes_the_place_of_what_is_remembered() -> None:
    inner = operator(lambda grad, self: grad)
    op, mode = operator(lambda grad, self: inner(grad)), mq.FakeTensorMode()

    def strides() -> tuple[int, ...]:
        seen: list[tuple[int, ...]] = []
        with mode:
            x = mq.ones(3, 2, requires_grad=True)
            x.register_hook(lambda grad: seen.append(grad.stride()))
            op(x).backward(mq.ones(3, 2))
        return seen.pop()

    assert {strides() for _ in range(4)} == {(2, 1)}
    inner.shape(lambda self: self.fresh(self.shape, strides=(1, 3)))
    assert {strides() for _ in range(4)} == {(1, 3)}


def test_gradients_that_were_one_tensor_may_be_two_the_next_time() -> None:
    page = mq.library.page.define("derived::two(Tensor a, Tensor b) -> (Tensor, Tensor)")
    page.shape(lambda a, b: (a.like(), b.like()))
    page.derivative("a", "b")(lambda grads: (grads[0], grads[1]))
    with mq.FakeTensorMode():
        for same in (True, True, True, False):
            a, b = mq.ones(4, requires_grad=True), mq.ones(4, requires_grad=True)
            seen: list[mq.Tensor] = []
            a.register_hook(seen.append)
            b.register_hook(seen.append)
            first = mq.ones(4)
            mq.autograd.backward([*page(a, b)], [first, first if same else mq.ones(4)])
    assert seen[0]._storage is not seen[1]._storage


def test_a_symbolic_factor_is_not_guarded() -> None:
    env = mq.symbolic.ShapeEnv()
    mode = mq.FakeTensorMode(shape_env=env)
    size = mode.from_tensor(mq.ones(4)).shape[0]
    guards = len(env.guards)
    for _ in range(3):
        with mode:
            x = mq.ones(3, requires_grad=True)
            (x * (size / 2)).sum().backward()
    assert len(env.guards) == guards


def test_nested_tensors_elsewhere_change_nothing() -> None:
    ragged = torch.nested.nested_tensor([mq.ones(2, 3), mq.ones(1, 3)], layout=torch.jagged)
    (ragged * 2).sum()
    mode = mq.FakeTensorMode()
    train(mode, 3)
    assert REMEMBERED
    assert None not in REMEMBERED.values()
