"""Recorded calls on fakes by one function are those by three kernels (`derivatives.recorded`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.autograd import record
from maquette.dispatch.operator import resolve_anew
from maquette.fake import cache
from maquette.tensor.storage import observe_allocations

aten = mq.ops.aten


@pytest.fixture(autouse=True)
def nothing_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts that another test has asked for would have three kernels serve every call."""
    monkeypatch.setattr(cache, "_counting", [False])
    resolve_anew()
    yield
    monkeypatch.undo()
    resolve_anew()


def leaf(*shape: int) -> mq.Tensor:
    return mq.ones(shape, requires_grad=True)


def written(*shape: int) -> mq.Tensor:
    t = mq.ones(shape)
    t.add_(1)
    return t.requires_grad_()


CASES: dict[str, Callable[[], Any]] = {
    "two": lambda: leaf(2, 3) * leaf(3),
    "one of two": lambda: mq.ones(2, 3) * leaf(3),
    "a number": lambda: leaf(2, 3) * 2.0,
    "a number first": lambda: 1 - leaf(2, 3),
    "result saved": lambda: leaf(2, 3).exp(),
    "inner": lambda: (leaf(2, 3) * 2).sin() * 3,
    "another dtype": lambda: leaf(2, 3).to(mq.bfloat16),
    "no gradient": lambda: leaf(2, 3).to(mq.int64),
    "list": lambda: mq.cat([leaf(2, 3), mq.ones(1, 3), leaf(2, 3) * 2]),
    "one of several results": lambda: leaf(4, 3).split(2)[1] * 2,
    "view of one of several results": lambda: leaf(4, 3).split(2)[1].t(),
    "view of a view of one of several results": lambda: leaf(4, 3).split(2)[1].t()[:, 1:] * 2,
    "several of a result": lambda: (leaf(4, 3) * 2).unbind()[1],
    "several of a view": lambda: leaf(3, 4).t().chunk(2)[0],
    "several of one of several": lambda: leaf(4, 4).split([1, 3])[1].split([2, 1])[0],
    "list of views": lambda: mq.cat([leaf(3, 2).t(), *leaf(4, 3).chunk(2)]),
    "list with a view that was written": lambda: mq.cat(
        [(leaf(2, 3) * 2).t().mul_(2)[:2], leaf(2, 2)]
    ),
    "first of several new": lambda: leaf(4, 3).topk(2)[0] * 2,
    "several new, one without gradient": lambda: leaf(4, 3).max(1)[1],
    "several new of a view": lambda: leaf(4, 3).t().sort(-1)[0],
    "several new, all saved": lambda: aten.native_layer_norm(leaf(4, 3), [3], None, None, 1e-5)[0],
    "written after several new": lambda: leaf(4, 3).topk(2)[0].div_(2) * 3,
    "by positions": lambda: leaf(4, 3)[mq.tensor([0, 2])],
    "by positions and a slice": lambda: leaf(4, 3)[mq.tensor([0, 2]), 1:],
    "view": lambda: leaf(2, 3).t(),
    "view of a parameter": lambda: mq.nn.Parameter(mq.ones(2, 3)).t(),
    "view of a result": lambda: (leaf(2, 3) * 2).view(3, 2),
    "view of a view": lambda: leaf(2, 3).t()[None],
    "view of memory written": lambda: written(2, 3).t(),
    "view of a view of memory written": lambda: written(2, 3).t().unsqueeze(0) * 2,
    "view in no_grad": lambda: in_no_grad(leaf(2, 3)).unsqueeze(0),
    "view of another dtype": lambda: leaf(2, 4).view(mq.int32),
    "product": lambda: leaf(2, 3, 4).matmul(leaf(2, 4, 5)),
    "view that was written": lambda: (leaf(2, 3) * 2).t().mul_(2).unsqueeze(0),
}


def in_no_grad(t: mq.Tensor) -> mq.Tensor:
    with mq.no_grad():
        return t.t()


def seen(t: mq.Tensor) -> object:
    """All that is known of a tensor and of the node that made it."""
    node = t.grad_fn
    base = None if t._base is None else t._base.meta
    facts = (t.meta, t._keys, t._version, base, t.requires_grad, t.is_leaf, t._storage._nbytes)
    if node is None:
        return facts
    kept = [(k, getattr(node, k)) for k in sorted(dir(type(node))) if k.startswith("_saved_")]
    shown = [(k, v.meta if isinstance(v, mq.Tensor) else v) for k, v in kept]
    links = [(type(n).__name__, i) for n, i in node.next_functions]
    history = t._ag
    assert history is not None
    number = history.output_nr, history.creation_meta, history.view_version if base else 0
    return facts, node.name(), links, shown, node.metas, type(history).__name__, number


def answers(call: Callable[[], mq.Tensor]) -> list[object]:
    """What each of a few calls gives and allocates; backward goes through."""
    resolve_anew()
    found: list[object] = []
    with mq.FakeTensorMode():
        for _ in range(4):
            sizes: list[int] = []
            watch = Sizes(sizes)
            with observe_allocations(watch):
                out = call()
            found.append((repr(seen(out)), sizes))
            if out.requires_grad:
                out.sum().backward()
    return found


class Sizes:
    """Notes the bytes of what is allocated."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def allocated(self, storage: Any, nbytes: Any) -> None:
        self.sizes.append(nbytes)

    def released(self, *storage: Any) -> None:
        pass


@pytest.mark.parametrize("name", CASES)
def test_calls_by_one_function_are_those_by_three_kernels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = answers(CASES[name])
    monkeypatch.setattr(record, "JOINED", [None])
    apart = answers(CASES[name])
    assert joined == apart
    assert len({repr(a) for a in joined}) == 1


def test_common_calls_are_one_function() -> None:
    with mq.FakeTensorMode():
        x = leaf(2, 3)
        for _ in range(3):
            (x * x).t()
    kinds = {k.__code__.co_filename.split()[1] for k in (kernel(aten.mul.Tensor), kernel(aten.t))}
    assert kinds == {"recorded"}


def kernel(op: Any) -> Any:
    """The kernel of an operator that serves fakes that require grad."""
    op = getattr(op, "default", op)
    return next(k for k in op._table.values() if "recorded" in k.__code__.co_filename)


def test_a_tensor_of_another_mode_is_refused_at_every_call() -> None:
    with mq.FakeTensorMode():
        x = leaf(2)
    with mq.FakeTensorMode():
        y = leaf(2)
    for _ in range(4):
        with pytest.raises(AssertionError, match="mode"):
            x * y


def test_an_argument_without_derivative_is_refused_at_every_call() -> None:
    with mq.FakeTensorMode():
        x, weights = leaf(2, 3), leaf(2, 3)
        for _ in range(4):
            aten.binary_cross_entropy.default(x, mq.ones(2, 3), weights.detach())
        for _ in range(4):
            with pytest.raises(RuntimeError, match="not differentiable with respect to"):
                aten.binary_cross_entropy.default(x, mq.ones(2, 3), weights)
