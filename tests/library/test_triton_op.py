"""`triton_op` and `wrap_triton`, with a stand-in for Triton's kernels (L54)."""

import pytest

import maquette as mq
from maquette.fx import make_fx
from maquette.library import opcheck, triton_op, wrap_triton

Tensor = mq.Tensor


class Kernel:
    """What a Triton kernel looks like: launched on a grid, its function in ``fn``."""

    def __init__(self):
        self.launches = []

    def fn(self, x, out, n):
        raise NotImplementedError("compiled")

    arg_names = ("x", "out", "n")

    def __getitem__(self, grid):
        def launch(x, out, n):
            self.launches.append(grid)
            out.copy_(x * n)

        return launch


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def op(ns, kernel):
    @triton_op(f"{ns}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        out = mq.empty_like(x)
        wrap_triton(kernel)[(4,)](x, out, n=3)
        return out + 1

    return f


def test_L54_eager_launches_directly(op, kernel):
    assert op(mq.ones(2)).tolist() == [4, 4]
    assert kernel.launches == [(4,)]


def test_L54_the_body_is_its_own_fake_and_launches_nothing(op, kernel):
    with mq.FakeTensorMode():
        assert op(mq.ones(3)).shape == (3,)
    assert kernel.launches == []


def test_L54_make_fx_shows_the_launch(op, kernel):
    traced = make_fx(lambda x: op(x) * 2, tracing_mode="fake")(mq.ones(2))
    assert "triton_kernel_wrapper_mutation" in traced.code
    traced.graph.eliminate_dead_code()
    traced.recompile()
    assert kernel.launches == []
    assert traced(mq.ones(2)).tolist() == [8, 8]


def test_L54_functionalization_sees_through_it(op, kernel):
    function = mq.func.functionalize(lambda x: op(x) * 2)
    traced = make_fx(function, tracing_mode="fake")(mq.ones(2))
    assert "triton_kernel_wrapper_functional" in traced.code
    assert "mutation" not in traced.code
    assert traced(mq.ones(2)).tolist() == [8, 8]
    assert function(mq.ones(2)).tolist() == [8, 8]


def test_L54_what_is_no_kernel_is_refused():
    with pytest.raises(RuntimeError, match=r"got int: 3.*install it"):
        wrap_triton(3)


def test_L54_a_launch_needs_a_grid(kernel):
    with pytest.raises(RuntimeError, match=r"wrap_triton\(kernel\)\[grid\]"):
        wrap_triton(kernel)(mq.ones(1), mq.ones(1), 2)


def test_L54_it_is_a_custom_op(op):
    op.register_autograd(lambda ctx, grad: grad * 3)
    x = mq.ones(2, requires_grad=True)
    assert mq.autograd.grad(op(x).sum(), x)[0].tolist() == [3, 3]
    assert set(opcheck(op, (x,)).values()) == {"SUCCESS"}
