"""Adam where nobody watches: one pass over a parameter, to the bits of the operators one by one."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette import Tensor, optim
from maquette.dispatch.modes import TorchDispatchMode


class Seeing(TorchDispatchMode):
    """Lets all calls pass, and notes their names."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.name())
        return func(*args, **(kwargs or {}))


def stepped(name: str, kind: mq.dtype, options: dict[str, object]) -> list[Tensor]:
    """The parameters and what is kept of them, after three steps."""
    mq.manual_seed(0)
    shapes = [(150, 130), (7, 5), ()]
    params = [mq.randn(shape, dtype=kind, requires_grad=True) for shape in shapes]
    params.append(mq.randn(20, 30, dtype=kind).t().requires_grad_())
    optimizer = getattr(optim, name)(params, lr=0.01, **options)
    for _ in range(3):
        for p in params:
            p.grad = mq.randn(p.shape, dtype=kind)
        optimizer.step()
    return [*params, *[v for p in params for v in optimizer.state[p].values()]]


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"betas": (0.3, 0.9), "eps": 1e-3}])
@pytest.mark.parametrize("kind", [mq.float32, mq.float64])
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_a_pass_gives_the_bits_of_the_operators(name, kind, options):
    found = stepped(name, kind, options)
    with Seeing() as mode:
        expected = stepped(name, kind, options)
    assert "aten::lerp_.Scalar" in mode.seen
    assert "maquette::adam_steps_" not in mode.seen
    assert all(map(mq.equal, found, expected))


def test_a_pass_counts_as_a_write_of_each_tensor():
    p = mq.ones(3, requires_grad=True)
    p.grad = mq.ones(3)
    optimizer, before = optim.Adam([p]), p._version
    optimizer.step()
    assert p._version > before
    assert optimizer.state[p]["exp_avg"]._version > 0
