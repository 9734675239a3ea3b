"""Derivatives of derivatives, in both orders, against differences of gradients (T70, T71)."""

import pytest

import maquette as mq
from maquette.transforms import forward_ad, grad, jvp, linearize, vjp

F = mq.nn.functional
NORMS = {
    "layer_norm": lambda x: F.layer_norm(x, (4,), x[0].flatten()[:4].sin()),
    "group_norm": lambda x: F.group_norm(x, 3),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm in use": lambda x: F.batch_norm(x, mq.ones(6).double(), mq.ones(6).double()),
    "instance_norm": F.instance_norm,
    "logcumsumexp": lambda x: x.logcumsumexp(1),
}


@pytest.mark.parametrize("function", NORMS.values(), ids=NORMS)
def test_T71_second_derivatives_agree_in_both_orders(function):
    mq.manual_seed(0)
    x, v, c = mq.randn(3, 2, 6, 4, dtype=mq.float64).unbind(0)

    def gradient(t):
        return vjp(function, t)[1](c)[0]

    step = 1e-5
    expected = (gradient(x + step * v) - gradient(x - step * v)) / (2 * step)
    forward = jvp(gradient, (x,), (v,))[1]
    reverse = grad(lambda t: (jvp(function, (t,), (v,))[1] * c).sum())(x)
    assert mq.allclose(forward, expected, rtol=1e-5, atol=1e-6)
    assert mq.allclose(reverse, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm", "instance_norm"])
def test_T71_gradients_of_gradients_by_example_are_those_of_a_loop(norm):
    mq.manual_seed(0)
    x, c = mq.randn(2, 3, 2, 6, 4, dtype=mq.float64).unbind(0)
    weight = mq.randn(3, 4 if norm == "layer_norm" else 6, dtype=mq.float64)
    given = {"layer_norm": ((4,),), "batch_norm": (None, None), "instance_norm": (None, None)}
    training = {"training": True} if norm == "batch_norm" else {}

    def function(x, w, c):
        return (getattr(F, norm)(x, *given[norm], w, w, **training) * c).square().sum()

    def total(x, each):
        return sum((part**3).sum() for part in each(grad(function, argnums=(0, 1)))(x, weight, c))

    def loop(f):
        return lambda *given: map(mq.stack, zip(*map(f, *given), strict=True))

    together = grad(lambda x: total(x, mq.func.vmap))(x)
    assert mq.allclose(together, grad(lambda x: total(x, loop))(x))


def test_T71_logcumsumexp_moves_right_over_a_wide_range():
    x, v = mq.tensor([-1000.0, 0.0, 3.0, -5.0]), mq.tensor([1.0, -2.0, 0.0, 4.0])
    _, moved = jvp(lambda t: t.logcumsumexp(0), (x,), (v,))
    assert moved[:2].tolist() == [1, -2]
    weights = mq.tensor([0.0, 0.0, 3.0, -5.0]).exp() * mq.tensor([0.0, 1, 1, 1])
    assert mq.allclose(moved[3], (weights * v).sum() / weights.sum())


def test_T71_no_grad_inside_of_a_function_holds_on_all_levels():
    def function(x):
        length = x.clone()
        with mq.no_grad():
            length.mul_(2)
        return (length * length).sum()

    x = mq.tensor([0.3, 0.7], dtype=mq.float64)
    again = grad(lambda x: grad(function)(x).sum())(x)
    assert again.tolist() == [2.0, 2.0]  # of 2 * length, in which the factor does not move
    along = grad(lambda x: jvp(function, (x,), (mq.ones_like(x),))[1])(x)
    assert along.tolist() == [4.0, 4.0]  # of 4 * length: forward mode takes the factor with it


def test_T71_linearize_is_jvp_where_the_function_says_no_grad():
    def function(x):
        with mq.no_grad():
            squares = x**2
        return x - squares

    x, t = mq.tensor([0.3, 0.7]), mq.tensor([0.5, -0.7])
    assert linearize(function, x)[1](t).tolist() == jvp(function, (x,), (t,))[1].tolist()


def test_T71_grad_and_jvp_work_in_inference_mode():
    with mq.inference_mode():
        x = mq.tensor([1.0, 2.0])
        assert grad(lambda x: (x * x).sum())(x).tolist() == [2.0, 4.0]
        assert jvp(lambda x: x * x, (x,), (x,))[1].tolist() == [2.0, 8.0]


def test_T71_nothing_moves_in_inference_mode():
    def function(x):
        with mq.inference_mode():
            return x * x

    assert jvp(function, (mq.ones(2),), (mq.ones(2),))[1].tolist() == [0.0, 0.0]


def test_T71_logcumsumexp_is_linear_in_tangents_that_are_zero():
    x, t = mq.tensor([-2.0, 3.0, 0.5]), mq.tensor([1.0, 0.0, 2.0])
    expected = jvp(lambda x: x.logcumsumexp(0), (x,), (t,))[1]
    found = linearize(lambda x: x.logcumsumexp(0), x)[1](t)
    assert mq.allclose(found, expected)


WRITES = {
    "square_": lambda t, x: t.square_(),
    "exp_": lambda t, x: t.exp_(),
    "pow_": lambda t, x: t.pow_(3),
    "mul_": lambda t, x: t.mul_(x),
    "div_": lambda t, x: t.div_(x + 3),
    "cumprod_": lambda t, x: t.cumprod_(0),
    "row": lambda t, x: t[1:].mul_(x[1:]).sigmoid_(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("around", [grad, lambda f: jvp_along_ones(grad(f))])
def test_a_gradient_of_a_tangent_of_what_is_written_in_place(write, around):
    def f(x, copy):
        t = x.sin() + 2
        t = t.clone() if copy else t
        WRITES[write](t, x)
        return (t * x).sum()

    x = mq.tensor([0.3, -0.4, 0.9], dtype=mq.float64)
    found = grad(lambda a: jvp_along_ones(around(lambda b: f(b, False)))(a).sum())(x)
    moved = jvp_along_ones(around(lambda b: f(b, True)))
    step = 1e-5 * mq.eye(3, dtype=mq.float64)
    expected = mq.stack([(moved(x + s) - moved(x - s)).sum() / 2e-5 for s in step])
    assert mq.allclose(found, expected, rtol=1e-5, atol=1e-6)


def jvp_along_ones(f):
    return lambda x: jvp(f, (x,), (mq.ones_like(x),))[1]


def test_a_backward_pass_over_a_dual_level_of_what_is_written_in_place():
    x = mq.tensor([0.3, 0.9], requires_grad=True)
    with forward_ad.dual_level():
        t = forward_ad.make_dual(x.sin(), x.cos())
        t.square_()
        tangent = forward_ad.unpack_dual(t).tangent
    (slope,) = mq.autograd.grad(tangent.sum(), x)
    assert mq.allclose(slope, 2 * mq.cos(2 * x))
