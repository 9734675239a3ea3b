"""Traces of control flow: what functions capture of the trace, and what transforms see of it."""

import pytest

import maquette as mq
from maquette.dispatch.operator import OpOverload
from maquette.fx import make_fx
from maquette.higher_order import associative_scan, cond, map, scan, while_loop
from maquette.transforms import functionalize, grad, jvp, vmap
from maquette.transforms.functional import (
    disable_functionalization,
    enable_functionalization,
    from_functional_tensor,
    reapply_views,
    to_functional_tensor,
)

MODES = ["real", "fake", "symbolic"]
X = mq.arange(12.0).view(3, 4) / 10


def chosen(pred, x, y):
    return cond(pred, lambda x: x + y, lambda x: x - y, (x,))


def mapped(pred, x, y):
    return map(lambda row: row * y, x)


def scanned(pred, x, y):
    return scan(lambda carry, row: (carry + row * y, carry.clone()), mq.zeros(4), x)[1]


def looped(pred, x, y):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * y), (mq.tensor(0), x))[1]


def prefixes(pred, x, y):
    return associative_scan(lambda a, b: a * b + y, x, 0, combine_mode="generic")


def nested(pred, x, y):
    def row_of(row):
        return cond(pred, lambda r: r * y, lambda r: r + y, (row,))

    return map(row_of, x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [chosen, mapped, scanned, looped, prefixes, nested])
def test_a_captured_tensor_of_the_trace_is_an_operand(program, mode):
    traced = make_fx(program, tracing_mode=mode)(mq.tensor(True), X, mq.ones(4))
    for pred in (mq.tensor(True), mq.tensor(False)):
        other = mq.full((4,), 2.0)
        assert mq.allclose(traced(pred, X, other), program(pred, X, other))


def test_a_tensor_from_outside_of_the_trace_stays_a_constant():
    outside = mq.full((4,), 3.0)
    traced = make_fx(lambda p, x: chosen(p, x, outside))(mq.tensor(True), X)
    call = next(n for n in traced.graph.nodes if n.op == "call_function")
    assert len(call.args[3]) == 1
    assert mq.equal(traced(mq.tensor(False), X), X - 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize(
    "transformed",
    [
        lambda p, x: vmap(lambda x: chosen(p, x, x * x))(x),
        lambda p, x: grad(lambda x: chosen(p, x, x * x).sum())(x),
        lambda p, x: jvp(lambda x: chosen(p, x, x * x), (x,), (x + 1,))[1],
        lambda p, x: vmap(grad(lambda x: chosen(p, x, x * x).sum()))(x),
    ],
    ids=["vmap", "grad", "jvp", "vmap of grad"],
)
def test_a_transformed_choice_follows_its_predicate_when_the_trace_runs(transformed, taken, mode):
    traced = make_fx(transformed, tracing_mode=mode)(mq.tensor(taken), X)
    for pred in (mq.tensor(True), mq.tensor(False)):
        assert mq.allclose(traced(pred, X), transformed(pred, X))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "transformed",
    [
        lambda x: vmap(lambda x: scanned(None, x, mq.ones(4)), 1)(x.expand(2, 3, 4).movedim(0, 1)),
        lambda x: grad(lambda x: scanned(None, x, x[0]).sum())(x),
        lambda x: jvp(lambda x: mapped(None, x, x[0]), (x,), (x + 1,))[1],
        lambda x: vmap(lambda x: map(lambda a: a.sin(), x))(x),
        lambda x: grad(lambda x: prefixes(None, x, x[1]).sum())(x),
    ],
    ids=["vmap of scan", "grad of scan", "jvp of map", "vmap of map", "grad of associative_scan"],
)
def test_a_transformed_loop_is_traced_with_all_its_steps(transformed, mode):
    traced = make_fx(transformed, tracing_mode=mode)(X)
    assert mq.allclose(traced(X * 2), transformed(X * 2))


def counted(n, x):
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (mq.tensor(0), x))[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [0, 3])
def test_a_transformed_loop_of_unknown_length_is_refused(n, mode):
    def tangent(n, x):
        return jvp(lambda x: counted(n, x), (x,), (x,))[1]

    assert mq.equal(tangent(mq.tensor(n), X), X * 2**n)
    with pytest.raises(RuntimeError, match="data-dependent"):
        make_fx(tangent, tracing_mode=mode)(mq.tensor(n), X)


# --- captured sizes ---------------------------------------------------------------------


SIZED = {
    "cond": lambda x, n: cond(x.sum() > 0, lambda x: x * n, lambda x: x - n, (x,)),
    "map": lambda x, n: map(lambda row: row.new_full((n,), 2.0).sum() * row, x),
    "scan": lambda x, n: scan(lambda c, row: (c + row * n, c * 1), x[0] * 1, x)[1],
    "while_loop": lambda x, n: while_loop(
        lambda i, x: i < n, lambda i, x: (i + 1, x + n), (mq.tensor(0), x)
    )[1],
    "cond in map": lambda x, n: map(
        lambda row: cond(row.sum() > 0, lambda r: r * n, lambda r: r + n, (row,)), x
    ),
}


@pytest.mark.parametrize("captured", [lambda x: x.shape[0] + 1, lambda x: x.shape[0]])
@pytest.mark.parametrize("kind", SIZED)
def test_a_captured_size_of_the_trace_is_an_operand(kind, captured):
    def program(x):
        return SIZED[kind](x, captured(x))

    traced = make_fx(program, tracing_mode="symbolic")(X)
    for x in (X, -X, mq.ones(5, 2)):
        assert mq.allclose(traced(x), program(x))


def test_a_captured_number_that_data_tells_is_an_operand():
    def program(n, x):
        n = n.item()
        return map(lambda row: row * n, x)

    traced = make_fx(program, tracing_mode="symbolic")(mq.tensor(3), X)
    assert mq.equal(traced(mq.tensor(5), X), X * 5)


def test_sizes_among_operands_pass_through_the_backward_of_a_traced_choice():
    def slope(x):
        x = x.detach().requires_grad_()
        y = cond(x.sum() > 0, lambda x, n: x * n, lambda x, n: x + n, (x, x.shape[0] + 1))
        return mq.autograd.grad(y.sum(), x)[0]

    traced = make_fx(slope, tracing_mode="symbolic")(X)
    assert mq.equal(traced(mq.ones(5, 2)), mq.full((5, 2), 6.0))


# --- gradients --------------------------------------------------------------------------


W = mq.tensor([[0.5, -0.2, 0.1, 0.3]] * 4, requires_grad=True)
STEPS = {
    "map": lambda x, w: map(lambda row: (row @ w).tanh() * (row @ W), x),
    "map with arguments": lambda x, w: map(lambda row, w: (row @ w).tanh(), x, w),
    "scan": lambda x, w: scan(lambda c, row: ((c @ w + row @ W).tanh(), c * row), x[0] * 1, x)[1],
    "scan in reverse": lambda x, w: scan(
        lambda c, row: ((c[0] @ w, c[1] + 1), (c[0] * row).sum()),
        (x[0] * 1, mq.tensor(0)),
        x,
        reverse=True,
    )[1],
    "cond": lambda x, w: cond(x.sum() > 0, lambda x: x @ w * x, lambda x: x @ W, (x,)),
    "cond in map": lambda x, w: map(
        lambda row: cond(row.sum() > 0, lambda r: r @ w * r, lambda r: r @ W, (row,)), x
    ),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("mode", ["real", "symbolic"])
@pytest.mark.parametrize("kind", STEPS)
def test_derivatives_of_a_traced_loop_are_loops(kind, mode, order):
    def slopes(x, w):
        leaves = x.detach().requires_grad_(), w.detach().requires_grad_(), W
        found = (STEPS[kind](*leaves[:2]) ** 2).sum()
        for _ in range(order):
            given = mq.autograd.grad(
                found, leaves, create_graph=order > 1, allow_unused=True, materialize_grads=True
            )
            found = sum((g * g).sum() for g in given)
        return given

    traced = make_fx(slopes, tracing_mode=mode, _allow_non_fake_inputs=True)(X, W.detach() + 0.1)
    length = 5 if mode == "symbolic" else 3
    called = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert sum(not isinstance(t, OpOverload) for t in called) >= 2 * order
    for x in (mq.rand(length, 4), -mq.rand(length, 4)):
        expected = slopes(x, W.detach())
        for a, b in zip(traced(x, W.detach()), expected):
            assert mq.allclose(a, b, rtol=1e-3, atol=1e-4)


def looped_to(n, x):
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, (x @ W).sin()), (mq.tensor(0), x))[1]


def slopes_to(n, x):
    return mq.autograd.grad(looped_to(n, x).sum(), (x, W))


@pytest.mark.parametrize("mode", MODES)
def test_a_traced_loop_of_unknown_length_runs_with_parameters(mode):
    traced = make_fx(looped_to, tracing_mode=mode, _allow_non_fake_inputs=True)(mq.tensor(2), X)
    assert mq.allclose(traced(mq.tensor(3), X), looped_to(mq.tensor(3), X))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_traced_loop_of_unknown_length_has_gradients(mode, steps):
    x, n = X.detach().requires_grad_(), mq.tensor(steps)
    traced = make_fx(slopes_to, tracing_mode=mode, _allow_non_fake_inputs=True)(mq.tensor(2), x)
    expected = mq.autograd.grad(looped_to(n, x).sum(), (x, W), allow_unused=True)
    for found, a in zip(traced(n, x), expected):
        assert mq.allclose(found, mq.zeros_like(found) if a is None else a)


def test_a_loop_of_unknown_length_traced_with_real_tensors_has_no_gradient():
    with pytest.raises(RuntimeError, match="traced in the mode 'fake' or 'symbolic'"):
        make_fx(slopes_to)(mq.tensor(2), X.detach().requires_grad_())


# --- functionalization ------------------------------------------------------------------


def for_rows(f):
    return lambda x: vmap(f)(mq.stack([x, -x]))


@pytest.mark.parametrize("wrapped", [lambda f: f, grad, for_rows])
@pytest.mark.parametrize("program", [chosen, mapped, scanned, looped, prefixes, nested])
def test_what_is_functionalized_around_a_function_is_read_by_it(program, wrapped):
    def run(x):
        y = x[1] * 2
        part = y[1:]
        y.add_(1)
        part.mul_(2)
        return program(x.sum() > 0, x, y).sum()

    assert mq.allclose(wrapped(functionalize(run))(X), wrapped(run)(X))


def test_what_is_functionalized_around_a_function_is_not_mutated_by_it():
    def run(x):
        y = x * 2
        return map(lambda row: y[0].add_(1) + row, x)

    with pytest.raises(RuntimeError, match="mutat"):
        functionalize(run)(X)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_traced_choice_reach_what_its_branches_capture(mode):
    def slopes(pred, x, y):
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        loss = cond(pred, lambda x: x * y, lambda x: x + y * y, (x,)).sum()
        return mq.autograd.grad(loss, (x, y))

    traced = make_fx(slopes, tracing_mode=mode)(mq.tensor(True), X, mq.ones(4))
    for pred in (mq.tensor(True), mq.tensor(False)):
        given = (pred, X * 2, mq.full((4,), 3.0))
        assert all(mq.allclose(a, b) for a, b in zip(traced(*given), slopes(*given)))


@pytest.mark.parametrize("views", [True, False])
def test_control_flow_inside_of_what_the_key_functionalizes(views):
    x = to_functional_tensor(X)
    enable_functionalization(reapply_views=views)
    try:
        result = nested(mq.tensor(True), x, mq.ones(4))
        assert reapply_views(views) is views
    finally:
        disable_functionalization()
    assert mq.equal(from_functional_tensor(result), nested(mq.tensor(True), X, mq.ones(4)))


def test_branches_are_compared_where_the_key_functionalizes():
    row = to_functional_tensor(X)[0]
    enable_functionalization(reapply_views=True)
    try:
        with pytest.raises(RuntimeError, match=r"shape|metadata"):
            cond(mq.tensor(True), lambda r: r + 1, lambda r: r[:1] + 1, (row,))
    finally:
        disable_functionalization()


# --- what begins a loop is captured, too -------------------------------------------------

BEGINNING_CAPTURED = {
    "while_loop": lambda x: while_loop(
        lambda i, u: i < 3, lambda i, u: (i + 1, u.sin() + x), (mq.tensor(0), x)
    )[1],
    "scan": lambda x: scan(lambda u, r: (u.sin() + x[0], u + r), x[0], x)[1],
    "scan of all": lambda x: scan(lambda u, r: (u.sin() + x, (u * r).sum()), x, x)[0],
    "cond": lambda x: cond(x.sum() > 0, lambda u: u + x, lambda u: u * x, (x,)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", BEGINNING_CAPTURED)
def test_what_a_loop_begins_with_stays_where_it_is_captured(program, mode):
    f = BEGINNING_CAPTURED[program]
    x = mq.tensor([[0.2, -0.4], [0.7, 0.1]])
    assert mq.allclose(make_fx(f, tracing_mode=mode)(x + 1)(x), f(x))
