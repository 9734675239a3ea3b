"""`cond`, `while_loop`, `scan`, `map`, `associative_scan`: eager, recorded, transformed, traced."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maquette as mq
import maquette.torch as torch
from maquette.fx.tracing.proxy_tensor import make_fx
from maquette.higher_order import associative_scan, cond, scan, while_loop
from maquette.higher_order import map as map_over
from maquette.transforms import functionalize, grad, jvp, vmap

X = mq.tensor([[0.5, 1.0], [2.0, -3.0], [4.0, 0.25]], dtype=mq.float64)


def sin(x):
    return x.sin()


def cos(x):
    return x.cos()


def chosen(x):
    return cond(x.sum() > 0, sin, cos, (x,))


def step(carry, x):
    return carry * x + 1, {"seen": carry + x}


def scanned(x):
    carry, out = scan(step, mq.ones(2, dtype=mq.float64), x)
    return carry.sum() + (out["seen"] ** 2).sum()


def looped(x):
    carry, outs = mq.ones(2, dtype=mq.float64), []
    for row in x:
        outs.append(carry + row)
        carry = carry * row + 1
    return carry.sum() + (mq.stack(outs) ** 2).sum()


def grads_of(f, x):
    x = x.clone().requires_grad_()
    return mq.autograd.grad(f(x), x)[0]


# --- cond -------------------------------------------------------------------------------------


def test_cond_takes_the_branch_that_holds():
    assert (chosen(X) == X.sin()).all()
    assert (chosen(-X) == (-X).cos()).all()


def test_cond_is_differentiated_through_what_it_captures():
    w = mq.ones(2, dtype=mq.float64, requires_grad=True)
    cond(mq.tensor(True), lambda x: (x * w).sum(), lambda x: x.sum(), (X,)).backward()
    assert (w.grad == X.sum(0)).all()


def test_cond_under_grad_jvp_and_vmap():
    assert (grad(lambda x: chosen(x).sum())(X) == X.cos()).all()
    assert (jvp(chosen, (X,), (mq.ones_like(X),))[1] == X.cos()).all()
    preds = mq.tensor([True, False, True])
    found = vmap(lambda p, x: cond(p, sin, cos, (x,)))(preds, X)
    assert (found == mq.where(preds[:, None], X.sin(), X.cos())).all()


def test_cond_on_fakes_runs_both_branches():
    with mq.FakeTensorMode() as mode:
        x = mode.from_tensor(X)
        assert chosen(x).shape == X.shape
        with pytest.raises(RuntimeError, match=r"true_fn and false_fn.*differs in shape"):
            cond(x.sum() > 0, sin, lambda x: x[0].cos(), (x,))


def test_cond_traced_is_one_node_of_two_graphs():
    traced = make_fx(chosen)(X)
    found = [n for n in traced.graph.nodes if n.target is mq.ops.higher_order.cond]
    assert len(found) == 1
    assert (traced(X) == X.sin()).all()
    assert (traced(-X) == (-X).cos()).all()


def test_cond_traced_with_its_backward():
    traced = make_fx(lambda x: grads_of(lambda x: chosen(x).sum(), x.detach()))(X)
    assert (traced(X) == X.cos()).all()
    assert (traced(-X) == -(-X).sin()).all()


def test_cond_functionalized():
    def f(x):
        return cond(x.sum() > 0, lambda x: x.clone().add_(1), cos, (x,))

    assert (functionalize(f)(X) == X + 1).all()
    assert "add_" not in make_fx(functionalize(f))(X).true_graph_0.code


def test_cond_refuses_what_it_cannot_decide_by():
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        cond(X > 0, sin, cos, (X,))
    with pytest.raises(RuntimeError, match="Expected pred to be bool or tensor"):
        cond("yes", sin, cos, (X,))
    with pytest.raises(RuntimeError, match="Expect both branches to be callable"):
        cond(True, sin, 3, (X,))
    with pytest.raises(RuntimeError, match="Expect operands to be a tuple"):
        cond(True, sin, cos, ("x",))


# --- while_loop -------------------------------------------------------------------------------


def doubled(i, x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (i, x))


def test_while_loop_runs_until_the_condition_fails():
    i, x = doubled(mq.tensor(0), X)
    assert i == 3
    assert (x == X * 8).all()


def test_while_loop_traced_and_functionalized():
    traced = make_fx(doubled)(mq.tensor(0), X)
    assert (traced(mq.tensor(1), X)[1] == X * 4).all()
    assert (functionalize(doubled)(mq.tensor(0), X)[1] == X * 8).all()


def test_while_loop_names_the_leaf_that_drifts():
    with pytest.raises(RuntimeError, match=r"while_loop.*leaf \[1\]\['a'\] differs in dtype"):
        while_loop(
            lambda i, d: i < 3,
            lambda i, d: (i + 1, {"a": d["a"].to(mq.float32)}),
            (mq.tensor(0), {"a": X}),
        )


def test_while_loop_refuses_other_conditions_and_bodies():
    with pytest.raises(RuntimeError, match="cond_fn must return a boolean scalar tensor"):
        while_loop(lambda x: x, lambda x: (x,), (X,))
    with pytest.raises(RuntimeError, match="body_fn should return a tuple"):
        while_loop(lambda x: x.sum() < 100, lambda x: x * 2, (X,))


# --- scan, map, associative_scan ----------------------------------------------------------------


def test_scan_equals_a_loop_with_its_gradient():
    assert scanned(X) == looped(X)
    assert (grads_of(scanned, X) == grads_of(looped, X)).all()


def test_scan_under_transforms():
    assert (grad(scanned)(X) == grads_of(looped, X)).all()
    rows = mq.stack([X, X * 2])
    assert (vmap(scanned)(rows) == mq.stack([looped(r) for r in rows])).all()
    assert functionalize(scanned)(X) == looped(X)


def test_scan_traced_and_on_fakes():
    traced = make_fx(scanned)(X)
    assert mq.ops.higher_order.scan in [n.target for n in traced.graph.nodes]
    assert traced(X * 2) == looped(X * 2)
    with mq.FakeTensorMode() as mode:
        carry, out = scan(step, mq.ones(2, dtype=mq.float64), mode.from_tensor(X))
        assert (carry.shape, out["seen"].shape) == ((2,), (3, 2))


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 5), dim=st.integers(-2, 1), reverse=st.booleans(), seed=st.integers(0, 99)
)
def test_scan_along_any_dimension_either_way(rows, dim, reverse, seed):
    mq.manual_seed(seed)
    x = mq.randn(rows, rows, dtype=mq.float64)
    _, found = scan(
        lambda c, x: (c + x, c + x), mq.zeros(rows, dtype=mq.float64), x, dim=dim, reverse=reverse
    )
    moved = x.movedim(dim, 0)
    expected = moved.flip(0).cumsum(0).flip(0) if reverse else moved.cumsum(0)
    assert torch.allclose(found, expected)


def test_scan_refuses_a_carry_that_changes():
    with pytest.raises(RuntimeError, match=r"scan: expected init and carry.*differs in shape"):
        scan(lambda c, x: (c[:1] + 1, x + 1), mq.ones(2, dtype=mq.float64), X)


def test_map_equals_a_loop():
    found = map_over(lambda x, y: (x * y, x.sum()), X, mq.tensor([2.0, 3.0], dtype=mq.float64))
    assert (found[0] == X * mq.tensor([2.0, 3.0], dtype=mq.float64)).all()
    assert (found[1] == X.sum(1)).all()
    assert (grads_of(lambda x: map_over(sin, x).sum(), X) == X.cos()).all()


def test_map_refuses_lengths_that_differ():
    with pytest.raises(RuntimeError, match="Leading dimensions of mapped xs must be consistent"):
        map_over(lambda d: d[0], [X, X[:2]])


@settings(deadline=None, max_examples=25)
@given(length=st.integers(1, 9), reverse=st.booleans())
def test_associative_scan_of_an_affine_recurrence(length, reverse):
    mq.manual_seed(length)
    a, b = mq.rand(length, 2, dtype=mq.float64), mq.rand(length, 2, dtype=mq.float64)

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    _, found = associative_scan(combine, (a, b), 0, reverse=reverse, combine_mode="generic")
    state = mq.zeros(2, dtype=mq.float64)
    for i in reversed(range(length)) if reverse else range(length):
        state = state * a[i] + b[i]
        assert torch.allclose(found[i], state)


def test_associative_scan_pointwise_is_for_cuda():
    with pytest.raises(ValueError, match="all input tensors need to be on CUDA"):
        associative_scan(lambda a, b: a + b, X, 0)
