"""Random bodies of higher-order operators: values, gradients and refusals are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maquette.higher_order as ours
import maquette.torch as mt

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch._higher_order_ops")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
few = settings(
    max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

UNARY = ("sin", "cos", "tanh", "exp", "neg", "sigmoid")
BINARY = ("add", "mul", "sub", "maximum")


@st.composite
def bodies(draw, names):
    """A body as steps (operator, operands): a function of named values and a captured one."""
    steps = []
    for i in range(draw(st.integers(1, 4))):
        known = [*names, "w", *[f"t{k}" for k in range(i)]]
        operator = draw(st.sampled_from((*UNARY, *BINARY)))
        count = 1 if operator in UNARY else 2
        steps.append((operator, [draw(st.sampled_from(known)) for _ in range(count)]))
    return steps


def evaluated(T, steps, values):
    values = dict(values)
    for i, (operator, operands) in enumerate(steps):
        values[f"t{i}"] = getattr(T, operator)(*[values[o] for o in operands])
    return values[f"t{len(steps) - 1}"]


ROWS = np.linspace(-1, 1, 12).reshape(4, 3)


def inputs(T):
    x = T.tensor(ROWS, dtype=T.float64, requires_grad=True)
    w = T.tensor([0.5, -1.0, 2.0], dtype=T.float64, requires_grad=True)
    return x, w


def compared(program):
    """Run a program of (torch, operators) on both sides; values and gradients must agree."""
    found = []
    for T, H in ((torch, theirs), (mt, ours)):
        if T is torch:
            T._dynamo.reset()
        x, w = inputs(T)
        outs = [o for o in program(T, H, x, w) if o is not None]
        total = sum((o * o).sum() for o in outs)
        # PyTorch's results require grad whenever an input does, ours where one is used.
        grads = [None, None]
        if total.requires_grad:
            grads = T.autograd.grad(total, [x, w], allow_unused=True)
        found.append([*outs, *[T.zeros_like(t) if g is None else g for g, t in zip(grads, (x, w))]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)


@few
@given(first=bodies(["x"]), second=bodies(["x"]), positive=st.booleans())
def test_cond(first, second, positive):
    def program(T, H, x, w):
        pred = (x.detach().sum() + (1 if positive else -1)) > 0
        return [
            T.cond(
                pred,
                lambda x: {"a": (evaluated(T, first, {"x": x, "w": w}) + 0 * x,)},
                lambda x: {"a": (evaluated(T, second, {"x": x, "w": w}) + 0 * x,)},
                (x,),
            )["a"][0]
        ]

    compared(program)


@few
@given(carry=bodies(["c", "x"]), out=bodies(["c", "x"]), reverse=st.booleans())
def test_scan(carry, out, reverse):
    def program(T, H, x, w):
        def step(c, row):
            values = {"c": c["s"], "x": row[0], "w": w}
            new = evaluated(T, carry, values).tanh() + 0 * c["s"]
            return {"s": new}, [evaluated(T, out, values).sin() + 0 * c["s"]]

        init = {"s": T.zeros(3, dtype=T.float64)}
        last, outs = H.scan(step, init, (x,), reverse=reverse)
        return [last["s"], outs[0]]

    compared(program)


@few
@given(body=bodies(["x"]), count=st.integers(0, 4))
def test_while_loop(body, count):
    def looped(T, H):
        x, w = [t.detach() for t in inputs(T)]
        i, last = H.while_loop(
            lambda i, x: i < count,
            lambda i, x: (i + 1, (evaluated(T, body, {"x": x, "w": w}) + 0 * x).tanh()),
            (T.tensor(0), x),
        )
        return i.item(), last.numpy()

    found = [looped(torch, theirs), looped(mt, ours)]
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)


@settings(few, max_examples=2)  # PyTorch compiles each body, which takes long
@given(body=bodies(["x", "y"]), other=bodies(["x"]))
def test_map(body, other):
    def program(T, H, x, w):
        def each(row, y):
            first = evaluated(T, body, {"x": row["r"], "y": y, "w": w}).tanh()
            second = evaluated(T, other, {"x": row["r"], "w": w}).sin()
            return {"a": first + 0 * y, "b": [second + 0 * y]}

        found = H.map(each, {"r": x}, w.clone())  # PyTorch refuses what is captured too
        return [found["a"], found["b"][0]]

    compared(program)


# Associative functions of a pair of (coefficient, value), as of a linear recurrence, and of one.
def affine(T, a, b):
    return {"k": a["k"] * b["k"], "v": a["v"] * b["k"] + b["v"]}


def smooth_maximum(T, a, b):
    return {"k": T.logaddexp(a["k"], b["k"]), "v": a["v"] + b["v"]}


@few
@given(
    body=bodies(["x"]),
    combine=st.sampled_from([affine, smooth_maximum]),
    dim=st.integers(0, 1),
    reverse=st.booleans(),
)
def test_associative_scan(body, combine, dim, reverse):
    def program(T, H, x, w):
        rows = {"k": evaluated(T, body, {"x": x, "w": w}).tanh() + 0 * x, "v": x.cos()}
        found = H.associative_scan(
            lambda a, b: combine(T, a, b), rows, dim, reverse=reverse, combine_mode="generic"
        )
        return [found["k"], found["v"]]

    compared(program)


def step_drifting(T, c, x):
    return (c + x).float(), x + 1


def step_giving_itself(T, c, x):
    return c, x + 1


def step_mutating(T, c, x):
    return c + x.add_(1), x + 1


def step_twice(T, c, x):
    new = c + x
    return new, new


@pytest.mark.parametrize(
    "step, told",
    [
        (step_drifting, "same metadata"),
        (step_giving_itself, "aliasing"),
        (step_mutating, "mutation"),
        (step_twice, "aliasing"),
    ],
)
def test_both_refuse(step, told):
    def scanned(T, H):
        x, _ = [t.detach() for t in inputs(T)]
        return H.scan(lambda c, row: step(T, c, row), T.zeros(3, dtype=T.float64), x)

    for T, H in ((torch, theirs), (mt, ours)):
        with pytest.raises(Exception, match=told):
            scanned(T, H)
