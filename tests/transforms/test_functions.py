"""`autograd.Function` under transforms (T71)."""

import numpy as np
import pytest

import maquette as mq
from maquette.autograd import Function
from maquette.torch.autograd import gradcheck
from maquette.transforms import grad, jvp, vmap
from maquette.transforms.forward_ad import _is_fwd_grad_enabled


class Cube(Function):
    """x ** 3, by NumPy."""

    @staticmethod
    def forward(x):
        return mq.tensor(np.array(x.detach()) ** 3)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * Square.apply(x)

    @staticmethod
    def vmap(info, in_dims, x):
        return Cube.apply(x), in_dims[0]

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * 3 * x * x


class Square(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


def test_T71_grad_goes_by_the_class():
    assert grad(Cube.apply)(mq.tensor(2.0)) == 12
    assert grad(grad(Cube.apply))(mq.tensor(2.0)) == 12


@pytest.mark.parametrize(
    "f, expected", [(Square.apply, lambda x: x * x), (grad(Square.apply), lambda x: 2 * x)]
)
def test_T71_a_generated_rule_goes_for_vmap_in_vmap(f, expected):
    x = mq.arange(24.0).view(2, 3, 4)
    assert mq.equal(vmap(vmap(vmap(f)))(x), expected(x))
    assert mq.equal(vmap(vmap(vmap(f), 1, 1), 1, 1)(x), expected(x))


def test_T71_vmap_goes_by_its_method():
    x = mq.arange(3.0)
    assert vmap(Cube.apply)(x).tolist() == [0, 1, 8]
    assert vmap(grad(Cube.apply))(x).tolist() == [0, 3, 12]
    assert grad(lambda x: vmap(Cube.apply)(x).sum())(x).tolist() == [0, 3, 12]


def test_T71_generated_vmap_rules_keep_the_backward():
    x = mq.arange(3.0)
    assert vmap(Square.apply)(x).tolist() == [0, 1, 4]
    assert grad(lambda x: vmap(Square.apply)(x).sum())(x).tolist() == [0, 2, 4]


def test_T71_jvp_goes_by_its_method():
    assert jvp(Cube.apply, (mq.tensor(2.0),), (mq.ones(()),)) == (8, 12)


def test_T71_what_a_transform_needs_is_named():
    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    class Bare(Square):
        generate_vmap_rule = False

    with pytest.raises(RuntimeError, match=r"Old: .* must override the setup_context"):
        grad(Old.apply)(mq.tensor(2.0))
    with pytest.raises(RuntimeError, match="vmap over Bare, but it does not have vmap support"):
        vmap(Bare.apply)(mq.ones(2))
    with pytest.raises(NotImplementedError, match="Square: You must implement the jvp"):
        jvp(Square.apply, (mq.tensor(2.0),), (mq.ones(()),))


class Spread(Function):
    """Its gradient is larger than its input by a dimension."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.expand(3, *x.shape).clone()

    @staticmethod
    def setup_context(ctx, inputs, output): ...

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.parametrize("dim", [0, 1])
def test_a_gradient_that_broadcasts_is_summed_for_each_example(dim):
    x = mq.randn(4, 4)
    found = mq.func.vmap(mq.func.grad(lambda row: Spread.apply(row).sum()), in_dims=dim)(x)
    assert mq.equal(found, mq.full((4, 4), 6.0))


def test_forward_mode_is_off_inside_forward():
    seen = []

    class Asks(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(_is_fwd_grad_enabled())
            return x * x

    Asks.apply(mq.ones(2, requires_grad=True))
    assert seen == [False]
    assert _is_fwd_grad_enabled()


def test_T62_batched_tangents_of_a_function_that_takes_its_context_are_checked() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 2

    x = mq.ones(2, dtype=mq.float64, requires_grad=True)
    assert gradcheck(Double.apply, x, check_forward_ad=True, check_batched_forward_grad=True)
