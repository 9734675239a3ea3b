"""Each higher-order operator in each setting: the cells of the table in docs/higher_order.md.

A program calls its operator; its reference says the same with plain operators. `tools/hop_table.py`
runs these tests and writes the table from those that pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn
from maquette.fx.tracing.proxy_tensor import make_fx
from maquette.higher_order import (
    associative_scan,
    auto_functionalized,
    auto_functionalized_v2,
    checkpoint,
    cond,
    flex_attention,
    invoke_subgraph,
    out_dtype,
    run_and_save_rng_state,
    scan,
    while_loop,
    with_effects,
    wrap,
)
from maquette.higher_order import map as map_over
from maquette.plan.recipe import Recipe
from maquette.plan.recorder import Recorder
from maquette.plan.step import run_step
from maquette.symbolic import ShapeEnv
from maquette.transforms import functionalize, grad, vmap

aten = mq.ops.aten
X = mq.tensor([[0.5, 1.0, 0.25], [2.0, -3.0, 1.5]], dtype=mq.float64)


@dataclass(frozen=True)
class Program:
    """A function of one tensor, what it equals, and the settings that it has no meaning in."""

    run: Callable[[Any], Any]
    reference: Callable[[Any], Any]
    without: frozenset[str] = field(default_factory=frozenset)


def summed(a, b):
    return a + b


def looped(x):
    for _ in range(3):
        x = x * 1.5 + 1
    return x


def scanned(x):
    return scan(lambda c, row: (c * row + 1, c + row), mq.ones_like(x[0]), x)[1]


def scanned_reference(x):
    carry, outs = mq.ones_like(x[0]), []
    for row in x.unbind(0):
        outs.append(carry + row)
        carry = carry * row + 1
    return mq.stack(outs)


def attention(x):
    q = x.expand(1, 2, *x.shape)
    score = lambda s, b, h, i, j: s * 0.5  # noqa: E731
    mask = lambda b, h, i, j: i >= j  # noqa: E731
    return flex_attention(q, q, q * 2, score, (mask,), 1.0, {})[0]


def attention_reference(x):
    q = x.expand(1, 2, *x.shape)
    n = x.shape[0]
    seen = mq.arange(n)[:, None] >= mq.arange(n)
    scores = (q @ q.mT * 0.5).masked_fill(~seen, -float("inf"))
    return scores.softmax(-1) @ (q * 2)


def step_of_while(i, x):
    return i + 1, x * 1.5 + 1


_library = mq.library.Library("hop_table", "DEF")
_library.define("scale_(Tensor(a!) x, float by) -> ()")
_library.impl("scale_", lambda x, by: [x.mul_(by), None][1], "CompositeImplicitAutograd")
_library.define("doubled(Tensor x) -> Tensor")
_library.impl("doubled", lambda x: x * 2, "CompositeImplicitAutograd")
_scale = mq.ops.hop_table.scale_.default
_doubled = mq.ops.hop_table.doubled.default

NO_GRAD = frozenset({"grad", "double grad"})
PROGRAMS = {
    "cond": Program(lambda x: cond(x.sum() > 0, mq.sin, mq.cos, (x,)), mq.sin),
    "while_loop": Program(
        lambda x: while_loop(lambda i, x: i < 3, step_of_while, (mq.tensor(0), x))[1], looped
    ),
    "scan": Program(scanned, scanned_reference),
    "associative_scan": Program(
        lambda x: associative_scan(summed, x, 0, combine_mode="generic"), lambda x: x.cumsum(0)
    ),
    "map": Program(lambda x: map_over(lambda row: row.sin() * 2, x), lambda x: x.sin() * 2),
    "invoke_subgraph": Program(
        lambda x: invoke_subgraph(lambda y: (y * y.sin()), "wave", x), lambda x: x * x.sin()
    ),
    "wrap": Program(lambda x: wrap(lambda y: y.sin() * y, x), lambda x: x.sin() * x),
    "checkpoint": Program(
        lambda x: checkpoint(lambda y: y.sin() * y, x, use_reentrant=False),
        lambda x: x.sin() * x,
    ),
    "flex_attention": Program(attention, attention_reference),
    "auto_functionalized": Program(
        lambda x: auto_functionalized(_scale, x=x, by=2.0)[1], lambda x: x * 2
    ),
    "auto_functionalized_v2": Program(
        lambda x: auto_functionalized_v2(_scale, by=2.0, _x_base_index=0, _all_bases=[x])[1],
        lambda x: x * 2,
    ),
    "with_effects": Program(
        lambda x: with_effects(mq.empty(0), _doubled, x)[1], lambda x: x * 2
    ),
    "out_dtype": Program(
        lambda x: out_dtype(aten.mul.Tensor, mq.float64, x, x), lambda x: x * x
    ),
    "run_and_save_rng_state": Program(
        lambda x: run_and_save_rng_state(aten.mul.Tensor, x, x)[1], lambda x: x * x
    ),
}  # fmt: skip


# --- settings: each checks a program against its reference ------------------------------------


def in_eager(program):
    assert torch.allclose(program.run(X), program.reference(X))


def gradient_of(f, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)[0]


def in_grad(program):
    assert torch.allclose(gradient_of(program.run, X), gradient_of(program.reference, X))
    assert torch.allclose(
        grad(lambda x: (program.run(x) ** 2).sum())(X), gradient_of(program.reference, X)
    )


def second_of(f, x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)
    return torch.autograd.grad((first * X).sum(), x)[0]


def in_double_grad(program):
    assert torch.allclose(second_of(program.run, X), second_of(program.reference, X))


def in_vmap(program):
    rows = mq.stack([X, X * 0.5, X + 1])
    found = vmap(program.run)(rows)
    assert torch.allclose(found, mq.stack([program.reference(r) for r in rows]))


def in_functionalized(program):
    def f(x):
        y = x.clone()
        y.add_(1)
        return program.run(y)

    assert torch.allclose(functionalize(f)(X), program.reference(X + 1))
    assert "add_." not in make_fx(functionalize(f))(X).code


def in_fake(program):
    with mq.FakeTensorMode() as mode:
        found = program.run(mode.from_tensor(X))
    assert isinstance(found, mq.FakeTensor)
    assert found.meta.shape == program.reference(X).meta.shape
    assert found.dtype == program.reference(X).dtype


def in_symbolic(program):
    traced = make_fx(program.run, tracing_mode="symbolic")(X)
    assert torch.allclose(traced(X), program.reference(X))
    longer = mq.cat([X, X, X[:1]]).abs()
    assert torch.allclose(traced(longer), program.reference(longer))
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        assert program.run(mode.from_tensor(X)).dtype == X.dtype


def in_traced(program):
    traced = make_fx(program.run)(X)
    assert torch.allclose(traced(X + 0.5), program.reference(X + 0.5))


class Planned(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def in_plan(program):
    model = Planned(program.run)
    planned = mq.plan.plan(model, (X,))
    real = Recorder()
    run_step(real, model, [X], {}, Recipe(False))
    assert planned.peak_bytes == real.peak_bytes
    assert planned.flops == sum(o.flops for o in real.operations)


SETTINGS = {
    "eager": in_eager,
    "grad": in_grad,
    "double grad": in_double_grad,
    "vmap": in_vmap,
    "functionalized": in_functionalized,
    "fake": in_fake,
    "symbolic": in_symbolic,
    "traced": in_traced,
    "planned": in_plan,
}
CELLS = [(p, s) for p in PROGRAMS for s in SETTINGS if s not in PROGRAMS[p].without]


@pytest.mark.parametrize("operator, setting", CELLS, ids=[f"{p}-{s}" for p, s in CELLS])
def test_operator_in_setting(operator, setting):
    SETTINGS[setting](PROGRAMS[operator])
