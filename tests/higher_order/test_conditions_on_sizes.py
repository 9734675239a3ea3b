"""Predicates that are conditions on sizes: a symbolic trace keeps them, without a guard."""

import operator

import pytest

import maquette as mq
from maquette.fx import make_fx
from maquette.higher_order import cond, while_loop

aten = mq.ops.aten
cond_op = mq.ops.higher_order.cond
X = mq.ones(4, 2)


def sin(x):
    return x.sin()


def cos(x):
    return x.cos()


def symbolic(function, *args):
    traced = make_fx(function, tracing_mode="symbolic")(*args)
    value = next(iter(traced.graph.nodes)).meta["val"]
    return traced, value.fake_mode.shape_env


def calls(traced):
    return [n for n in traced.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("call", [cond, cond_op])
def test_cond_keeps_a_condition_on_a_size_and_guards_nothing(call):
    traced, environment = symbolic(lambda x: call(x.shape[0] == 4, sin, cos, (x,)), X)
    assert [n.target for n in calls(traced)] == [aten.sym_size.int, operator.eq, cond_op]
    assert environment.guards == []
    for x in (X, mq.ones(3, 2)):
        assert mq.equal(traced(x), sin(x) if x.shape[0] == 4 else cos(x))


@pytest.mark.parametrize(
    "condition",
    [
        lambda n, m: n > 3,
        lambda n, m: mq.sym_not(2 * n + m > 13),
        lambda n, m: (n > 3) & (m != 5) & (n <= m),
        lambda n, m: (n == m) | (n > 5),
        lambda n, m: n // 2 < m,
        lambda n, m: n - 4,
        lambda n, m: n > -1,
    ],
)
def test_a_condition_is_computed_from_the_sizes_that_come(condition):
    traced, environment = symbolic(lambda x: cond_op(condition(*x.shape), sin, cos, (x,)), X)
    assert environment.guards == []
    assert calls(traced)[-1].target is cond_op
    for x in (mq.ones(4, 2), mq.ones(3, 3), mq.ones(6, 5), mq.ones(5, 9)):
        assert mq.equal(traced(x), sin(x) if condition(*x.shape) else cos(x))


def test_branches_have_pytorchs_names():
    def twice(x):
        positive = x.shape[0] > 3
        return cond(positive, sin, cos, (x,)) + cond(positive, cos, sin, (x,))

    names = [name for name, _ in symbolic(twice, X)[0].named_children()]
    assert names == ["true_graph_0", "false_graph_0", "true_graph_1", "false_graph_1"]


def test_cond_keeps_a_condition_that_only_data_tells():
    traced, _ = symbolic(lambda x: cond(x.sum().item() > 3, sin, cos, (x,)), X)
    for x in (X, mq.zeros(2, 2)):
        assert mq.equal(traced(x), sin(x) if x.sum() > 3 else cos(x))


def test_a_trace_follows_a_bool_but_the_operator_keeps_it():
    assert [n.target for n in calls(make_fx(lambda x: cond(True, sin, cos, (x,)))(X))] == [
        aten.sin.default
    ]
    traced = make_fx(lambda x: cond_op(True, sin, cos, (x,)))(X)
    assert calls(traced)[0].target is cond_op
    assert calls(traced)[0].args[0] is True


def test_the_gradient_of_a_kept_condition_is_a_condition():
    def slope(x):
        x = x.detach().requires_grad_()
        return mq.autograd.grad(cond(x.shape[0] > 3, sin, cos, (x,)).sum(), x)[0]

    traced, environment = symbolic(slope, X)
    assert environment.guards == []
    assert [n.target for n in calls(traced)].count(cond_op) == 2
    for x in (X, mq.ones(3, 2)):
        assert mq.allclose(traced(x), slope(x))


@pytest.mark.parametrize("tracing_mode", ["fake", "symbolic"])
def test_a_number_that_differs_between_branches_is_a_symbol(tracing_mode):
    def numbered(x):
        return cond(x.sum() > 0, lambda x: (x + 1, 7, 1), lambda x: (x + 2, 7, 2), (x,))

    traced = make_fx(numbered, tracing_mode=tracing_mode)(X)
    for x in (X, mq.zeros(4, 2)):
        assert traced(x)[1:] == numbered(x)[1:]


@pytest.mark.parametrize("tracing_mode", ["fake", "symbolic"])
def test_a_size_that_differs_between_branches_is_a_symbol_in_its_range(tracing_mode):
    def cut(x):
        return cond_op(x.sum() > 0, lambda x: x[:2] + 1, lambda x: x[:1] + 2, (x,))

    traced = make_fx(cut, tracing_mode=tracing_mode)(X)
    value = calls(traced)[-1].meta["val"]
    bounds = value.fake_mode.shape_env.var_to_range[value.shape[0].node.expr]
    assert (bounds.lower, bounds.upper) == (1, 2)
    for x in (X, mq.zeros(4, 2)):
        assert mq.equal(traced(x), cut(x))


def test_branches_of_different_ranks_are_refused():
    with pytest.raises(RuntimeError, match="expected the outputs of true_fn and false_fn"):
        symbolic(lambda x: cond(x.shape[0] > 3, sin, mq.sum, (x,)), X)


def test_numbers_that_differ_are_refused_where_no_symbol_can_be_made():
    with mq.FakeTensorMode(), pytest.raises(RuntimeError, match="fake mode with a ShapeEnv"):
        cond_op(mq.tensor(True), lambda x: (x, 1), lambda x: (x, 2), (mq.ones(2),))


def test_vmap_follows_the_sizes_as_they_are():
    batched = mq.vmap(lambda x: cond(x.shape[0] > 3, sin, cos, (x,)))
    assert mq.allclose(batched(X), X.cos())


# --- while_loop ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tracing_mode", ["fake", "symbolic"])
@pytest.mark.parametrize("start", [0, lambda x: x.shape[1]])
def test_an_int_that_a_loop_carries_is_a_symbol(tracing_mode, start):
    def doubled(x):
        first = start(x) if callable(start) else start
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (first, x))

    traced = make_fx(doubled, tracing_mode=tracing_mode)(X)
    count, value = traced(X)
    expected, by_hand = doubled(X)
    assert count == expected
    assert mq.equal(value, by_hand)


def test_a_loop_asks_for_a_size_of_what_it_carries():
    def doubled(x):
        start = (mq.tensor(0), x)
        return while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x * 2), start)[1]

    traced, environment = symbolic(doubled, X)
    assert environment.guards == []
    assert traced(mq.ones(3, 2)).tolist() == [[8, 8]] * 3


def test_a_loop_may_depend_on_sizes_alone():
    def run(x):
        start = (mq.tensor(0), x)
        return while_loop(lambda i, x: x.shape[0] > 5, lambda i, x: (i + 1, x * 2), start)[1]

    traced, environment = symbolic(run, X)
    assert environment.guards == []
    assert traced(X).tolist() == X.tolist()


def test_a_trace_over_real_tensors_refuses_to_carry_an_int():
    def doubled(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x))

    with pytest.raises(RuntimeError, match="trace in the mode 'fake' or 'symbolic'"):
        make_fx(doubled)(X)


def test_a_known_number_beside_a_symbol_is_no_constant():
    traced, environment = symbolic(lambda i, x: i < x.shape[0], mq.tensor(3), X)
    assert environment.guards == []
    assert not traced(mq.tensor(3), mq.ones(2, 2))
    assert traced(mq.tensor(3), X)
