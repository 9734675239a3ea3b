"""Recorded writes by a function of their own are those of the plain form (`record`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
from maquette.autograd import record
from maquette.dispatch.operator import resolve_anew


def leaf(*shape: int) -> mq.Tensor:
    return (mq.arange(float(mq.ones(shape).numel())).reshape(shape) + 1).requires_grad_()


def on_a_view(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
    y = x * 2
    y[0].mul_(w[0])
    return y * w


def twice(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
    return (x * 2).add_(w, alpha=3).exp_().mul_(w)


def of_several(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
    return x.topk(2)[0].div_(w.sum(-1, keepdim=True)) * 3


def retained(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
    y = x * 2
    y.retain_grad()
    return y.mul_(w).add_(1)


CASES: dict[str, Callable[[mq.Tensor, mq.Tensor], mq.Tensor]] = {
    "by itself": lambda x, w: (x * 2).mul_(w),
    "the value before is needed": lambda x, w: w.detach().clone().mul_(x),
    "by a number": lambda x, w: (x * 2).div_(2),
    "the result is saved": lambda x, w: (x * w).sigmoid_(),
    "nothing is saved": lambda x, w: (x * w).relu_().neg_(),
    "copied": lambda x, w: mq.zeros(2, 3).copy_(x * w),
    "filled": lambda x, w: (x * w).masked_fill_(x > 3, 0.0),
    "clamped": lambda x, w: (x * w).clamp_(2, 9),
    "of a view": on_a_view,
    "twice": twice,
    "of several results": of_several,
    "retained": retained,
    "with itself": lambda x, w: (lambda y: y.mul_(y))(x * w),
    "of a leaf": lambda x, w: x.mul_(w),
    "of a view of a leaf": lambda x, w: x[0].mul_(w[0]),
    "of one of several views": lambda x, w: (x * 2).unbind()[0].mul_(w[0]),
    "without gradient": lambda x, w: (x.detach() * 2).add_(w.detach()) * w,
    "of whole numbers": lambda x, w: mq.ones(2, 3, dtype=mq.int64).add_(2) * w,
    "saved and then written": lambda x, w: (lambda y: (y * w, y.add_(1))[0])(x * 2),
}


def answers(case: Callable[[mq.Tensor, mq.Tensor], mq.Tensor]) -> list[object]:
    """Of a few calls: the result, its node and version, and what backward gives."""
    resolve_anew()
    found: list[object] = []
    for _ in range(3):
        x, w = leaf(2, 3), leaf(2, 3)
        try:
            out = case(x, w)
            node = out.grad_fn
            assert node is not None
            links = [type(n).__name__ for n, _ in node.next_functions]
            found.append((node.name(), links, out._version, out.tolist()))
            out.sum().backward()
            found.append([t.grad if t.grad is None else t.grad.tolist() for t in (x, w)])
        except RuntimeError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("name", CASES)
def test_T25_writes_by_one_function_are_those_of_the_plain_form(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = answers(CASES[name])
    monkeypatch.setattr(record, "_writes_plainly", lambda op, plan: False)
    assert answers(CASES[name]) == ours
    monkeypatch.undo()
    resolve_anew()
